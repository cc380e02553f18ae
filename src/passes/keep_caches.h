// SPDX-License-Identifier: Apache-2.0
// A model of which each run gives longer keys and values than it took becomes one that keeps them in caches of a fixed
// size, so that one plan serves every length.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "passes/pass.h"

namespace temper {

struct CacheOptions {
  int64_t positions = 0;                                   // of a cache
  DType dtype = DType::f32;                                // in which keys and values are kept
  std::vector<std::pair<std::string, std::string>> pairs;  // inputs and outputs; empty: by their names (graph/caches.h)
};

// Takes a model as it was imported, with inputs input_ids i64 [B,S] and past keys and values [B,G,P,D], which a concat
// along the positions joins with new ones before an attention reads them, and which are outputs then.
//
// The result reads caches [B,positions,G*D] in the place of the past, and appends the new rows; beside them it has the
// inputs and outputs of graph/caches.h. Row b gives what the model gives of that row alone, after lengths[b] positions
// and for counts[b] tokens, with an attention_mask of ones and position_ids that count on; inputs of these two names
// are gone.
//
// An attention sees by lengths what the model's mask lets it see. That the mask says just this, all keys up to the
// query's own position, is found by computing it for small and large numbers of keys and queries.
//
// Throws Error{usage} where there is no past, and Error{unsupported}, with what it met, for a model of another form:
// whose masks differ (windows, biases by distance), or which uses the number of past positions or the attention_mask
// for anything else. Throws Error{usage} for more positions than a constant table has rows that position_ids index.
Graph keep_caches(const Graph& graph, const CacheOptions& options, const PassOptions& passes = {});

}  // namespace temper
