// SPDX-License-Identifier: Apache-2.0
// Finds the concats and slices that need no copy: a node that makes an input of a concat writes it straight into its
// part of the output, and a node that reads a slice reads it where the whole lies.
#pragma once
#include "plan/choose.h"

namespace temper {

struct Part {
  ValueId whole;       // which may be a part itself; invalid: the value has memory of its own
  int64_t offset = 0;  // bytes, in the whole
  bool slice = false;  // the value is a slice of the whole, which is there before it: its node has no step
};

// By value. A value becomes a part of one concat's output at most, where
// * it is made by a node (of a view the value that it shows counts) and is no output of the graph,
// * its layout is the concat's (or holds the same bytes), and
// * it has a place there without a pitch, or with one that Tactic::takes_parts of the node that makes it and of all
//   that read it take, also of a view with the same rows.
// Everything else is copied by the concat. Likewise a slice along one axis becomes a part of the value that it is cut
// from (of a view the value that it shows) where that is made by a node, in one layout with the slice, and all that
// read the slice take its pitch. Sets Port::pitch and Port::in_place in the problems of `choices`.
std::vector<Part> find_parts(const Graph& graph, std::vector<NodeChoice>& choices);

// Whether the problem is a concat whose inputs all lie in its output already, so that its step writes nothing.
bool copies_nothing(const Problem& problem);

}  // namespace temper
