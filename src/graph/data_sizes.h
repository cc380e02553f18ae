// SPDX-License-Identifier: Apache-2.0
// Sizes that only data decide stand as symbols in the fields of nodes that read no value of that size: of what has such
// a size only the shape is asked. Such a node depends on the one that decides the size as on its inputs.
#pragma once
#include <string>
#include <unordered_map>

#include "graph/graph.h"

namespace temper {

class DataSizes {
 public:
  explicit DataSizes(const Graph& graph);
  // The nodes that decide a size in the fields of this one.
  std::vector<NodeId> deciders(NodeId id) const;

 private:
  const Graph& graph_;
  std::unordered_map<std::string, NodeId> decider_;  // by symbol
};

}  // namespace temper
