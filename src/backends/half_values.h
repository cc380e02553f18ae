// SPDX-License-Identifier: Apache-2.0
// Lists the steps of a program that need no rounding where values of fp16 and bf16 are held in f32.
#pragma once
#include "graph/program.h"

namespace temper {

// Whether the result of the step is one of its operands, or minus one, or an integer of no more digits, so that it is a
// number of fp16 or bf16 where they are.
inline bool keeps_half_values(Scalar op) {
  switch (op) {
    case Scalar::min:
    case Scalar::max:
    case Scalar::neg:
    case Scalar::abs:
    case Scalar::sign:
    case Scalar::floor:
    case Scalar::ceil:
    case Scalar::round:
    case Scalar::relu:
    case Scalar::where: return true;
    default: return false;
  }
}

}  // namespace temper
