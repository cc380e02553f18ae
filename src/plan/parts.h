// SPDX-License-Identifier: Apache-2.0
// Concats without copies: what makes an input of a concat writes it straight into its part of the output.
#pragma once
#include "plan/choose.h"

namespace temper {

struct Part {
  ValueId whole;       // the concat's output, which may be a part itself; invalid: the value has memory of its own
  int64_t offset = 0;  // bytes, in the whole
};

// By value. A value becomes a part of one concat's output at most, where
// * it is made by a node (of a view the value that it shows counts) and is no output of the graph,
// * its layout is the concat's, and
// * it has a place there without a pitch, or with one that Tactic::takes_parts of the node that makes it and of all
// that
//   read it take.
// Everything else is copied by the concat. Sets Port::pitch and Port::in_place in the problems of `choices`.
std::vector<Part> find_parts(const Graph& graph, std::vector<NodeChoice>& choices);

}  // namespace temper
