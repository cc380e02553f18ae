// SPDX-License-Identifier: Apache-2.0
// What of a model becomes caches: its past keys and values, the attentions that read them, and what counts positions.
#pragma once
#include <map>

#include "passes/cached_positions.h"
#include "passes/pass.h"

namespace temper::caches {

constexpr const char* kHow =
    "; a model of PyTorch gets the form that is known by `temper export --past`, which writes input_ids, "
    "attention_mask, position_ids and past_key_values";

using Pairs = std::vector<std::pair<std::string, std::string>>;  // inputs and outputs

struct Past {
  std::string name, output;
  std::string joined_output;  // that the graph has of its own
  ValueId value, joined;      // the input [B,G,P,D]; it and the new positions, [B,P+S,G,D]
};
// An attention that reads keys and values of these of the pasts.
struct CachedAttention {
  NodeId node;
  size_t keys, values;
};

struct Found {
  Graph graph;  // the model, prepared: it is what the values and nodes are of
  std::vector<Past> pasts;
  std::vector<CachedAttention> attentions;
  std::map<ValueId, Counts> counted;
  ValueId tokens, mask, positions;  // inputs, the last two where they are there
  Sizes sizes;
};

// For caches of so many positions; no pairs: those by name (graph/caches.h). Throws as keep_caches does.
Found find_caches(const Graph& graph, const Pairs& pairs, int64_t positions, const PassOptions& passes);

}  // namespace temper::caches
