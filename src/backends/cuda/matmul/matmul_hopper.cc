// SPDX-License-Identifier: Apache-2.0
// Matrix products on Hopper, by TMA and wgmma: the recipe of gemm/hopper_gemm.h.
#include <algorithm>

#include "backends/cuda/gemm/hopper_gemm.h"
#include "graph/ops/fused.h"
#include "graph/ops/matmul.h"

namespace temper::cuda {

namespace {

// `op` is the problem's, or the product of a gated one.
Support product_supports(const Problem& problem, const ops::MatMul* op) {
  if (!op) return refused("not a matrix product");
  const Dims a = problem.inputs[0].dims(), b = problem.inputs[1].dims(), out = problem.outputs[0].dims();
  if (!problem.inputs[1].is_constant) {
    const auto batch_of = [](const Dims& dims) { return Dims(dims.begin(), dims.end() - 2); };
    if (op->transpose_a || batch_of(b) != batch_of(out) ||
        (batch_of(a) != batch_of(out) && element_count(batch_of(a)) != 1))
      return refused("not a matrix on the right for each result, and as many or one on the left");
    return hopper_gemm_supports(problem);
  }
  if (op->transpose_a || a.size() != out.size() || !std::equal(a.begin(), a.end() - 1, out.begin()) ||
      element_count(Dims(b.begin(), b.end() - 2)) != 1)
    return refused("not one matrix of weights for all rows");
  return hopper_gemm_supports(problem);
}

Support matmul_supports(const Problem& problem) { return product_supports(problem, problem.op.get_if<ops::MatMul>()); }

Support gated_supports(const Problem& problem) {
  const auto* op = problem.op.get_if<ops::GatedMatMul>();
  if (!op) return refused("not a gated product");
  return product_supports(problem, &op->product);
}

}  // namespace

extern const Recipe matmul_pipeline_recipe, matmul_gated_recipe;
const Recipe matmul_pipeline_recipe{
    "cuda.matmul.pipeline",  20,      matmul_supports, hopper_gemm_configs,        hopper_gemm_work, "sm_90a",
    hopper_gemm_takes_parts, nullptr, false,           hopper_gemm_expected_clocks};
const Recipe matmul_gated_recipe{
    "cuda.matmul.gated",     5,       gated_supports, hopper_gemm_configs,        hopper_gemm_work, "sm_90a",
    hopper_gemm_takes_parts, nullptr, false,          hopper_gemm_expected_clocks};

}  // namespace temper::cuda
