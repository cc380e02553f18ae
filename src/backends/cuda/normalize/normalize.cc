// SPDX-License-Identifier: Apache-2.0
// normalize on GPUs: layer, instance and RMS normalisation.
#include "graph/ops/normalize.h"

#include "backends/cuda/rows/rows.h"

namespace temper::cuda {

namespace {

Support supports(const Problem& problem) {
  if (!problem.op.is<ops::Normalize>()) return refused("not a normalize");
  if (!is_float(problem.inputs[0].type.dtype)) return refused("not of floats");
  return supported();
}

Recipe::Work work(const Problem& problem, const Config& config, const GpuProperties&) {
  const auto& op = problem.op.get<ops::Normalize>();
  const TensorType& x = problem.inputs[0].type;
  if (element_count(x.dims()) == 0) return {};
  return rows_work(x, config.inputs[0], op.axes, logical_strides(x.dims(), config.outputs[0]), x.dtype, "normalize",
                   concat("constexpr bool CENTER = ", op.center, ";\n"), op.epsilon);
}

}  // namespace

extern const Recipe normalize_recipe;
const Recipe normalize_recipe{"cuda.normalize", 1, supports, same_layout_configs, work};

}  // namespace temper::cuda
