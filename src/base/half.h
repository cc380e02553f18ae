// SPDX-License-Identifier: Apache-2.0
// Tells the floats of 16 bits, halves, from other element types.
#pragma once
#include "base/dtype.h"

namespace temper {

constexpr bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

}  // namespace temper
