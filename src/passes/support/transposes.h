// SPDX-License-Identifier: Apache-2.0
// Cancels transposes, and moves them behind the ops that read them.
#pragma once
#include "base/build_time.h"
#include "graph/graph.h"

namespace temper {

// The ops that transposes sink through: nothing; ops that do not care for the order of axes (pointwise, and those with
// take_untransposed); these and, where rows alone move, products with one matrix for all rows; or all of them and
// products with such a constant matrix that read their rows transposed: with x^T as the rows, x^T W is (W^T x)^T.
enum class Sinks { none, ops, rows, products };

// Two transposes in a row become one, inverse ones none, also with reshapes between them; one that moves only axes of
// size 1 becomes a reshape; one that swaps the two axes of a matrix becomes the product's transpose_a or transpose_b.
// What sinks is one transpose behind the op for those before it. True: the graph changed; it is compact then. Throws
// where `time` is over.
bool move_transposes(Graph& graph, Sinks sinks, const BuildTime& time);

int64_t count_transposes(const Graph& graph);
// These, and products of computed rows that are transposed, and normalisations over other axes than the last: all that
// is read across the order in memory.
int64_t count_read_across(const Graph& graph);

// Lets transposes sink on a copy of the graph, which is taken only if less in it is read across.
bool sink_where_fewer(Graph& graph, Sinks sinks, const BuildTime& time);

}  // namespace temper
