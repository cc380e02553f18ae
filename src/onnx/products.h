// SPDX-License-Identifier: Apache-2.0
// The products of ONNX's Conv, MatMul and Gemm, for the ops that are one of them and more.
#pragma once
#include "graph/ops/matmul.h"
#include "onnx/node.h"

namespace temper {

// A convolution of inputs 0 and 1, with the bias of input 2 where there is one.
ValueId conv(OnnxNode& node);
// The product of a and b as numpy multiplies: vectors become matrices, and the axis that they get leaves the result.
ValueId product_of(OnnxNode& node, ops::MatMul op, ValueId a, ValueId b);
// alpha * A B + beta * C of inputs 0 to 2, the last of which may be absent.
ValueId gemm(OnnxNode& node);

}  // namespace temper
