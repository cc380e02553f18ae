// SPDX-License-Identifier: Apache-2.0
// The ops that count as products: convolutions and matrix products.
#pragma once
#include "graph/op.h"

namespace temper {

namespace ops {
struct Conv;
struct MatMul;
}  // namespace ops

// The ops that quantization and lower precisions are about: convolutions and matrix products.
inline bool is_product(const Op& op) { return op.is<ops::Conv, ops::MatMul>(); }

}  // namespace temper
