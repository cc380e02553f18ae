// SPDX-License-Identifier: Apache-2.0
// Fuses a convolution and the one behind it, for backends with kernels of both (Backend::fuses). Whether that
// is faster depends on the shapes: it is asked for where these are known (optimize/fusion.h).
#pragma once
#include <string>
#include <vector>

#include "passes/fuse_neighbours.h"

namespace temper {

// Names of nodes: two, and what is made of them.
struct ConvPair {
  std::string first, second, name;
  bool of_three = false;  // the first is a pair itself
};
using PairWanted = std::function<bool(const ConvPair&)>;
// A convolution of one tap, a stride of 1 and no padding or groups, perhaps with a shortcut, that alone reads another
// one's output, becomes one conv_chain with it, where it is `wanted` and `taken` says so. Another such one, without a
// shortcut, joins them that reads their result beside others, and nothing else that is computed. What was made, in the
// graph's order.
std::vector<ConvPair> chain_convs(Graph& graph, const FusionTaken& taken, const PairWanted& wanted,
                                  const BuildTime& time = {});

}  // namespace temper
