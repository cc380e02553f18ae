// SPDX-License-Identifier: Apache-2.0
// arg_reduce on GPUs: the position of the largest or smallest element of each row.
#include "graph/ops/arg_reduce.h"

#include "backends/cuda/rows/rows.h"

namespace temper::cuda {

namespace {

const ops::ArgReduce& op_of(const Problem& problem) { return problem.op.get<ops::ArgReduce>(); }

Support supports(const Problem& problem) {
  if (!problem.op.is<ops::ArgReduce>()) return refused("not an arg_reduce");
  return supported();
}

// An axis that is dropped leaves the output without channels to order.
std::vector<Config> configs(const Problem& problem, const GpuProperties&) {
  std::vector<Config> out;
  for (Layout layout : {Layout::plain, Layout::channels_last})
    if (layout_fits(problem.inputs[0].dims(), layout))
      out.push_back({"", {layout}, {op_of(problem).keepdims ? layout : Layout::plain}});
  return out;
}

Recipe::Work work(const Problem& problem, const Config& config, const GpuProperties&) {
  const auto& op = op_of(problem);
  const TensorType& x = problem.inputs[0].type;
  const Dims out_dims = problem.outputs[0].dims();
  if (element_count(out_dims) == 0) return {};
  Dims strides = logical_strides(out_dims, config.outputs[0]);
  if (op.keepdims) strides[size_t(op.axis)] = 0;
  else strides.insert(strides.begin() + op.axis, 0);
  return rows_work(x, config.inputs[0], {op.axis}, strides, DType::i64, "arg_reduce",
                   concat("constexpr bool MAX = ", op.kind == ops::ArgKind::max, ", LAST = ", op.last, ";\n"), 0);
}

}  // namespace

extern const Recipe arg_reduce_recipe;
const Recipe arg_reduce_recipe{"cuda.arg_reduce", 1, supports, configs, work};

}  // namespace temper::cuda
