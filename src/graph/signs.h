// SPDX-License-Identifier: Apache-2.0
// Finds the values that hold no number below zero, whatever the inputs: what follows a relu, and what only moves such
// numbers. An i8 value of that kind is the same bytes as u8, which some integer products take at less cost.
#pragma once
#include <vector>

#include "graph/graph.h"

namespace temper {

// The result has one entry for each value index. It is cautious: false where it is not plain. A NaN is not below zero.
std::vector<char> values_without_negatives(const Graph& graph);

}  // namespace temper
