// SPDX-License-Identifier: Apache-2.0
// Products of 8-bit matrices, for every op that contains one.
#pragma once
#include "onnx/node.h"

namespace temper {

// (a - a_zero) x (b - b_zero) in i32. Zero points may be absent, scalars or, for a its rows and for b its columns,
// vectors.
ValueId integer_product(OnnxNode& node, ValueId a, ValueId a_zero, ValueId b, ValueId b_zero);

}  // namespace temper
