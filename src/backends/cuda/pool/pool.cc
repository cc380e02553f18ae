// SPDX-License-Identifier: Apache-2.0
// pool on GPUs, in any layout and in channels_last.
#include "graph/ops/pool.h"

#include <algorithm>

#include "backends/cuda/recipe.h"
#include "backends/cuda/support/constants.h"
#include "backends/cuda/support/program_code.h"
#include "graph/ops/window.h"

namespace temper::cuda {

namespace {

const ops::Pool& op_of(const Problem& problem) { return problem.op.get<ops::Pool>(); }

Support supports(const Problem& problem) {
  if (!problem.op.is<ops::Pool>()) return refused("not a pool");
  const DType dtype = problem.inputs[0].type.dtype;
  if (op_of(problem).kind != ops::PoolKind::max && !is_float(dtype)) return refused("a mean of ", dtype);
  if (problem.inputs[0].dims().size() > 5) return refused("more than 3 spatial axes");
  for (int64_t size : problem.inputs[0].dims())
    if (size >= int64_t(1) << 30) return refused("an axis of ", size, " elements");
  return supported();
}

// Neighbouring channels that a thread of pool_channels.cu computes; 1: it does not fit the problem.
int64_t channels_at_once(const Problem& problem, const Config& config) {
  const auto& op = op_of(problem);
  const TensorType& x = problem.inputs[0].type;
  const Dims in = x.dims();
  if (config.inputs[0] != Layout::channels_last || in.size() > 4 || op.with_indices || op.kind == ops::PoolKind::lp ||
      x.dtype == DType::boolean || !small_positions(element_count(problem.outputs[0].dims())))
    return 1;
  int64_t vector = std::max<int64_t>(1, 16 / size_of(x.dtype));
  while (in[1] % vector) vector /= 2;
  return vector;
}

Job channels_job(const Problem& problem, int64_t vector) {
  const auto& op = op_of(problem);
  const TensorType& x = problem.inputs[0].type;
  const Dims in = x.dims(), dims = problem.outputs[0].dims();
  const ops::Window window = op.window();
  const size_t spatial = in.size() - 2, first = 2 - spatial;
  std::array<int32_t, 2> size{1, 1}, kernel{1, 1}, stride{1, 1}, dilation{1, 1}, begin{0, 0}, end{0, 0};
  std::array<int64_t, 2> out_size{1, 1};
  for (size_t i = 0; i < spatial; ++i) {
    const size_t s = first + i;
    size[s] = int32_t(in[i + 2]);
    out_size[s] = dims[i + 2];
    kernel[s] = int32_t(op.kernel[i]);
    stride[s] = int32_t(op.strides[i]);
    dilation[s] = int32_t(op.dilations[i]);
    const auto pads = ops::window_pads(window, int64_t(i), in[i + 2]);
    begin[s] = int32_t(pads.first);
    end[s] = int32_t(pads.second);
  }
  Job job;
  job.entry = "pool_channels";
  job.overlap = true;
  job.slots = {{Slot::Kind::input, 0, 0}, {Slot::Kind::output, 0, 0}};
  const int input = x.dtype == DType::f16                 ? 1
                    : x.dtype == DType::bf16              ? 2
                    : x.dtype == DType::f32               ? 3
                    : x.dtype == DType::i8 && vector >= 4 ? 4
                    : x.dtype == DType::u8 && vector >= 4 ? 5
                                                          : 0;
  job.source.text = concat(include_line("support/scalar.cuh"),
                           int_constants({{"KIND", int(op.kind)},
                                          {"LANES", 1},
                                          {"KEPT", 1},
                                          {"REDUCED", 1},
                                          {"KERNEL_H", kernel[0]},
                                          {"KERNEL_W", kernel[1]},
                                          {"V", vector}}),
                           bool_constants({{"INCLUDE_PADDING", op.count_include_pad}}), macro("INPUT", input),
                           type_alias("Index", "u32"), type_alias("Input", memory_type(x.dtype)),
                           type_alias("Output", "Input"), include_line("pool/pool_channels.cu"));
  const int64_t vectors = in[1] / vector, count = element_count(dims) / vector;
  job.shape.block = {256, 1, 1};
  job.shape.grid = {blocks_for(count, 256), 1, 1};
  ParameterWriter writer;
  const Port& y = problem.outputs[0];
  writer.put(uint32_t(count))
      .put(uint32_t(problem.inputs[0].pitch ? problem.inputs[0].pitch : in[1]))
      .put(uint32_t(y.pitch ? y.pitch : dims[1]))
      .put_divisor(vectors)
      .put_divisor(out_size[1])
      .put_divisor(out_size[0]);
  for (const auto& two : {size, stride, dilation, begin, end})
    for (int32_t value : two) writer.put(value);
  job.parameters = writer.finish();
  return job;
}

Recipe::Work work(const Problem& problem, const Config& config, const GpuProperties&) {
  const auto& op = op_of(problem);
  const TensorType& x = problem.inputs[0].type;
  const Dims in = x.dims(), dims = problem.outputs[0].dims();
  const int64_t count = element_count(dims);
  Recipe::Work out;
  if (count == 0) return out;
  if (const int64_t vector = channels_at_once(problem, config); vector > 1) {
    out.jobs.push_back(channels_job(problem, vector));
    return out;
  }
  const ops::Window window = op.window();
  const size_t spatial = in.size() - 2, first = 3 - spatial;
  const Dims in_strides = logical_strides(problem.inputs[0], config.inputs[0]),
             out_strides = logical_strides(problem.outputs[0], config.outputs[0]), plain = row_major_strides(in);
  // Axes n, c, d, h, w, as the output lies in memory.
  Dims sizes{dims[0], dims[1]}, to{out_strides[0], out_strides[1]};
  std::array<int32_t, 3> in_size{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1}, begin{0, 0, 0},
      end{0, 0, 0};
  std::array<int64_t, 3> in_stride{0, 0, 0}, plain_stride{0, 0, 0};
  for (size_t s = 0; s < 3; ++s) {
    if (s < first) {
      sizes.push_back(1);
      to.push_back(0);
      continue;
    }
    const size_t i = s - first;
    sizes.push_back(dims[i + 2]);
    to.push_back(out_strides[i + 2]);
    in_size[s] = int32_t(in[i + 2]);
    kernel[s] = int32_t(op.kernel[i]);
    stride[s] = int32_t(op.strides[i]);
    dilation[s] = int32_t(op.dilations[i]);
    const auto pads = ops::window_pads(window, int64_t(i), in[i + 2]);
    begin[s] = int32_t(pads.first);
    end[s] = int32_t(pads.second);
    in_stride[s] = in_strides[i + 2];
    plain_stride[s] = plain[i + 2];
  }
  // Size-1 axes first, then by the output's strides, so that neighbouring threads write neighbours.
  std::vector<size_t> order{0, 1, 2, 3, 4};
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return (sizes[a] == 1 ? INT64_MAX : to[a]) > (sizes[b] == 1 ? INT64_MAX : to[b]);
  });
  Dims walk_sizes;
  std::vector<Dims> walk(3);
  std::array<int32_t, 5> position{};
  for (size_t at = 0; at < 5; ++at) {
    const size_t axis = order[at];
    position[axis] = int32_t(at);
    walk_sizes.push_back(sizes[axis]);
    walk[0].push_back(axis < 2 ? in_strides[axis] : 0);
    walk[1].push_back(to[axis]);
    walk[2].push_back(axis < 2 ? plain[axis] : 0);
  }
  // Columns are counted from the first real spatial axis on; the axes in front have size 1 and do not disturb.
  Job job;
  job.entry = "pool";
  job.overlap = true;
  job.slots = {{Slot::Kind::input, 0, 0}, {Slot::Kind::output, 0, 0}, {Slot::Kind::output, op.with_indices ? 1 : 0, 0}};
  job.source.text = concat(
      include_line("support/scalar.cuh"),
      int_constants({{"KIND", int(op.kind)}, {"LANES", 1}, {"KEPT", 1}, {"REDUCED", 1}}),
      bool_constants(
          {{"INCLUDE_PADDING", op.count_include_pad}, {"INDICES", op.with_indices}, {"COLUMN_MAJOR", op.column_major}}),
      type_alias("Index", small_positions(count) ? "u32" : "u64"), type_alias("Input", memory_type(x.dtype)),
      include_line("pool/pool.cu"));
  job.shape.block = {256, 1, 1};
  job.shape.grid = {blocks_for(count, 256), 1, 1};
  ParameterWriter writer;
  writer.put(uint64_t(count)).put(double(op.p)).put(1.0 / double(op.p)).put_walk(walk_sizes, walk);
  for (int32_t value : position) writer.put(value);
  for (const auto& three : {in_size, kernel, stride, dilation, begin, end})
    for (int32_t value : three) writer.put(value);
  for (const auto& three : {in_stride, plain_stride})
    for (int64_t value : three) writer.put(value);
  job.parameters = writer.finish();
  out.jobs.push_back(std::move(job));
  return out;
}

bool takes_parts(const Problem& problem, const Config&) {
  if (op_of(problem).with_indices) return false;
  return small_positions(problem.inputs[0].pitch) && small_positions(problem.outputs[0].pitch);
}

}  // namespace

extern const Recipe pool_recipe;
const Recipe pool_recipe{"cuda.pool", 3, supports, same_layout_configs, work, {}, takes_parts};

}  // namespace temper::cuda
