// SPDX-License-Identifier: Apache-2.0
// The op attention and the products that it stands for: which of the two a graph holds is decided for a backend, by
// what its tactics take.
#pragma once
#include "passes/fuse_neighbours.h"

namespace temper {

// Products around a softmax that are an attention become the op where it is `taken`.
bool recognise_attention(Graph& graph, const FusionTaken& taken, const BuildTime& time = {});
// Attentions that are not `taken` become what they mean: transposes of heads, two products, a program for scale,
// softcap and mask, and a softmax.
bool expand_attention(Graph& graph, const FusionTaken& taken, const BuildTime& time = {});

}  // namespace temper
