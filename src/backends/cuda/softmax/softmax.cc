// SPDX-License-Identifier: Apache-2.0
// softmax and its logarithm on GPUs.
#include "graph/ops/softmax.h"

#include "backends/cuda/rows/rows.h"

namespace temper::cuda {

namespace {

Support supports(const Problem& problem) {
  if (!problem.op.is<ops::Softmax>()) return refused("not a softmax");
  if (!is_float(problem.inputs[0].type.dtype)) return refused("not of floats");
  return supported();
}

Recipe::Work work(const Problem& problem, const Config& config, const GpuProperties&) {
  const auto& op = problem.op.get<ops::Softmax>();
  const TensorType& x = problem.inputs[0].type;
  if (element_count(x.dims()) == 0) return {};
  return rows_work(x, config.inputs[0], {op.axis}, logical_strides(x.dims(), config.outputs[0]), x.dtype, "softmax",
                   concat("constexpr bool LOG = ", op.log, ";\n"), 0);
}

}  // namespace

extern const Recipe softmax_recipe;
const Recipe softmax_recipe{"cuda.softmax", 1, supports, same_layout_configs, work};

}  // namespace temper::cuda
