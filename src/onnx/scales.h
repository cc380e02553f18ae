// SPDX-License-Identifier: Apache-2.0
// The scales of quantization nodes, as far as they are known at import.
#pragma once
#include "onnx/node.h"

namespace temper {

// Throws Error{bad_file}, naming the tensor, the entry and the value, where a constant input `i` holds a scale that no
// quantization has: negative, infinite, NaN, or 0 where it `divides`. A scale of 0 that multiplies only makes zeros,
// which channels of zeros have in real models: a warning.
void check_scales(OnnxNode& node, size_t i, bool divides);

}  // namespace temper
