// SPDX-License-Identifier: Apache-2.0
// Convolutions of each channel by itself on the matrix units, in channels_last.
#include <algorithm>
#include <optional>

#include "backends/cuda/conv/conv_depthwise.h"
#include "backends/cuda/gemm/image_epilogue.h"
#include "backends/cuda/support/constants.h"
#include "backends/cuda/support/half_steps.h"
#include "backends/cuda/support/program_code.h"
#include "base/checked.h"
#include "graph/ops/conv.h"
#include "graph/ops/pointwise.h"

namespace temper::cuda {

namespace {

const ops::Conv& op_of(const Problem& problem) { return problem.op.get<ops::Conv>(); }

Support supports(const Problem& problem) {
  if (Support support = depthwise_supports(problem); !support.yes()) return support;
  const Port& x = problem.inputs[0];
  if (!is_half(x.type.dtype) || problem.inputs[1].type.dtype != x.type.dtype)
    return refused("a product of ", x.type.dtype, " and ", problem.inputs[1].type.dtype);
  if (x.dims()[1] % 8 != 0) return refused(x.dims()[1], " channels, no multiple of 8");
  return supported();
}

// A block of conv_depthwise_matrix.cu, or of conv_depthwise_flow.cu if it `flows`; their texts say what these are.
struct Block {
  int64_t groups, warps, chunks, images, stages, blocks;
  int64_t shared_bytes = 0;
  bool flows = false;

  int64_t threads() const { return 32 * (chunks * warps + (flows ? 1 : 0)); }
  int64_t tile() const { return 16 * groups * warps / images; }
};
// Of a block that flows, `warps` and `chunks` are given, too.
struct Tile {
  bool flows;
  int64_t groups, warps = 0, chunks = 0;
  std::string text() const {
    return flows ? concat("flow=", groups, 'x', warps, 'x', chunks) : concat("groups=", groups);
  }
};
// The likeliest first: the fastest of each of 28 layers that were timed (benchmarks/README.md) is among the first four,
// or within 3 % of one.
std::vector<Tile> tiles_of(const Problem& problem) {
  const Dims weights = problem.inputs[1].dims();
  const int64_t chunks = weights[0] / 8;
  const std::vector<Tile> plain = {{false, 1}, {false, 2}};
  std::vector<Tile> tiles;
  const bool few_left_over = 4 * (round_up<int64_t>(chunks, 4) - chunks) <= chunks;
  if (few_left_over && weights[2] * weights[3] > 25) {
    tiles = {{true, 1, 1, 4}, {true, 1, 2, 8}};
  } else if (few_left_over) {
    const int64_t groups = problem.outputs[0].dims()[3] >= 64 ? 2 : 1;
    tiles = {{true, 1, 1, 8}, {true, 2, 1, 4}, {true, 1, 1, 4}, {true, groups, 2, 4}};
  } else if (chunks > 2) {  // 3, 5, 6 or 9
    const int64_t odd = chunks % 2 == 1 ? chunks : chunks / 2;
    tiles = {{true, 1, 1, odd}, {true, 1, 2, odd}};
  }
  tiles.insert(few_left_over ? tiles.end() : tiles.begin(), plain.begin(), plain.end());
  return tiles;
}

// Warps of an SM, by the registers that they need: mostly for weights and for the sums of rows that are not ended.
int64_t resident_warps(const Dims& weights, int64_t groups) {
  if (weights[2] * weights[3] <= 9) return groups == 1 ? 28 : 20;
  return weights[2] * weights[3] <= 25 && groups == 1 ? 20 : 12;
}

// Of how many chunks slabs are that leave few over, in blocks that leave few warps idle. Blocks of few warps wait less
// for each other; but where almost all of the time goes into reading, pieces of whole lines are read faster.
int64_t chunks_of_slab(int64_t chunks, int64_t resident, bool reads_most) {
  int64_t best = 0;
  double best_worth = 0;
  for (int64_t each = std::min<int64_t>(chunks, reads_most ? 8 : 4); each <= std::min<int64_t>(chunks, 10); ++each) {
    const double filled = double(chunks) / double(ceil_div(chunks, each) * each);
    const int64_t warps = resident / each * each;
    const double busy = double(warps) / double(resident);
    const double worth = filled * (0.7 + 0.3 * busy) * (1 - 0.01 * double(each));
    if (worth <= best_worth) continue;
    best = each;
    best_worth = worth;
  }
  return best;
}

// Nothing where there is no work for so many groups, or too few registers or too little shared memory.
std::optional<Block> block_of(const Problem& problem, int64_t groups, const GpuProperties& gpu) {
  constexpr int64_t kWarps = 5, kStages = 6;  // of a block, at most
  const Dims weights = problem.inputs[1].dims(), out = problem.outputs[0].dims();
  const auto& op = op_of(problem);
  const int64_t width = out[3], batch = out[0], eights = ceil_div<int64_t>(width, 8);
  const int64_t halves = eights == 1 ? batch : eights;
  if (groups > 1 && (groups > ceil_div<int64_t>(halves, 2) || weights[2] * weights[3] > 25)) return {};
  const int64_t resident = resident_warps(weights, groups);
  const bool reads_most = op.strides[0] * op.strides[1] > 1 && weights[2] * weights[3] <= 9;
  Block block{
      .groups = groups, .warps = 1, .chunks = chunks_of_slab(weights[0] / 8, resident, reads_most), .images = 1};
  while (2 * block.warps * block.chunks <= kWarps && halves > 2 * groups * block.warps) block.warps *= 2;
  if (eights == 1) block.images = 2 * groups * block.warps;
  block.blocks = std::max<int64_t>(1, resident / (block.chunks * block.warps));
  const int64_t columns = (block.tile() - 1) * op.strides[1] + weights[3], pitch = (block.chunks | 1) * 16;
  const int64_t stage = op.strides[0] * block.images * ceil_div(columns, op.strides[1]) * op.strides[1] * pitch;
  const int64_t results =
      block.images * block.tile() * (block.chunks * 8 * size_of(problem.outputs[0].type.dtype) | 16);
  const auto bytes = [&](int64_t stages) { return stages * stage + 2 * results + 16; };
  for (block.stages = kStages; block.stages > 2 && block.blocks * bytes(block.stages) > gpu.shared_per_block;
       --block.stages) {}
  block.shared_bytes = bytes(block.stages);
  if (block.shared_bytes > gpu.shared_per_block) return {};
  return block;
}

// Chunks that TMA's swizzling keeps apart; of an odd number neighbouring pixels are in different banks without.
bool is_swizzled(int64_t chunks) { return chunks % 2 == 0; }

// The same of blocks that flow.
std::optional<Block> flow_block_of(const Problem& problem, const Tile& tile, const GpuProperties& gpu) {
  constexpr int64_t kMostColumns = 256, kBarriers = 8;
  const Dims weights = problem.inputs[1].dims(), out = problem.outputs[0].dims();
  const auto& op = op_of(problem);
  if (gpu.capability < 90 || size_of(problem.outputs[0].type.dtype) != 2) return {};
  const int64_t width = out[3], batch = out[0], eights = ceil_div<int64_t>(width, 8), taps = weights[2] * weights[3];
  const int64_t halves = eights == 1 ? batch : eights;
  if (tile.groups * tile.warps > 1 && tile.groups * tile.warps > ceil_div<int64_t>(halves, 2)) return {};
  if (8 * tile.chunks >= 2 * weights[0]) return {};
  if (tile.groups > 1 && taps > 25) return {};
  Block block{.groups = tile.groups, .warps = tile.warps, .chunks = tile.chunks, .images = 1, .flows = true};
  if (eights == 1) block.images = 2 * tile.groups * tile.warps;
  const int64_t ring = ceil_div(weights[2], op.strides[0]);
  block.stages = round_up<int64_t>(4, ring);
  const bool one = tile.groups == 1;
  const int64_t registers = taps <= 9    ? (one ? 48 : 64)
                            : taps <= 25 ? (one ? (op.strides[0] == 1 ? 72 : 80) : 104)
                                         : 104;
  const int64_t columns = (block.tile() - 1) * op.strides[1] + weights[3], pixel = 16 * tile.chunks;
  if (columns > kMostColumns) return {};
  const int64_t stage = round_up<int64_t>(block.images * op.strides[0] * columns * pixel, 1024);
  const int64_t results = round_up<int64_t>(block.images * block.tile() * pixel, 1024);
  block.shared_bytes = block.stages * (stage + results + 2 * kBarriers) + 16;
  if (block.shared_bytes > gpu.shared_per_block) return {};
  block.blocks = std::clamp<int64_t>(gpu.shared_per_block / (block.shared_bytes + 1024), 1,
                                     std::max<int64_t>(1, 4 * (512 / registers) / (block.threads() / 32)));
  return block;
}

std::optional<Block> block_of(const Problem& problem, const Tile& tile, const GpuProperties& gpu) {
  return tile.flows ? flow_block_of(problem, tile, gpu) : block_of(problem, tile.groups, gpu);
}

// Images in channels_last, in boxes of a slab, so many columns, rows and images.
TensorMapSpec map_of(const Dims& dims, const Block& block, int64_t columns, int64_t rows) {
  const auto c = uint64_t(dims[1]), h = uint64_t(dims[2]), w = uint64_t(dims[3]);
  TensorMapSpec map;
  map.element_bytes = 2;
  map.sizes = {c, w, h, uint64_t(dims[0])};
  map.strides = {c * 2, c * w * 2, c * w * h * 2};
  map.box = {uint32_t(8 * block.chunks), uint32_t(columns), uint32_t(rows), uint32_t(block.images)};
  map.steps = {1, 1, 1, 1};
  map.swizzle = is_swizzled(block.chunks) ? int(16 * block.chunks) : 0;
  return map;
}

// Blocks of the whole convolution, of bands of so many rows.
int64_t blocks_in_all(const Problem& problem, const Block& block, int64_t band) {
  const Dims weights = problem.inputs[1].dims(), out = problem.outputs[0].dims();
  return ceil_div(weights[0], 8 * block.chunks) * ceil_div(out[3], block.tile()) * ceil_div(out[0], block.images) *
         ceil_div(out[2], band);
}

// Rows of results of a band: as many as make all waves of blocks together short.
int64_t band_of(const Problem& problem, const Block& block, const GpuProperties& gpu) {
  constexpr int64_t kBegin = 4;  // steps that pass before the first row has come
  const int64_t height = problem.outputs[0].dims()[2], resident = gpu.sms * block.blocks;
  const int64_t before = kBegin + ceil_div<int64_t>(problem.inputs[1].dims()[2], op_of(problem).strides[0]);
  int64_t best = height, least = INT64_MAX;
  for (int64_t bands = 1; bands <= height; ++bands) {
    const int64_t band = ceil_div(height, bands);
    const int64_t steps = ceil_div(blocks_in_all(problem, block, band), resident) * (band + before);
    if (steps >= least) continue;
    best = band;
    least = steps;
  }
  return best;
}

std::vector<Config> configs(const Problem& problem, const GpuProperties& gpu) {
  std::vector<Config> all;
  for (const Tile& tile : tiles_of(problem))
    if (block_of(problem, tile, gpu)) all.push_back(depthwise_config(problem, tile.text()));
  return all;
}

size_t worth_offering(const Problem&, const GpuProperties&) { return 4; }

// The constants that both kernels are compiled with.
std::string constants_text(const Problem& problem, const Block& block) {
  const Dims weights = problem.inputs[1].dims();
  const auto& op = op_of(problem);
  return concat(type_alias("A", memory_type(problem.inputs[0].type.dtype)),
                macro("MATRIX", problem.inputs[0].type.dtype == DType::f16 ? 1 : 2),
                int_constants({{"KERNEL_H", weights[2]},
                               {"KERNEL_W", weights[3]},
                               {"STRIDE_H", op.strides[0]},
                               {"STRIDE_W", op.strides[1]},
                               {"CHUNKS", block.chunks},
                               {"GROUPS", block.groups},
                               {"WARPS", block.warps},
                               {"IMAGES", block.images},
                               {"STAGES", block.stages},
                               {"BLOCKS", block.blocks}}));
}

Recipe::Work work(const Problem& problem, const Config& config, const GpuProperties& gpu) {
  const DType dtype = problem.inputs[0].type.dtype;
  const Dims out = problem.outputs[0].dims();
  Recipe::Work work;
  if (element_count(out) == 0) return work;
  const std::vector<Tile> tiles = tiles_of(problem);
  const auto tile = std::find_if(tiles.begin(), tiles.end(), [&](const Tile& t) { return t.text() == config.text; });
  const auto block = tile == tiles.end() ? std::nullopt : block_of(problem, *tile, gpu);
  if (!block) fail(ErrorKind::bad_file, "cuda.conv.depthwise_matrix has no '", config.text, "'");
  pack_taps(problem, work);
  Job job;
  job.entry = "conv_depthwise";
  job.overlap = true;
  ProgramNumbers numbers;
  const ImageEpilogue epilogue = image_epilogue(problem, ops::accumulator_of(dtype, dtype), 2, numbers);
  job.slots = {{Slot::Kind::input, 0, 0}, {Slot::Kind::packed, 0, 0}};
  job.slots.insert(job.slots.end(), epilogue.slots.begin(), epilogue.slots.end());
  job.slots.push_back({Slot::Kind::output, 0, 0});
  job.source.text = concat(
      "#include \"backends/cuda/support/memory.cuh\"\n", macro("NUMBERS", numbers.text()),
      constants_text(problem, *block), macro("EXTRAS", epilogue.parameters), macro("EXTRA_NAMES", epilogue.names),
      epilogue.text, "#include \"backends/cuda/conv/conv_depthwise_", block->flows ? "flow" : "matrix", ".cu\"\n");
  if (block->flows) {
    const auto& op = op_of(problem);
    const int64_t columns = (block->tile() - 1) * op.strides[1] + problem.inputs[1].dims()[3];
    job.maps.push_back({{Slot::Kind::input, 0, 0}, map_of(problem.inputs[0].dims(), *block, columns, op.strides[0])});
    job.maps.push_back({{Slot::Kind::output, 0, 0}, map_of(out, *block, block->tile(), 1)});
  }
  const int64_t channels = out[1], band = band_of(problem, *block, gpu);
  ParameterWriter writer;
  writer.put(uint32_t(channels))
      .put(uint32_t(out[0]))
      .put_backwards(job)
      .put_divisor(ceil_div(channels, 8 * block->chunks));
  writer.put_divisor(ceil_div(out[3], block->tile())).put_divisor(ceil_div(out[2], band));
  put_window(problem, writer);
  job.parameters = writer.put(int32_t(band)).put_numbers(numbers.values()).finish();
  job.shape.block = {uint32_t(block->threads()), 1, 1};
  job.shape.grid = {uint32_t(blocks_in_all(problem, *block, band)), 1, 1};
  job.shape.shared_bytes = uint32_t(block->shared_bytes);
  work.jobs.push_back(std::move(job));
  return work;
}

}  // namespace

const Recipe conv_depthwise_matrix_recipe{.name = "cuda.conv.depthwise_matrix",
                                          .version = 3,
                                          .supports = supports,
                                          .configs = configs,
                                          .work = work,
                                          .matrix_units = true,
                                          .worth_offering = worth_offering};

}  // namespace temper::cuda
