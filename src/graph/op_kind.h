// SPDX-License-Identifier: Apache-2.0
// The family that an op counts as where people read plans: every op names one.
#pragma once
#include <cstdint>

namespace temper {

enum class OpKind : uint8_t {
  convolution,
  matmul,
  recurrent,
  pooling,
  reduction,
  pointwise,
  softmax,
  attention,
  normalization,
  movement,  // elements go elsewhere as they are, or are interpolated
  quantize,
  dequantize,
  string,
  other,
};

}  // namespace temper
