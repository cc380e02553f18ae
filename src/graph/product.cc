// SPDX-License-Identifier: Apache-2.0
#include "graph/product.h"

#include "graph/ops/conv.h"
#include "graph/ops/matmul.h"

namespace temper {

bool allows_tf32(const Op& op) {
  if (const auto* conv = op.get_if<ops::Conv>()) return conv->tf32;
  const auto* matmul = op.get_if<ops::MatMul>();
  return matmul && matmul->tf32;
}

}  // namespace temper
