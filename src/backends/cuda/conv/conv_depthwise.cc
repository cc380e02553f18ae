// SPDX-License-Identifier: Apache-2.0
// Convolutions of each channel by itself, as MobileNets have them, in channels_last, without the matrix units.
#include "backends/cuda/conv/conv_depthwise.h"

#include <algorithm>

#include "backends/cuda/gemm/gemm.h"
#include "backends/cuda/gemm/image_epilogue.h"
#include "backends/cuda/support/constants.h"
#include "backends/cuda/support/host_transpose.h"
#include "backends/cuda/support/program_code.h"
#include "base/checked.h"
#include "graph/ops/conv.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/window.h"

namespace temper::cuda {

Support depthwise_supports(const Problem& problem) {
  constexpr int64_t kMostTaps = 7;  // along an axis
  if (!problem.op.is<ops::Conv>()) return refused("not a convolution");
  const auto& op = problem.op.get<ops::Conv>();
  const Port &x = problem.inputs[0], &w = problem.inputs[1];
  const Dims in = x.dims(), weights = w.dims(), out = problem.outputs[0].dims();
  if (in.size() != 4) return refused(in.size() - 2, " spatial axes, not 2");
  if (!on_matrix_units(x.type.dtype, w.type.dtype) && (x.type.dtype != DType::f32 || w.type.dtype != DType::f32))
    return refused("a product of ", x.type.dtype, " and ", w.type.dtype);
  if (!w.is_constant) return refused("its weights are not constant");
  if (weights[1] != 1 || weights[0] != op.group) return refused("not one channel in and out of a group");
  for (size_t i = 0; i < 2; ++i) {
    if (weights[i + 2] < 1 || weights[i + 2] > kMostTaps) return refused("a kernel of ", weights[i + 2], " taps");
    if (op.strides[i] < 1 || op.strides[i] > 2) return refused("a stride of ", op.strides[i]);
    if (op.dilations[i] != 1 && weights[i + 2] > 1) return refused("a dilation");
  }
  for (int64_t pad : op.pads)
    if (pad < 0 || pad > kMostTaps) return refused("a padding of ", pad);
  if (!small_positions(element_count(out)) || !small_positions(element_count(in)))
    return refused("more than 2147418112 elements");
  if (Support support = image_epilogue_supports(problem); !support.yes()) return support;
  return gemm_supports(x.type.dtype, w.type.dtype, 1, weights[0], element_count(weights), op.epilogue);
}

Config depthwise_config(const Problem& problem, std::string text) {
  Config config{std::move(text), image_epilogue_layouts(problem), {Layout::channels_last}};
  config.inputs[0] = Layout::channels_last;
  return config;
}

void pack_taps(const Problem& problem, Recipe::Work& work) {
  const Port& w = problem.inputs[1];
  const Dims weights = w.dims();
  work.consumed.assign(problem.inputs.size(), false);
  work.consumed[1] = true;
  work.packed_bytes = byte_count(w.type.dtype, weights);
  if (!w.constant) return;
  work.packed.resize(size_t(work.packed_bytes));
  transpose_on_host(w.constant->raw().data(), weights[0], element_count(weights) / weights[0], size_of(w.type.dtype),
                    work.packed.data(), weights[0]);
}

void put_window(const Problem& problem, ParameterWriter& writer) {
  const Dims in = problem.inputs[0].dims(), out = problem.outputs[0].dims();
  const ops::Window window = problem.op.get<ops::Conv>().window(problem.inputs[1].dims());
  for (int64_t value : {in[2], in[3], out[2], out[3]}) writer.put(int32_t(value));
  for (int64_t axis : {0, 1}) writer.put(int32_t(ops::window_pads(window, axis, in[size_t(axis) + 2]).first));
}

namespace {

// The results of a thread.
struct Tile {
  int64_t pixels, rows;
  std::string text() const { return rows > 1 ? concat("tile=", rows, 'x', pixels) : concat("pixels=", pixels); }
};
constexpr Tile kTiles[] = {{4, 4}, {4, 1}, {2, 1}, {1, 1}};

const ops::Conv& op_of(const Problem& problem) { return problem.op.get<ops::Conv>(); }

// Small images fill a GPU with short work only.
bool is_small(const Dims& out, const GpuProperties& gpu) {
  constexpr int64_t kThreads = 2048, kOfThread = 4 * 8;  // threads of an SM; elements that a thread computes at most
  return element_count(out) < gpu.sms * kThreads * kOfThread;
}

// Channels that a thread computes. One that goes down some rows keeps the sums of all rows that a window touches, and
// small ones the weights: of as many channels as leave room for enough threads.
int64_t vector_of(const Problem& problem, const Tile& tile) {
  const Dims weights = problem.inputs[1].dims();
  const bool is_large = weights[2] * weights[3] > 9;
  int64_t vector =
      tile.rows > 1 ? (is_large ? 2 : 4) : std::min<int64_t>(8, 16 / size_of(problem.inputs[0].type.dtype));
  while (weights[0] % vector) vector /= 2;
  return vector;
}
int64_t threads_of(const Tile& tile) { return tile.rows > 1 ? 128 : 256; }
// Threads with something to do.
int64_t threads_in_all(const Problem& problem, const Tile& tile) {
  const Dims out = problem.outputs[0].dims();
  return out[0] * ceil_div(out[2], tile.rows) * ceil_div(out[3], tile.pixels) * (out[1] / vector_of(problem, tile));
}

bool on_matrix_units_too(const Problem& problem, const GpuProperties& gpu) {
  return recipe_offered(conv_depthwise_matrix_recipe, problem, concat("sm_", gpu.capability)).yes();
}

// Of large images those with tiles of some rows first. What the matrix units do not do faster is bound by memory, and
// two pixels a thread are best there.
std::vector<Config> configs(const Problem& problem, const GpuProperties& gpu) {
  std::vector<Config> all;
  for (const Tile& tile : kTiles) all.push_back(depthwise_config(problem, tile.text()));
  if (is_small(problem.outputs[0].dims(), gpu)) std::reverse(all.begin(), all.end());
  else if (on_matrix_units_too(problem, gpu)) std::rotate(all.begin(), all.begin() + 2, all.end());
  return all;
}

// Beside the matrix units a form of one or two pixels still won in 3 of 24 convolutions of EfficientNet-B0,
// MobileNet-v3 and ConvNeXt-T at batch 1 on an H200, by 4 to 17 %, and in 3 of 24 at batch 128 and 32. Where a tile
// leaves half of the GPU idle, no larger one is worth a try: of 43 convolutions of EfficientNet-B0, MobileNet-v3 and
// PP-OCR's detection at batch 1 none was faster with one.
size_t worth_offering(const Problem& problem, const GpuProperties& gpu) {
  if (element_count(problem.outputs[0].dims()) == 0) return std::size(kTiles);
  const bool matrix_units = on_matrix_units_too(problem, gpu);
  if (!is_small(problem.outputs[0].dims(), gpu)) return matrix_units ? 1 : std::size(kTiles);
  const size_t most = matrix_units ? 2 : std::size(kTiles);
  size_t offered = 1;
  for (size_t i = std::size(kTiles); i-- > 1 && offered < most; ++offered)  // the smallest first
    if (2 * ceil_div(threads_in_all(problem, kTiles[i]), threads_of(kTiles[i])) < gpu.sms) break;
  return offered;
}

// The constants that conv_depthwise.cu is compiled with; it says what they mean.
struct DepthwiseConstants {
  std::string_view a, b, sum;  // types
  int64_t kernel_h, kernel_w, stride_h, stride_w, pixels, rows, v, threads, blocks;
  std::string extras;

  std::string text() const;
};

std::string DepthwiseConstants::text() const {
  return concat(type_alias("A", a), type_alias("B", b), type_alias("Sum", sum),
                int_constants({{"KERNEL_H", kernel_h},
                               {"KERNEL_W", kernel_w},
                               {"STRIDE_H", stride_h},
                               {"STRIDE_W", stride_w},
                               {"PIXELS", pixels},
                               {"ROWS", rows},
                               {"V", v},
                               {"THREADS", threads},
                               {"BLOCKS", blocks}}),
                macro("EXTRAS", extras));
}

Recipe::Work work(const Problem& problem, const Config& config, const GpuProperties&) {
  const auto& op = op_of(problem);
  const Port &x = problem.inputs[0], &w = problem.inputs[1];
  const Dims weights = w.dims(), dims = problem.outputs[0].dims();
  const auto tile =
      std::find_if(std::begin(kTiles), std::end(kTiles), [&](const Tile& t) { return t.text() == config.text; });
  if (tile == std::end(kTiles)) fail(ErrorKind::bad_file, "cuda.conv.depthwise has no '", config.text, "'");
  Recipe::Work out;
  if (element_count(dims) == 0) return out;
  pack_taps(problem, out);
  const bool is_large = weights[2] * weights[3] > 9, goes_down = tile->rows > 1;
  const int64_t vector = vector_of(problem, *tile);
  const DType accumulator = ops::accumulator_of(x.type.dtype, w.type.dtype);
  Job job;
  job.entry = "conv_depthwise";
  job.overlap = true;
  ProgramNumbers numbers;
  const ImageEpilogue epilogue = image_epilogue(problem, accumulator, vector, numbers);
  job.slots = {{Slot::Kind::input, 0, 0}, {Slot::Kind::packed, 0, 0}};
  job.slots.insert(job.slots.end(), epilogue.slots.begin(), epilogue.slots.end());
  job.slots.push_back({Slot::Kind::output, 0, 0});
  const DepthwiseConstants constants{
      .a = memory_type(x.type.dtype),
      .b = memory_type(w.type.dtype),
      .sum = size_of(x.type.dtype) == 1 ? "u32" : "float",
      .kernel_h = weights[2],
      .kernel_w = weights[3],
      .stride_h = op.strides[0],
      .stride_w = op.strides[1],
      .pixels = tile->pixels,
      .rows = tile->rows,
      .v = vector,
      .threads = threads_of(*tile),
      .blocks = !goes_down && (is_large || tile->pixels == 4) ? 1 : 2,
      .extras = epilogue.parameters,
  };
  job.source.text = concat("#include \"backends/cuda/support/memory.cuh\"\n", macro("NUMBERS", numbers.text()),
                           constants.text(), epilogue.text, "#include \"backends/cuda/conv/conv_depthwise.cu\"\n");
  const int64_t vectors = weights[0] / vector, groups = ceil_div(dims[3], tile->pixels),
                bands = ceil_div(dims[2], tile->rows), count = threads_in_all(problem, *tile);
  ParameterWriter writer;
  writer.put(uint32_t(count)).put(uint32_t(weights[0])).put_divisor(vectors).put_divisor(groups).put_divisor(bands);
  put_window(problem, writer);
  job.parameters = writer.put_numbers(numbers.values()).finish();
  const auto threads = uint32_t(constants.threads);
  job.shape.block = {threads, 1, 1};
  job.shape.grid = {blocks_for(count, threads), 1, 1};
  out.jobs.push_back(std::move(job));
  return out;
}

}  // namespace

extern const Recipe conv_depthwise_recipe;
const Recipe conv_depthwise_recipe{.name = "cuda.conv.depthwise",
                                   .version = 5,
                                   .supports = depthwise_supports,
                                   .configs = configs,
                                   .work = work,
                                   .worth_offering = worth_offering};

}  // namespace temper::cuda
