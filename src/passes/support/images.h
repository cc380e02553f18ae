// SPDX-License-Identifier: Apache-2.0
// Images [N,C,spatial...] and tokens [N,spatial...,C]: where an image lies with its channels last, as kernels for
// convolutions like it, the transpose between the two moves no byte (plan/view_layouts.h).
#pragma once
#include <span>

#include "graph/graph.h"

namespace temper {

// Whether a transpose turns tokens into an image, with the channels behind the batch; and an image into tokens.
bool makes_image(std::span<const int64_t> perm);
bool makes_tokens(std::span<const int64_t> perm);

// Whether a value is an image that a convolution made, or that was tokens, perhaps with elementwise work, norms,
// concats of channels and reshapes since then. It may say no of what was one a long way off.
bool is_image(const Graph& graph, ValueId id);

}  // namespace temper
