// SPDX-License-Identifier: Apache-2.0
// arg_reduce on GPUs: the position of the largest or smallest element of each row.
#include "graph/ops/arg_reduce.h"

#include "backends/cuda/rows/rows.h"
#include "backends/cuda/support/constants.h"
#include "backends/cuda/support/program_code.h"

namespace temper::cuda {

namespace {

const ops::ArgReduce& op_of(const Problem& problem) { return problem.op.get<ops::ArgReduce>(); }

Support supports(const Problem& problem) {
  if (!problem.op.is<ops::ArgReduce>()) return refused("not an arg_reduce");
  return supported();
}

constexpr std::string_view kLong = "long";

// Rows that lie one behind the other, few and long enough for a block of each.
bool is_long(const Problem& problem, const GpuProperties& gpu) {
  const Dims dims = problem.inputs[0].dims();
  return op_of(problem).axis == int64_t(dims.size()) - 1 && dims.back() >= 2048 && small_positions(dims.back()) &&
         element_count(dims) / dims.back() <= 4 * gpu.sms;
}

Recipe::Work long_work(const Problem& problem, const GpuProperties& gpu) {
  const auto& op = op_of(problem);
  const TensorType& x = problem.inputs[0].type;
  const Dims dims = problem.inputs[0].dims();
  // Clusters are of compute capability 9.0 and later; as many blocks as have elements for all of their threads.
  constexpr uint32_t kThreads = 512;
  const int64_t rows = element_count(dims) / dims.back();
  int splits = 1;
  while (gpu.capability >= 90 && splits < 8 && rows * splits < gpu.sms && dims.back() > int64_t(splits) * kThreads * 8)
    splits *= 2;
  Recipe::Work out;
  Job job;
  job.entry = "arg_reduce_long";
  job.overlap = true;
  job.slots = {{Slot::Kind::input, 0, 0}, {Slot::Kind::output, 0, 0}};
  job.source.text = concat("#include \"backends/cuda/support/scalar.cuh\"\n", type_alias("Input", memory_type(x.dtype)),
                           bool_constants({{"MAX", op.kind == ops::ArgKind::max}, {"LAST", op.last}}),
                           macro("SPLITS", splits), "#include \"backends/cuda/arg_reduce/arg_reduce_long.cu\"\n");
  job.parameters = ParameterWriter().put(int32_t(dims.back())).finish();
  job.shape.block = {kThreads, 1, 1};
  job.shape.grid = {uint32_t(rows), uint32_t(splits), 1};
  job.shape.shared_bytes = (1 + kThreads / 32) * 16;  // struct Best
  out.jobs.push_back(std::move(job));
  return out;
}

// An axis that is dropped leaves the output without channels to order.
std::vector<Config> configs(const Problem& problem, const GpuProperties& gpu) {
  std::vector<Config> out;
  if (is_long(problem, gpu)) out.push_back(plain_config(problem, std::string(kLong)));
  for (Layout layout : {Layout::plain, Layout::channels_last})
    if (layout_fits(problem.inputs[0].dims(), layout))
      out.push_back({"", {layout}, {op_of(problem).keepdims ? layout : Layout::plain}});
  return out;
}

Recipe::Work work(const Problem& problem, const Config& config, const GpuProperties& gpu) {
  const auto& op = op_of(problem);
  const TensorType& x = problem.inputs[0].type;
  const Dims out_dims = problem.outputs[0].dims();
  if (element_count(out_dims) == 0) return {};
  if (config.text == kLong) return long_work(problem, gpu);
  Dims strides = logical_strides(out_dims, config.outputs[0]);
  if (op.keepdims) strides[size_t(op.axis)] = 0;
  else strides.insert(strides.begin() + op.axis, 0);
  return rows_work(x, config.inputs[0], {op.axis}, strides, DType::i64, "arg_reduce",
                   concat("constexpr bool MAX = ", op.kind == ops::ArgKind::max, ", LAST = ", op.last, ";\n"), 0);
}

}  // namespace

extern const Recipe arg_reduce_recipe;
const Recipe arg_reduce_recipe{"cuda.arg_reduce", 5, supports, configs, work};

}  // namespace temper::cuda
