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

// A block of conv_depthwise_matrix.cu; its text says what these are.
struct Block {
  int64_t groups, warps, chunks, images, stages, blocks;
  int64_t shared_bytes = 0;

  int64_t threads() const { return 32 * chunks * warps; }
  int64_t tile() const { return 16 * groups * warps / images; }
  std::string text() const { return concat("groups=", groups); }
};
constexpr int64_t kGroups[] = {1, 2};

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
  for (int64_t groups : kGroups)
    if (groups == 1 || block_of(problem, groups, gpu))
      all.push_back(depthwise_config(problem, Block{.groups = groups}.text()));
  return all;
}

// The constants that conv_depthwise_matrix.cu is compiled with.
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
  const auto groups = std::find_if(std::begin(kGroups), std::end(kGroups),
                                   [&](int64_t each) { return Block{.groups = each}.text() == config.text; });
  Recipe::Work work;
  if (element_count(out) == 0) return work;
  const auto block = groups == std::end(kGroups) ? std::nullopt : block_of(problem, *groups, gpu);
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
  job.source.text = concat("#include \"backends/cuda/support/memory.cuh\"\n", macro("NUMBERS", numbers.text()),
                           constants_text(problem, *block), macro("EXTRAS", epilogue.parameters),
                           macro("EXTRA_NAMES", epilogue.names), epilogue.text,
                           "#include \"backends/cuda/conv/conv_depthwise_matrix.cu\"\n");
  const int64_t channels = out[1], band = band_of(problem, *block, gpu);
  ParameterWriter writer;
  writer.put(uint32_t(channels)).put(uint32_t(out[0])).put_divisor(ceil_div(channels, 8 * block->chunks));
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
                                          .version = 1,
                                          .supports = supports,
                                          .configs = configs,
                                          .work = work,
                                          .matrix_units = true};

}  // namespace temper::cuda
