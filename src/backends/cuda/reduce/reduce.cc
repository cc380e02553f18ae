// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cuda/support/rows.h"

namespace temper::cuda {

namespace {

const ops::Reduce& op_of(const Problem& problem) { return std::get<ops::Reduce>(problem.op); }

Support supports(const Problem& problem) {
  if (!std::holds_alternative<ops::Reduce>(problem.op)) return refused("not a reduction");
  if (problem.inputs.size() > 1 && problem.inputs[1].present) return refused("its axes are data");
  const DType dtype = problem.inputs[0].type.dtype;
  const auto kind = op_of(problem).kind;
  if (dtype == DType::boolean && kind != ops::ReduceKind::max && kind != ops::ReduceKind::min)
    return refused("a ", enum_names(kind)[size_t(kind)], " of bool");
  return supported();
}

// Reduced axes that are dropped leave the output without channels to order.
std::vector<Config> configs(const Problem& problem) {
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

Recipe::Work work(const Problem& problem, const Config& config) {
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
  return rows_work(x, config.inputs[0], op.axes, out_strides, problem.outputs[0].type.dtype, "reduce",
                   concat("constexpr int KIND = ", int(op.kind), ";\n"), 0);
}

}  // namespace

extern const Recipe reduce_recipe;
const Recipe reduce_recipe{"cuda.reduce", 1, supports, configs, work};

}  // namespace temper::cuda
