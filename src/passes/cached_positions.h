// SPDX-License-Identifier: Apache-2.0
// What parts of a model that goes on from what it read before give for so many past positions and so many new ones: by
// that it is told what counts positions, and what masks show.
#pragma once
#include "graph/caches.h"
#include "graph/graph.h"

namespace temper::caches {

constexpr std::string_view kMask = "attention_mask", kPositions = "position_ids";

// Refuses the model.
template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  fail(ErrorKind::unsupported, "its past keys and values cannot become caches: ", parts...);
}

// The sizes of such a model: B, S and P.
struct Sizes {
  Dim batch, queries, length;
};

// The part of a graph that makes `value`, as a graph whose inputs are those that it needs, and what it needs the sizes
// of.
Graph part_of(const Graph& graph, ValueId value);

// What `part` gives for one row with `past` positions before `queries` new ones.
Tensor value_of(const Graph& part, const Sizes& of, int64_t past, int64_t queries);

// body(past, queries) for small and large numbers of both; true where it is for all.
template <class Body>
bool holds_for_sizes(int64_t most, Body&& body) {
  for (const int64_t queries : {int64_t(1), int64_t(2), int64_t(5)})
    for (const int64_t past : {int64_t(0), int64_t(1), int64_t(7), most / 2, most - queries})
      if (past >= 0 && past + queries <= most && !body(past, queries)) return false;
  return true;
}

// What numbers of a row count, of which there is one, or one for each new position.
enum class Counts { none, past, all, positions };
Counts counts_of(const Graph& graph, ValueId value, const Sizes& sizes, int64_t most);

}  // namespace temper::caches
