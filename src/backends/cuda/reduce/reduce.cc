// SPDX-License-Identifier: Apache-2.0
// reduce on GPUs, over any set of axes.
#include "graph/ops/reduce.h"

#include <algorithm>
#include <optional>

#include "backends/cuda/rows/rows.h"
#include "backends/cuda/support/constants.h"
#include "backends/cuda/support/half_steps.h"
#include "backends/cuda/support/program_code.h"
#include "base/checked.h"
#include "graph/ops/fused.h"

namespace temper::cuda {

namespace {

const ops::Reduce& op_of(const Problem& problem) { return *reduce_of(problem.op); }

// The dtype that is reduced, after the prologue.
DType value_dtype(const Problem& problem) {
  const auto* fused = problem.op.get_if<ops::FusedReduce>();
  const DType x = problem.inputs[0].type.dtype;
  return fused ? fused->prologue.infer(std::span(&x, 1)) : x;
}
// The programs around the reduction, as functions; each does nothing where it is not fused.
std::string programs_text(const Problem& problem) {
  const auto* fused = problem.op.get_if<ops::FusedReduce>();
  const DType x = problem.inputs[0].type.dtype, value = value_dtype(problem);
  return concat("using Value = ", memory_type(value), ";\n",
                program_code(fused ? fused->prologue : Program{}, std::span(&x, 1), "prologue"),
                program_code(fused ? fused->epilogue : Program{}, std::span(&value, 1), "epilogue"));
}

Support supports(const Problem& problem) {
  if (!reduce_of(problem.op)) return refused("not a reduction");
  if (problem.inputs.size() > 1 && problem.inputs[1].present) return refused("its axes are data");
  const DType dtype = value_dtype(problem);
  if (dtype != DType::f32 && problem.op.is<ops::FusedReduce>())
    return refused("programs around a reduction of ", dtype);
  const auto kind = op_of(problem).kind;
  if (dtype == DType::boolean && kind != ops::ReduceKind::max && kind != ops::ReduceKind::min)
    return refused("a ", enum_names(kind)[size_t(kind)], " of bool");
  return supported();
}

// Reduced axes that are dropped leave the output without channels to order.
std::vector<Config> configs(const Problem& problem, const GpuProperties&) {
  std::vector<Config> out;
  for (Layout layout : {Layout::plain, Layout::channels_last}) {
    if (!layout_fits(problem.inputs[0].dims(), layout)) continue;
    Config config{"",
                  std::vector<Layout>(problem.inputs.size(), Layout::plain),
                  {op_of(problem).keepdims ? layout : Layout::plain}};
    config.inputs[0] = layout;
    out.push_back(std::move(config));
  }
  return out;
}

// A tensor in memory as [outer, n, inner] of which n is reduced, and the output as [outer, inner].
struct Columns {
  int64_t outer = 1, n = 1, inner = 1;
};
std::optional<Columns> columns_of(const Dims& dims, const Dims& strides, const std::vector<int64_t>& axes,
                                  const Dims& out_strides) {
  std::vector<size_t> order(dims.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return strides[a] < strides[b]; });
  Columns out;
  int part = 0;  // inner, n, outer
  for (size_t axis : order) {
    if (dims[axis] == 1) continue;
    const bool reduced = std::binary_search(axes.begin(), axes.end(), int64_t(axis));
    part += reduced != (part == 1);
    if (part > 2) return {};
    if (!reduced && out_strides[axis] != out.inner * (part == 2 ? out.outer : 1)) return {};
    (part == 0 ? out.inner : part == 1 ? out.n : out.outer) *= dims[axis];
  }
  return out;
}

// Nothing where reduce.cu does it as well.
std::optional<Job> columns_job(const Problem& problem, const Config& config, const Dims& out_strides,
                               const GpuProperties& gpu) {
  const auto& op = op_of(problem);
  const TensorType& x = problem.inputs[0].type;
  const DType value = value_dtype(problem);
  if (op.kind > ops::ReduceKind::min || (value != DType::f16 && value != DType::bf16 && value != DType::f32)) return {};
  const auto columns = columns_of(x.dims(), logical_strides(x.dims(), config.inputs[0]), op.axes, out_strides);
  if (!columns || columns->n < 8 || columns->inner < 32 || !small_positions(columns->n * columns->inner)) return {};
  int64_t vector = 16 / size_of(x.dtype);
  while (columns->inner % vector) vector /= 2;
  // As many threads along what is reduced as it takes to fill a GPU, but no more than have some elements each; and few
  // idle ones beside the last columns.
  // Where even the narrowest blocks would leave half of a GPU without one, they take fewer columns.
  while (vector > 4 && 2 * columns->outer * columns->inner < int64_t(gpu.sms) * 8 * vector) vector /= 2;
  const int64_t vectors = columns->inner / vector, enough = int64_t(gpu.sms) * 2048;
  int64_t across = 32, threads = 256;
  while (across > 8 && columns->outer * vectors * (threads / across) < enough) across /= 2;
  while (across > 4 && 4 * ceil_div(vectors, across) * across > 5 * vectors) across /= 2;
  const int64_t blocks = columns->outer * ceil_div(vectors, across);
  while (across <= 8 && threads < 1024 && 16 * blocks * threads < 7 * enough && 8 * threads <= across * columns->n)
    threads *= 2;
  // A result of 16 bits takes no more digits than a thread's plain sum of so few elements has: 2^11 roundings of f32.
  const bool exact = !is_half(problem.outputs[0].type.dtype) || columns->n * across > threads << 11;
  const int64_t column_blocks = ceil_div(columns->inner, across * vector);
  if (!small_positions(columns->outer * column_blocks)) return {};
  Job job;
  job.entry = "reduce_columns";
  job.overlap = true;
  job.slots = {{Slot::Kind::input, 0, 0}, {Slot::Kind::output, 0, 0}};
  job.source.text =
      concat(include_line("support/scalar.cuh"),
             int_constants({{"LANES", 1},
                            {"KEPT", 1},
                            {"REDUCED", 1},
                            {"KIND", int(op.kind)},
                            {"ACROSS", across},
                            {"V", vector},
                            {"THREADS", threads}}),
             bool_constants({{"EXACT", exact}}), type_alias("Index", "u32"), type_alias("Input", memory_type(x.dtype)),
             type_alias("Output", memory_type(problem.outputs[0].type.dtype)), programs_text(problem),
             include_line("reduce/reduce_columns.cu"));
  job.parameters =
      ParameterWriter().put(uint32_t(columns->n)).put(uint32_t(columns->inner)).put_divisor(column_blocks).finish();
  job.shape.block = {uint32_t(threads), 1, 1};
  job.shape.grid = {uint32_t(columns->outer * column_blocks), 1, 1};
  return job;
}

Recipe::Work work(const Problem& problem, const Config& config, const GpuProperties& gpu) {
  const auto& op = op_of(problem);
  const TensorType& x = problem.inputs[0].type;
  const Dims out_dims = problem.outputs[0].dims();
  const Dims strides = logical_strides(out_dims, config.outputs[0]);
  Dims out_strides;  // along x's axes
  for (size_t axis = 0, at = 0; axis < x.dims().size(); ++axis) {
    const bool reduced = std::binary_search(op.axes.begin(), op.axes.end(), int64_t(axis));
    out_strides.push_back(reduced ? 0 : strides[op.keepdims ? axis : at]);
    at += !reduced;
  }
  if (element_count(out_dims) > 0 && element_count(x.dims()) > 0)
    if (auto job = columns_job(problem, config, out_strides, gpu)) {
      Recipe::Work out;
      out.jobs.push_back(std::move(*job));
      return out;
    }
  return rows_work(x, config.inputs[0], op.axes, out_strides, problem.outputs[0].type.dtype, "reduce",
                   concat(programs_text(problem), int_constants({{"KIND", int(op.kind)}})), 0);
}

}  // namespace

extern const Recipe reduce_recipe;
const Recipe reduce_recipe{"cuda.reduce", 5, supports, configs, work};

}  // namespace temper::cuda
