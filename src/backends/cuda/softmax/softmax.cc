// SPDX-License-Identifier: Apache-2.0
// softmax and its logarithm on GPUs, with the programs around it.
#include "graph/ops/softmax.h"

#include "backends/cuda/rows/row_programs.h"
#include "backends/cuda/support/half_steps.h"

namespace temper::cuda {

namespace {

const ops::Softmax* softmax_of(const Problem& problem) {
  if (const auto* fused = problem.op.get_if<ops::FusedSoftmax>()) return &fused->softmax;
  return problem.op.get_if<ops::Softmax>();
}

RowsOp rows_of(const Problem& problem) {
  const ops::Softmax& op = *softmax_of(problem);
  RowsOp rows;
  rows.axes = ops::Normalize{{op.axis}}.walked(problem.inputs[0].dims());
  rows.entry = "softmax";
  rows.constants = concat("constexpr bool LOG = ", op.log, ";\n");
  // A logarithm near zero needs digits that its result would lose next to 1.
  rows.exact = op.log || !is_half(problem.outputs[0].type.dtype);
  if (const auto* fused = problem.op.get_if<ops::FusedSoftmax>()) {
    rows.prologue = fused->prologue;
    rows.epilogue = fused->epilogue;
  }
  return rows;
}

Support supports(const Problem& problem) {
  if (!softmax_of(problem)) return refused("not a softmax");
  return supports_rows(problem, rows_of(problem));
}

std::vector<Config> configs(const Problem& problem, const GpuProperties&) { return row_configs(problem); }

Recipe::Work work(const Problem& problem, const Config& config, const GpuProperties& gpu) {
  return row_programs_work(problem, config, rows_of(problem), gpu);
}

}  // namespace

extern const Recipe softmax_recipe;
const Recipe softmax_recipe{"cuda.softmax", 6, supports, configs, work};

}  // namespace temper::cuda
