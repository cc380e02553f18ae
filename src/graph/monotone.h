// SPDX-License-Identifier: Apache-2.0
// Programs that keep the order of numbers: the largest result is that of the largest number, so that a maximum may be
// taken before them.
#pragma once
#include "graph/program.h"

namespace temper {

// Whether input 0 (of type `accumulator`) never gives less for more, when the others have these values (null: unknown).
// NaN in gives NaN out. False where it is not certain.
bool never_decreases(const Program& program, DType accumulator, std::span<const Tensor* const> others);

}  // namespace temper
