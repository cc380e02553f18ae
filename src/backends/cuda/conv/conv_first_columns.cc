// SPDX-License-Identifier: Apache-2.0
// The first convolution of an image model in bytes or 16-bit floats, with the max pool behind it, whose weights stay in
// registers and whose pixels are the columns of the product (conv_first_columns.cu).
#include <cstring>

#include "backends/cuda/conv/conv_first.h"
#include "backends/cuda/gemm/gemm.h"
#include "backends/cuda/gemm/image_epilogue.h"
#include "backends/cuda/gemm/image_prologue.h"
#include "backends/cuda/support/constants.h"
#include "base/checked.h"
#include "graph/ops/conv.h"
#include "graph/ops/fused.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/window.h"

namespace temper::cuda {

namespace {

constexpr int64_t kThreads = 128, kRows = 64;  // of a warpgroup, and of its product: channels
constexpr int64_t kStages = 3;                 // patches of a block
constexpr int64_t kTileHeight = 8, kTileWidth = 16, kPooledHeight = 4, kPooledWidth = 7;

// How blocks share an SM: how many there are, and registers of a thread that makes patches and of one that multiplies.
// Together they are at most those of two threads at launch. Producers hold eight pixels of the image. A third block
// leaves them so few that it pays where there are many tiles alone.
struct Share {
  int64_t blocks, few, many;
};
Share share_of(DType image, DType operand, int64_t tiles, int sms) {
  if (size_of(operand) == 2) return {2, 80, 168};
  return size_of(image) == 1 && tiles > 8 * sms ? Share{3, 32, 128} : Share{2, 80, 152};
}
// Of which weights are in registers.
int64_t most_steps(DType operand) { return size_of(operand) == 2 ? 14 : 12; }

// How a patch is cut into blocks of 2 by 2 pixels of bytes, or 1 by 2 of 16-bit floats; the names are those of
// conv_first_columns.cu.
struct Blocks {
  int64_t height, left, tap_rows, tap_columns, rows, columns;
  int64_t steps() const { return tap_rows * tap_columns / 2; }
  int64_t patch_bytes() const { return rows * columns * 16; }
  int64_t pieces() const { return rows * height * columns / 4; }
};
Blocks blocks_of(const Problem& problem) {
  const Dims in = problem.inputs[0].dims(), weights = problem.inputs[1].dims();
  const int64_t pad = ops::window_pads(conv_of(problem.op)->window(weights), 1, in[3]).first;
  Blocks blocks{};
  // Tiles begin at 28 i - 4 - pad; pixels are read four at once.
  blocks.left = round_up<int64_t>(pad, 4) - pad;
  blocks.height = size_of(conv_operand(problem)) == 1 ? 2 : 1;
  blocks.tap_rows = ceil_div(weights[2], blocks.height);
  blocks.tap_columns = round_up<int64_t>(ceil_div<int64_t>(blocks.left + weights[3], 2), 2);
  // Those of one output's row more: above the first tile of a block.
  const int64_t output_row = 2 / blocks.height;
  blocks.rows = round_up(kTileHeight * output_row + blocks.tap_rows, output_row);
  blocks.columns = round_up<int64_t>(kTileWidth + blocks.tap_columns - 1, 2);
  return blocks;
}

Support supports(const Problem& problem) {
  if (Support support = first_conv_supports(problem); !support.yes()) return support;
  const ops::Conv& op = *conv_of(problem.op);
  const Dims in = problem.inputs[0].dims(), weights = problem.inputs[1].dims();
  const DType operand = conv_operand(problem);
  if (operand != DType::i8 && operand != DType::f16 && operand != DType::bf16)
    return refused("not a convolution in signed bytes or 16-bit floats");
  if (!first_conv_pools(problem)) return refused("no max pool");
  if (op.strides[0] != 2 || op.strides[1] != 2) return refused("a stride other than 2");
  if (in[3] % 4) return refused("rows of ", in[3], " pixels, not a multiple of 4");
  if (weights[0] % 16) return refused(weights[0], " output channels, not a multiple of 16");
  const Blocks blocks = blocks_of(problem);
  if (blocks.pieces() > kThreads) return refused("a patch of more pieces than threads");
  const int64_t steps = blocks.steps();
  const int64_t most = most_steps(operand);
  return steps <= most ? supported() : refused("weights of ", steps, " steps; at most ", most);
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
// Rows g and g + 8 of a warp are neighbouring channels. A word is a pixel of a block, by row and column, or half of
// one.
AlignedBytes packed_weights(const Tensor& w, const Blocks& blocks) {
  const int64_t size = size_of(w.dtype()), in_word = 4 / size;
  const int64_t outputs = w.dims()[0], channels = w.dims()[1], kernel_h = w.dims()[2], kernel_w = w.dims()[3];
  AlignedBytes packed(size_t(ceil_div(outputs, kRows) * blocks.steps() * kThreads * 16));
  std::byte* to = packed.data();
  for (int64_t first = 0; first < outputs; first += kRows)
    for (int64_t step = 0; step < blocks.steps(); ++step)
      for (int64_t thread = 0; thread < kThreads; ++thread)
        for (int64_t i = 0; i < 4; ++i)
          for (int64_t e = 0; e < in_word; ++e, to += size) {
            const int64_t element = thread % 4 * in_word + e, pixel = element / 4, c = element % 4,
                          block = step % (blocks.tap_columns / 2) * 2 + i / 2,
                          m = first + thread / 32 * 16 + thread % 32 / 4 * 2 + i % 2,
                          kh = step / (blocks.tap_columns / 2) * blocks.height + pixel / 2,
                          kw = block * 2 + pixel % 2 - blocks.left;
            if (m >= outputs || c >= channels || kh >= kernel_h || kw < 0 || kw >= kernel_w) continue;
            const int64_t from = ((m * channels + c) * kernel_h + kh) * kernel_w + kw;
            std::memcpy(to, w.raw().data() + size_t(from * size), size_t(size));
          }
  return packed;
}

Recipe::Work work(const Problem& problem, const Config& config, const GpuProperties& gpu) {
  if (!config.text.empty()) fail(ErrorKind::bad_file, "cuda.conv.first_columns has no '", config.text, "'");
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
  job.entry = "conv_first_columns";
  job.overlap = true;
  job.slots = {{Slot::Kind::input, 0, 0}, {Slot::Kind::packed, 0, 0}};
  const Problem own = without_prologue(problem);
  const std::string input = first_conv_input(problem, size_of(x.type.dtype) == 1, job.slots);
  ProgramNumbers numbers;
  const DType operand = conv_operand(problem);
  const ImageEpilogue epilogue = image_epilogue(own, ops::accumulator_of(operand, w.type.dtype), 2, numbers);
  job.slots.insert(job.slots.end(), epilogue.slots.begin(), epilogue.slots.end());
  job.slots.push_back({Slot::Kind::output, 0, 0});

  const int64_t across = ceil_div(out_dims[3], kPooledWidth);
  const int64_t down = ceil_div(out_dims[2], kPooledHeight), tiles = out_dims[0] * across * down;
  // As many blocks as run at once.
  const Share share = share_of(x.type.dtype, operand, tiles, gpu.sms);
  const int64_t block_tiles = ceil_div(tiles, int64_t(gpu.sms) * share.blocks);
  job.source.text = concat(input, macro("NUMBERS", numbers.text()), macro("MATRIX", matrix_units(operand)),
                           int_constants({{"CHANNELS", weights[1]},
                                          {"KERNEL_W", weights[3]},
                                          {"TILE_H", kTileHeight},
                                          {"BLOCK_H", blocks.height},
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
                           "#include \"backends/cuda/conv/conv_first_columns.cu\"\n");
  job.parameters = first_conv_parameters(problem, tiles, block_tiles, across, down, numbers);
  job.shape.block = {uint32_t(kThreads * 2), 1, 1};
  job.shape.grid = {uint32_t(ceil_div(tiles, block_tiles)), uint32_t(ceil_div(weights[0], kRows)), 1};
  job.shape.shared_bytes =
      uint32_t(kStages * (blocks.patch_bytes() + 16) +
               kPooledHeight * 8 * kRows * size_of(problem.outputs[0].type.dtype) + kThreads * 32 + 16);
  out.jobs.push_back(std::move(job));
  return out;
}

}  // namespace

extern const Recipe conv_first_columns_recipe;
const Recipe conv_first_columns_recipe{"cuda.conv.first_columns", 1, supports, configs, work, "sm_90a"};

}  // namespace temper::cuda
