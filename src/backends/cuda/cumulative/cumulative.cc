// SPDX-License-Identifier: Apache-2.0
// cumulative on GPUs: running sums and products along one axis.
#include "graph/ops/cumulative.h"

#include "backends/cuda/rows/rows.h"

namespace temper::cuda {

namespace {

Support supports(const Problem& problem) {
  if (!problem.op.is<ops::Cumulative>()) return refused("not a cumulative");
  if (problem.inputs.size() > 1 && problem.inputs[1].present) return refused("its axis is data");
  return supported();
}

Recipe::Work work(const Problem& problem, const Config& config, const GpuProperties&) {
  const auto& op = problem.op.get<ops::Cumulative>();
  const TensorType& x = problem.inputs[0].type;
  if (element_count(x.dims()) == 0) return {};
  return rows_work(x, config.inputs[0], {op.axis}, logical_strides(x.dims(), config.outputs[0]), x.dtype, "cumulative",
                   concat("constexpr bool PRODUCT = ", op.kind == ops::CumulativeKind::prod,
                          ", EXCLUSIVE = ", op.exclusive, ", REVERSE = ", op.reverse, ";\n"),
                   0);
}

}  // namespace

extern const Recipe cumulative_recipe;
const Recipe cumulative_recipe{"cuda.cumulative", 2, supports, same_layout_configs, work};

}  // namespace temper::cuda
