// SPDX-License-Identifier: Apache-2.0
// Problems of matrix multiplication as products of cuBLASLt's. Needs neither a GPU nor cuBLASLt.
#pragma once
#include "backends/cuda/recipe.h"
#include "backends/cuda/support/cublaslt.h"

namespace temper::cuda {

// All operands are in plain layout. cuBLASLt's columns are our rows, so its a is our b and the other way round, and its
// bias is for our columns. The steps of the epilogue are computed in f32 and not rounded in between; only the result
// is.
struct CublasLtMatmul {
  std::string reason;  // why cuBLASLt cannot be asked; empty: it can
  CublasLtProduct product;
  int bias = -1, residual = -1;  // inputs of the problem; -1: none
};
// `narrow_bias`: the bias, a constant, is converted to the result's dtype.
CublasLtMatmul cublaslt_matmul(const Problem& problem, bool narrow_bias);

// A product of i8 by i8, or a convolution that is one (a single tap, nothing around it): sums of i32, exact, on which a
// pointwise kernel then computes the epilogue. cuBLASLt has it where what is summed lies in the rows of both operands.
struct CublasLtIntegers {
  std::string reason;  // why cuBLASLt cannot be asked; empty: it can
  CublasLtProduct product;
  bool packs = false;             // the second operand, a constant, is packed [.., columns, what is summed]
  Layout layout = Layout::plain;  // of the first operand, of the output and of what has its shape
};
CublasLtIntegers cublaslt_integers(const Problem& problem);
Config cublaslt_layouts(const Problem& problem, Layout layout, std::string text);
// The work behind the product, which has its sums at the beginning of the workspace; without jobs the sums are
// the output. And what is packed of the second operand.
Recipe::Work work_behind_sums(const Problem& problem, const CublasLtIntegers& integers, const GpuProperties& gpu);

}  // namespace temper::cuda
