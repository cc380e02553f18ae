// SPDX-License-Identifier: Apache-2.0
// Which inputs and outputs of a plan may be the same memory, so that a cache grows where it lies.
#pragma once
#include <utility>
#include <vector>

#include "plan/plan.h"

namespace temper {

// Which inputs of an op are caches, and which outputs are these with what it appends or replaces. What is combined with
// the elements that were there is none: a run that fails behind it and is repeated would combine it twice.
std::vector<std::pair<size_t, size_t>> caches_of(const Op& op);

// Pairs of an input and an output: one append, alone or before an attention, or one scatter reads the input and writes
// the output, whole and row-major, and no other step reads the input. A run may be given one address for both, and then
// copies nothing but the new rows; where the run fails later, they may be written.
std::vector<std::pair<size_t, size_t>> shared_places(const Plan& plan);

}  // namespace temper
