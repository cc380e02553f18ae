// SPDX-License-Identifier: Apache-2.0
// A problem of matrix multiplication as a product of cuBLASLt's. Needs neither a GPU nor cuBLASLt.
#pragma once
#include "backends/cuda/support/cublaslt.h"
#include "backends/tactic.h"

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

}  // namespace temper::cuda
