// SPDX-License-Identifier: Apache-2.0
// The ops that count as products: convolutions and matrix products.
#pragma once
#include <optional>
#include <string>

#include "graph/op.h"

namespace temper {

namespace ops {
struct Conv;
struct ConvTranspose;
struct MatMul;
struct Recurrent;
}  // namespace ops

// The ops that quantization and lower precisions are about: convolutions and matrix products.
inline bool is_product(const Op& op) { return op.is<ops::Conv, ops::MatMul>(); }

// Whether it takes operands of f32 in TF32 (ops::Conv::tf32).
bool allows_tf32(const Op& op);

// The name of the product that a node of this name is, or becomes before it is computed in a lower precision; nothing
// where it has none. Transposed convolutions become convolutions of their name, and what a recurrent net multiplies its
// inputs by becomes a product of its own.
inline std::optional<std::string> product_name(const Op& op, const std::string& node) {
  if (is_product(op) || op.is<ops::ConvTranspose>()) return node;
  if (op.is<ops::Recurrent>()) return node + ".inputs";
  return std::nullopt;
}

}  // namespace temper
