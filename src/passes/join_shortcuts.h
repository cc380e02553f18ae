// SPDX-License-Identifier: Apache-2.0
// Fuses the two convolutions that a residual block adds, for backends with kernels of both (Backend::fuses):
// the last one of the block and its projection. What they take is known where shapes are.
#pragma once
#include "passes/fuse_neighbours.h"

namespace temper {

// A convolution whose result nothing reads but the epilogue of another one, once and element by element, becomes one
// shortcut_conv with it, where `taken` says so. Of several such results the first that is taken.
bool join_shortcuts(Graph& graph, const FusionTaken& taken, const BuildTime& time = {});

}  // namespace temper
