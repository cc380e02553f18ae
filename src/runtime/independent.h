// SPDX-License-Identifier: Apache-2.0
// Tells whether the samples of a batch are computed by themselves, so that requests of several clients may be joined.
#pragma once
#include "runtime/engine.h"

namespace temper {

// True where the first axis of every input and output is one and the same symbol, and every node that the inputs lead
// to gives, of a slice of them, that slice of its outputs. False also where an op does not say so of itself.
bool samples_are_independent(const Engine& engine);

}  // namespace temper
