// SPDX-License-Identifier: Apache-2.0
// The products of ONNX's Conv and Gemm, for the ops that are one of them and more.
#pragma once
#include "onnx/node.h"

namespace temper {

// A convolution of inputs 0 and 1, with the bias of input 2 where there is one.
ValueId conv(OnnxNode& node);
// alpha * A B + beta * C of inputs 0 to 2, the last of which may be absent.
ValueId gemm(OnnxNode& node);

}  // namespace temper
