// SPDX-License-Identifier: Apache-2.0
// Weights of few bits (graph/ops/dequantize_blocks.h) and the products that read them.
#pragma once
#include "passes/fuse_neighbours.h"

namespace temper {

// fold_blocks: constant weights in blocks become floats, but for those that products alone read, each of which is
// `taken` with the integers as its operand (graph/ops/blocked_matmul.h).
bool fold_blocks(Graph& graph, const FusionTaken& taken, const BuildTime& time = {});
// fuse_blocks: such a product reads the integers where that is `taken`; whatever weights are left become floats.
bool fuse_blocks(Graph& graph, const FusionTaken& taken, const BuildTime& time = {});

}  // namespace temper
