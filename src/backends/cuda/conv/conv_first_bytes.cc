// SPDX-License-Identifier: Apache-2.0
// The first convolution of an image model in bytes, with the max pool behind it, whose weights stay in registers
// (conv_first_bytes.cu).
#include "backends/cuda/conv/conv_first.h"
#include "backends/cuda/gemm/gemm.h"
#include "backends/cuda/gemm/image_epilogue.h"
#include "backends/cuda/gemm/image_prologue.h"
#include "backends/cuda/support/constants.h"
#include "base/checked.h"
#include "graph/ops/conv.h"
#include "graph/ops/fused.h"
#include "graph/ops/window.h"

namespace temper::cuda {

namespace {

constexpr int64_t kThreads = 128, kRows = 64;  // of a warpgroup, and of its product: channels
constexpr int64_t kStages = 3;                 // patches of a block
constexpr int64_t kTileHeight = 8, kTileWidth = 16, kPooledHeight = 4, kPooledWidth = 7;
constexpr int64_t kMostSteps = 12;  // of which weights are in registers

// How blocks share an SM: how many there are, and registers of a thread that makes patches and of one that multiplies.
// Together they are at most those of two threads at launch. Producers hold eight pixels of the image.
struct Share {
  int64_t blocks, few, many;
};
Share share_of(DType image) { return size_of(image) == 1 ? Share{3, 32, 128} : Share{2, 80, 152}; }

// How a patch is cut into blocks of 2 by 2 pixels; the names are those of conv_first_bytes.cu.
struct Blocks {
  int64_t left, tap_rows, tap_columns, rows, columns;
  int64_t steps() const { return tap_rows * tap_columns / 2; }
  int64_t patch_bytes() const { return rows * columns * 16; }
  int64_t pieces() const { return rows * columns / 2; }
};
Blocks blocks_of(const Problem& problem) {
  const Dims in = problem.inputs[0].dims(), weights = problem.inputs[1].dims();
  const int64_t pad = ops::window_pads(conv_of(problem.op)->window(weights), 1, in[3]).first;
  Blocks blocks{};
  // Tiles begin at 28 i - 4 - pad; pixels are read four at once.
  blocks.left = round_up<int64_t>(pad, 4) - pad;
  blocks.tap_rows = ceil_div<int64_t>(weights[2], 2);
  blocks.tap_columns = round_up<int64_t>(ceil_div<int64_t>(blocks.left + weights[3], 2), 2);
  blocks.rows = kTileHeight + blocks.tap_rows - 1;
  blocks.columns = round_up<int64_t>(kTileWidth + blocks.tap_columns - 1, 2);
  return blocks;
}

Support supports(const Problem& problem) {
  if (Support support = first_conv_supports(problem); !support.yes()) return support;
  const ops::Conv& op = *conv_of(problem.op);
  const Dims in = problem.inputs[0].dims(), weights = problem.inputs[1].dims();
  if (conv_operand(problem) != DType::i8) return refused("not a convolution in signed bytes");
  if (!first_conv_pools(problem)) return refused("no max pool");
  if (op.strides[0] != 2 || op.strides[1] != 2) return refused("a stride other than 2");
  if (in[3] % 4) return refused("rows of ", in[3], " pixels, not a multiple of 4");
  if (weights[0] % 16) return refused(weights[0], " output channels, not a multiple of 16");
  const Blocks blocks = blocks_of(problem);
  if (blocks.pieces() > kThreads) return refused("a patch of more pieces than threads");
  const int64_t steps = blocks.steps();
  return steps <= kMostSteps ? supported() : refused("weights of ", steps, " steps; at most ", kMostSteps);
}

std::vector<Config> configs(const Problem& problem, const GpuProperties&) {
  std::vector<Config> all;
  for (const Layout from : {Layout::plain, Layout::channels_last}) {
    if (from == Layout::channels_last && !may_take_pixels(problem)) continue;
    all.push_back({"", image_epilogue_layouts(without_prologue(problem)), {Layout::channels_last}});
    all.back().inputs.resize(problem.inputs.size(), Layout::plain);
    all.back().inputs[0] = from;
  }
  return all;
}

// By 64 channels, step and thread: the words of rows g and g + 8 of the step's first block, then of its second one.
// Rows g and g + 8 of a warp are neighbouring channels. A word is a pixel of a block, by row and column.
std::vector<std::byte> packed_weights(const Tensor& w, const Blocks& blocks) {
  const int64_t outputs = w.dims()[0], channels = w.dims()[1], kernel_h = w.dims()[2], kernel_w = w.dims()[3];
  std::vector<std::byte> packed(size_t(ceil_div(outputs, kRows) * blocks.steps() * kThreads * 16));
  std::byte* to = packed.data();
  for (int64_t first = 0; first < outputs; first += kRows)
    for (int64_t step = 0; step < blocks.steps(); ++step)
      for (int64_t thread = 0; thread < kThreads; ++thread)
        for (int64_t i = 0; i < 4; ++i)
          for (int64_t c = 0; c < 4; ++c, ++to) {
            const int64_t pixel = thread % 4, block = step % (blocks.tap_columns / 2) * 2 + i / 2,
                          m = first + thread / 32 * 16 + thread % 32 / 4 * 2 + i % 2,
                          kh = step / (blocks.tap_columns / 2) * 2 + pixel / 2,
                          kw = block * 2 + pixel % 2 - blocks.left;
            if (m >= outputs || c >= channels || kh >= kernel_h || kw < 0 || kw >= kernel_w) continue;
            *to = w.raw()[size_t(((m * channels + c) * kernel_h + kh) * kernel_w + kw)];
          }
  return packed;
}

Recipe::Work work(const Problem& problem, const Config& config, const GpuProperties& gpu) {
  if (!config.text.empty()) fail(ErrorKind::bad_file, "cuda.conv.first_bytes has no '", config.text, "'");
  const Port &x = problem.inputs[0], &w = problem.inputs[1];
  const Dims weights = w.dims(), out_dims = problem.outputs[0].dims();
  Recipe::Work out;
  if (element_count(out_dims) == 0) return out;
  const Blocks blocks = blocks_of(problem);
  out.consumed.assign(problem.inputs.size(), false);
  out.consumed[1] = true;
  out.packed_bytes = ceil_div(weights[0], kRows) * blocks.steps() * kThreads * 16;
  if (w.constant) out.packed = packed_weights(*w.constant, blocks);

  Job job;
  job.entry = "conv_first_bytes";
  job.overlap = true;
  job.slots = {{Slot::Kind::input, 0, 0}, {Slot::Kind::packed, 0, 0}};
  const Problem own = without_prologue(problem);
  const std::string input = first_conv_input(problem, size_of(x.type.dtype) == 1, job.slots);
  ProgramNumbers numbers;
  const ImageEpilogue epilogue = image_epilogue(own, DType::i32, 2, numbers);
  job.slots.insert(job.slots.end(), epilogue.slots.begin(), epilogue.slots.end());
  job.slots.push_back({Slot::Kind::output, 0, 0});

  const int64_t across = ceil_div(out_dims[3], kPooledWidth);
  const int64_t down = ceil_div(out_dims[2], kPooledHeight), tiles = out_dims[0] * across * down;
  // As many blocks as run at once. Of each one's tiles, the one above the first is computed twice, unless it stands at
  // the top of an image.
  const Share share = share_of(x.type.dtype);
  const int64_t block_tiles = ceil_div(tiles, int64_t(gpu.sms) * share.blocks);
  job.source.text = concat(input, macro("NUMBERS", numbers.text()), macro("MATRIX", matrix_units(DType::i8)),
                           int_constants({{"CHANNELS", weights[1]},
                                          {"TILE_H", kTileHeight},
                                          {"BLOCK_ROWS", blocks.rows},
                                          {"BLOCK_COLUMNS", blocks.columns},
                                          {"TAP_ROWS", blocks.tap_rows},
                                          {"TAP_COLUMNS", blocks.tap_columns},
                                          {"LEFT", blocks.left},
                                          {"STAGES", kStages},
                                          {"RESIDENT", share.blocks},
                                          {"FEW", share.few},
                                          {"MANY", share.many}}),
                           bool_constants({{"PLANES", config.inputs[0] == Layout::plain}}),
                           macro("EXTRAS", epilogue.parameters), macro("EXTRA_NAMES", epilogue.names), epilogue.text,
                           "#include \"backends/cuda/conv/conv_first_bytes.cu\"\n");
  job.parameters = first_conv_parameters(problem, tiles, block_tiles, across, down, numbers);
  job.shape.block = {uint32_t(kThreads * 2), 1, 1};
  job.shape.grid = {uint32_t(ceil_div(tiles, block_tiles)), uint32_t(ceil_div(weights[0], kRows)), 1};
  job.shape.shared_bytes = uint32_t(kStages * (blocks.patch_bytes() + 16) +
                                    kPooledHeight * 8 * kRows * size_of(problem.outputs[0].type.dtype) + kThreads * 32);
  out.jobs.push_back(std::move(job));
  return out;
}

}  // namespace

extern const Recipe conv_first_bytes_recipe;
const Recipe conv_first_bytes_recipe{"cuda.conv.first_bytes", 1, supports, configs, work, "sm_90a"};

}  // namespace temper::cuda
