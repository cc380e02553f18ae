// SPDX-License-Identifier: Apache-2.0
// Fuses programs before and behind ops into them, for backends whose kernels compute both (Backend::fuses). It
// runs when precisions are settled.
#pragma once
#include <functional>

#include "base/build_time.h"
#include "graph/graph.h"

namespace temper {

// A pointwise node that is read by nothing but a convolution's input 0 becomes its prologue, if it is of one tensor of
// that shape and of others that broadcast to it, and a max pool that alone reads its output becomes its end; around a
// reduction in f32 such nodes become its prologue and its epilogue; around a normalisation or softmax nodes of more
// inputs do, too, and a sum that is read elsewhere is given out as a second result. A residual sum of 16 bits at the
// end of a product's epilogue that a normalisation alone reads becomes that one's prologue. A program that alone reads
// the two halves of a product's columns becomes the product's gate. `taken` says of a node that could be made, by its
// op and the values it reads, whether to make it.
using FusionTaken = std::function<bool(const Graph& graph, const Op& op, const std::vector<ValueId>& inputs)>;
bool fuse_neighbours(Graph& graph, const FusionTaken& taken, const BuildTime& time = {});

}  // namespace temper
