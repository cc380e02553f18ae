// SPDX-License-Identifier: Apache-2.0
// Control flow in a graph that is flat. Nodes have no effects, so a branch is what only one side of a choose needs, and
// the body of a loop is what lies between its loop_begin and its loop_end. Passes need to know nothing of it: what
// holds between values holds in each iteration. What does not depend on an iteration is computed before the loop.
#pragma once
#include <functional>

#include "graph/graph.h"

namespace temper {

bool has_control_flow(const Graph& graph);

// By node: whether the outputs need it, whatever the conditions are that `known` does not tell. Of a loop that is
// needed, its loop_end and what its body takes from outside are marked; the body is not. What decides a size in the
// fields of a needed node is needed, too.
using KnownCondition = std::function<std::optional<bool>(ValueId condition)>;
std::vector<char> needed_nodes(const Graph& graph, const KnownCondition& known);
// The conditions that are constants of the graph.
std::optional<bool> constant_condition(const Graph& graph, ValueId condition);

struct Loop {
  NodeId begin, end;
  std::vector<NodeId> inside;     // the nodes of its body, in order
  std::vector<ValueId> captured;  // what the body takes from outside and is no constant
  std::vector<NodeId> deciders;   // outside, of sizes that the body's fields hold (graph/data_sizes.h)
};
Loop loop_of(const Graph& graph, NodeId end);
// Inputs: iteration, condition, carried values, captured values. Outputs: condition, next carried values, scans.
Graph body_of(const Graph& graph, const Loop& loop);

// Throws Error{unsupported} where `trip`, which alone decides how often a loop runs, is above the limit.
void check_iterations(int64_t trip, int64_t most);

// Runs a loop. `types` are those of the loop_end's outputs, `body` takes iteration, condition and carried values.
// Undefined tensors for an absent trip and condition. Throws Error{unsupported} where scans cannot be stacked, and
// where it does not end within the iterations that it may make.
std::vector<Tensor> run_loop(const Node& end, std::span<const TensorType> types, const Tensor& trip,
                             const Tensor& condition, std::vector<Tensor> carried,
                             const std::function<std::vector<Tensor>(std::vector<Tensor> inputs)>& body);

}  // namespace temper
