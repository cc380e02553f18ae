// SPDX-License-Identifier: Apache-2.0
// Splits a graph at the nodes that decide shapes: into what can be planned at once, those nodes, and the rest.
#pragma once
#include "graph/graph.h"

namespace temper {

// A value of the graph that was split, by where it is once the first part and the nodes behind it have run.
struct Source {
  enum class Kind { part_output, between_output, none } kind = Kind::none;
  size_t index = 0;  // of all outputs of the nodes, in order
};

// Of a loop: the node is its loop_end, and the inputs are those of its loop_begin, then what its body captures.
struct BetweenNode {
  Node node;
  std::vector<Source> inputs;
  std::vector<TensorType> types;  // of a loop's outputs
  Graph body;
};

struct Split {
  Graph part;                                     // of concrete types; its inputs are the graph's
  std::vector<BetweenNode> between;               // in order
  Graph rest;                                     // what follows: no nodes and no outputs where nothing does
  std::vector<Source> next_inputs;                // of the rest
  std::vector<std::pair<size_t, Source>> finals;  // outputs that are known before it
  std::vector<size_t> rest_outputs;               // by its output
};

// `graph` is specialised as far as shapes are known. `output_index`: what finals and rest_outputs call its outputs.
// Throws Error{unsupported} where nothing can run.
Split split_graph(const Graph& graph, const std::vector<size_t>& output_index);

}  // namespace temper
