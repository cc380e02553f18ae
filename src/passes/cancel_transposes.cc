// SPDX-License-Identifier: Apache-2.0
// cancel_transposes: two transposes in a row are one, inverse ones none, also with reshapes between them; a transpose
// that moves only axes of size 1 is a reshape; one that swaps the two axes of a matrix becomes the product's
// transpose_a or transpose_b. One that turns an image into tokens stays, since it moves no byte where images lie with
// their channels last. Transposes also sink through ops that do not care for the order of axes (pointwise, and those
// with take_untransposed): on a copy of the graph, which is taken only if fewer transposes are left in it.
#include "passes/pass.h"
#include "passes/support/transposes.h"

namespace temper {

bool cancel_transposes(Graph& graph, const PassOptions& options) {
  if (count_transposes(graph) == 0) return false;
  Graph sunk = graph;
  const bool sinks = move_transposes(sunk, Sinks::ops, options.time),
             changed = move_transposes(graph, Sinks::none, options.time);
  if (!sinks || count_transposes(sunk) >= count_transposes(graph)) return changed;
  graph = std::move(sunk);
  return true;
}

}  // namespace temper
