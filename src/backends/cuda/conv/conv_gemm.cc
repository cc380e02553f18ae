// SPDX-License-Identifier: Apache-2.0
// Convolution as implicit GEMM: any stride, padding, dilation, number of groups and channels. Constant weights are
// prepacked with K innermost.
#include "backends/axes.h"
#include "backends/cuda/gemm/gemm.h"
#include "backends/cuda/gemm/image_epilogue.h"
#include "backends/cuda/support/host_transpose.h"
#include "base/checked.h"
#include "graph/ops/conv.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/window.h"
#include "graph/product.h"

namespace temper::cuda {

namespace {

const ops::Conv& op_of(const Problem& problem) { return problem.op.get<ops::Conv>(); }

int64_t rows_of(const Problem& problem) {
  const Dims out = problem.outputs[0].dims();
  int64_t rows = out[0];
  for (size_t axis = 2; axis < out.size(); ++axis) rows *= out[axis];
  return rows;
}

Support supports(const Problem& problem) {
  if (!problem.op.is<ops::Conv>()) return refused("not a convolution");
  const Port &x = problem.inputs[0], &w = problem.inputs[1];
  const Dims weights = w.dims();
  for (int64_t size : x.dims())
    if (!small_positions(size)) return refused("an axis of ", size, " elements");
  const auto& op = op_of(problem);
  for (const auto* numbers : {&op.strides, &op.dilations, &op.pads})
    for (int64_t number : *numbers)
      if (number < 0 || !small_positions(number)) return refused("a stride, dilation or padding of ", number);
  return gemm_supports(x.type.dtype, w.type.dtype, rows_of(problem), weights[0] / op.group,
                       weights[0] ? element_count(weights) / weights[0] : 0, op.epilogue);
}

// But for `vector`.
GemmShape gemm_shape_of(const Problem& problem) {
  const Port &x = problem.inputs[0], &w = problem.inputs[1];
  const Dims weights = w.dims();
  GemmShape shape{x.type.dtype, w.type.dtype};
  shape.rows = rows_of(problem);
  shape.columns = weights[0] / op_of(problem).group;
  shape.depth = weights[0] ? element_count(weights) / weights[0] : 0;
  shape.batches = op_of(problem).group;
  shape.result_bytes = gemm_result_bytes(problem);
  shape.tf32 = allows_tf32(problem.op);
  return shape;
}

// Whether 16 bytes of channels are neighbours.
bool reads_vectors(const Problem& problem, Layout layout) {
  const Port &x = problem.inputs[0], &w = problem.inputs[1];
  return layout == Layout::channels_last && w.is_constant && w.dims()[1] % (16 / size_of(x.type.dtype)) == 0;
}

double expected_clocks(const Problem& problem, const Config& config, const GpuProperties& gpu) {
  GemmShape shape = gemm_shape_of(problem);
  shape.vector = reads_vectors(problem, config.outputs[0]);
  return gemm_expected_clocks(shape, config.text, gpu);
}

// Inputs of the output's shape have its layout. Those that are broadcast are plain, but for values for each channel of
// each image, whose rows are channels.
std::vector<Config> configs(const Problem& problem, const GpuProperties& gpu) {
  const Dims out_dims = problem.outputs[0].dims();
  std::vector<Config> out;
  GemmShape shape = gemm_shape_of(problem);
  for (Layout layout : {Layout::channels_last, Layout::plain}) {
    // Where vectors can be read, what reads element by element is hopeless.
    if (layout == Layout::plain && shape.vector) continue;
    shape.vector = reads_vectors(problem, layout);
    for (const std::string& tile : gemm_tiles(shape, shape.vector ? 6 : 2, gpu)) {
      Config config{tile, std::vector<Layout>(problem.inputs.size(), Layout::plain), {layout}};
      config.inputs[0] = layout;
      for (size_t i = 2; i < problem.inputs.size(); ++i)
        if (problem.inputs[i].dims() == out_dims) config.inputs[i] = layout;
        else if (along_images(problem, i)) config.inputs[i] = Layout::channels_last;
      out.push_back(std::move(config));
    }
  }
  return out;
}

// [M, C, taps] as [M, taps * C, padded].
AlignedBytes packed_weights(const Tensor& w, int64_t channels, int64_t taps, int64_t padded) {
  const size_t size = size_t(size_of(w.dtype()));
  const int64_t outputs = w.dims()[0];
  AlignedBytes out(size_t(outputs * padded) * size);
  for (int64_t m = 0; m < outputs; ++m)
    transpose_on_host(w.raw().data() + size_t(m * channels * taps) * size, channels, taps, int64_t(size),
                      out.data() + size_t(m * padded) * size, channels);
  return out;
}

Recipe::Work work(const Problem& problem, const Config& config, const GpuProperties& gpu) {
  const auto& op = op_of(problem);
  const Port &x = problem.inputs[0], &w = problem.inputs[1];
  const Dims in = x.dims(), weights = w.dims(), out_dims = problem.outputs[0].dims();
  Recipe::Work out;
  if (element_count(out_dims) == 0) return out;
  const Dims in_strides = logical_strides(x, config.inputs[0]);
  const int64_t channels = weights[1], per_group = weights[0] / op.group, chunk = 16 / size_of(x.type.dtype);
  const ops::Window window = op.window(weights);
  const size_t spatial = in.size() - 2, first = 3 - spatial;
  GemmConv conv;
  int64_t taps = 1;
  conv.channels = channels;
  conv.batch_stride = in_strides[0];
  for (size_t i = 0; i < spatial; ++i) {
    const size_t s = first + i;
    conv.kernel[s] = weights[i + 2];
    conv.stride[s] = op.strides[i];
    conv.dilation[s] = op.dilations[i];
    conv.pad[s] = ops::window_pads(window, int64_t(i), in[i + 2]).first;
    conv.size[s] = in[i + 2];
    conv.out[s] = out_dims[i + 2];
    conv.spatial_stride[s] = in_strides[i + 2];
    taps *= weights[i + 2];
  }
  const int64_t depth = taps * channels, padded = round_up(depth, chunk);
  const bool pack = w.is_constant;
  conv.b_tap = pack ? channels : 1;

  Gemm gemm;
  gemm.a = x.type.dtype;
  gemm.b = w.type.dtype;
  gemm.accumulator = ops::accumulator_of(gemm.a, gemm.b);
  gemm.b_slot = pack ? Slot{Slot::Kind::packed, 0, 0} : Slot{Slot::Kind::input, 1, 0};
  gemm.columns = per_group;
  gemm.depth = depth;
  gemm.a_k = in_strides[1];
  gemm.b_column = pack ? padded : depth;
  gemm.b_k = pack ? 1 : taps;
  gemm.vector_a = config.inputs[0] == Layout::channels_last && channels % chunk == 0;
  gemm.vector_b = pack;
  gemm.conv = &conv;
  // Without neighbours and borders it is a product: pixels are rows.
  bool product = config.inputs[0] == Layout::channels_last && taps == 1;
  for (size_t s = 0; s < 3; ++s) product &= conv.stride[s] == 1 && conv.pad[s] == 0 && conv.size[s] == conv.out[s];
  if (product) {
    gemm.conv = nullptr;
    gemm.a_row = in_strides.back();
  }
  gemm.tf32 = op.tf32;
  gemm.epilogue = &op.epilogue;
  if (pack) {
    out.consumed.assign(problem.inputs.size(), false);
    out.consumed[1] = true;
    out.packed_bytes = weights[0] * padded * size_of(w.type.dtype);
    if (w.constant) out.packed = packed_weights(*w.constant, channels, taps, padded);
  }

  Axes rows{{out_dims[0]}, {}}, batch{{op.group}, {{channels * in_strides[1]}, {per_group * gemm.b_column}}};
  rows.sizes.insert(rows.sizes.end(), out_dims.begin() + 2, out_dims.end());
  auto add = [&](DType dtype, const Dims& strides, int input) {
    gemm.operands.push_back({dtype, {}, {}, strides[1], input});
    rows.strides.push_back({strides[0]});
    rows.strides.back().insert(rows.strides.back().end(), strides.begin() + 2, strides.end());
    batch.strides.push_back({per_group * strides[1]});
  };
  add(problem.outputs[0].type.dtype, logical_strides(problem.outputs[0], config.outputs[0]), -1);
  for (size_t i = 2; i < problem.inputs.size(); ++i) {
    const Dims from = problem.inputs[i].dims();
    Dims strides =
        from == out_dims ? logical_strides(problem.inputs[i], config.inputs[i]) : broadcast_strides(from, out_dims);
    if (along_images(problem, i) && problem.inputs[i].pitch) strides[0] = problem.inputs[i].pitch;
    add(problem.inputs[i].type.dtype, strides, int(i));
  }
  set_axes(gemm, std::move(rows), std::move(batch));
  out.jobs.push_back(gemm_job(gemm, config.text, gpu));
  return out;
}

bool takes_parts(const Problem& problem, const Config&) { return epilogue_takes_parts(problem); }

}  // namespace

extern const Recipe conv_gemm_recipe, conv_pipeline_recipe;

// On Hopper its best tile was faster than the pipeline's in 5 of 320 problems of ResNet-50, and by 3 % at most.
static Support worth_timing(const Problem& problem, std::string_view architecture) {
  constexpr int64_t kTileColumns = 64;  // N of most of the pipeline's tiles
  if (problem.outputs[0].dims()[1] < kTileColumns) return supported();
  return unless_taken_by(conv_pipeline_recipe, problem, architecture);
}

// On Hopper the rest of the ranking wins nowhere. Of 229 convolutions of 5 models on an H200 (EfficientNet-B0,
// MobileNet-v3 and PP-OCR's detection at batch 1, ResNet-50 at 128; FP16 and INT8) this tactic was the best of 42: with
// the first 2 of its tiles in 41, with the first 3 in all, and 2 lost 1 % at most.
static size_t worth_offering(const Problem& problem, const GpuProperties& gpu) {
  constexpr int kHopper = 90;
  const DType a = problem.inputs[0].type.dtype, b = problem.inputs[1].type.dtype;
  if (gpu.capability != kHopper || !on_matrix_units(a, b, allows_tf32(problem.op))) return SIZE_MAX;
  return conv_pipeline_recipe.supports(problem).yes() ? 2 : 3;
}

const Recipe conv_gemm_recipe{"cuda.conv.gemm", 9,     supports,        configs,       work, {}, takes_parts,
                              worth_timing,     false, expected_clocks, worth_offering};

}  // namespace temper::cuda
