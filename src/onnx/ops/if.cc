// SPDX-License-Identifier: Apache-2.0
// Imports If: the branch that a condition names, where it is known at import, as it is when it asks about shapes; else
// both, and a choose of their results. Sides of different ranks, as exporters write a squeeze of an axis whose size is
// open: what reads the results usually takes one of the ranks only, and that side is the one that is kept. So it is
// with sequences of different lengths.
#include <onnx/onnx_pb.h>

#include "graph/ops/choose.h"
#include "onnx/node.h"

namespace temper {

namespace {

// The tensors of a branch's results, one after the other.
std::vector<ValueId> tensors_of(const std::vector<OnnxValue>& results) {
  std::vector<ValueId> tensors;
  for (const OnnxValue& result : results) {
    if (result.tensor.valid()) tensors.push_back(result.tensor);
    if (!result.sequence) continue;
    tensors.insert(tensors.end(), result.sequence->elements.begin(), result.sequence->elements.end());
    if (result.sequence->stacked.valid()) tensors.push_back(result.sequence->stacked);
  }
  return tensors;
}

// The same results made of other tensors.
std::vector<OnnxValue> with_tensors(const std::vector<OnnxValue>& results, const std::vector<ValueId>& tensors) {
  std::vector<OnnxValue> out;
  size_t next = 0;
  for (const OnnxValue& result : results) {
    if (result.sequence) {
      OnnxSequence sequence = *result.sequence;
      for (ValueId& element : sequence.elements) element = tensors.at(next++);
      if (sequence.stacked.valid()) sequence.stacked = tensors.at(next++);
      out.emplace_back(std::move(sequence));
    } else {
      out.emplace_back(result.tensor.valid() ? tensors.at(next++) : ValueId{});
    }
  }
  return out;
}

bool same_structure(const OnnxValue& a, const OnnxValue& b) {
  if (a.tensor.valid() != b.tensor.valid() || !a.sequence != !b.sequence) return false;
  return !a.sequence ||
         (a.sequence->elements.size() == b.sequence->elements.size() &&
          a.sequence->stacked.valid() == b.sequence->stacked.valid() && a.sequence->grows_in == b.sequence->grows_in);
}

// One side alone: a run whose condition chooses the other ends with an error that says so.
std::vector<OnnxValue> only(OnnxNode& node, const std::vector<OnnxValue>& results, bool then) {
  std::vector<ValueId> inputs{node.input(0)};
  const std::vector<ValueId> kept = tensors_of(results), other(kept.size());
  for (const auto* side : {then ? &kept : &other, then ? &other : &kept})
    inputs.insert(inputs.end(), side->begin(), side->end());
  return with_tensors(results, node.add_many(ops::Choose(), std::move(inputs)));
}

// Where results have different ranks or structures, one side is left out.
std::vector<OnnxValue> choose(OnnxNode& node, const std::vector<OnnxValue>& then_results,
                              const std::vector<OnnxValue>& else_results) {
  const Graph& graph = node.graph();
  ops::Choose op;
  bool fit = true;
  for (size_t i = 0; i < then_results.size(); ++i) fit &= same_structure(then_results[i], else_results[i]);
  std::vector<ValueId> first = tensors_of(then_results), second = tensors_of(else_results);
  for (size_t i = 0; fit && i < first.size(); ++i) {
    const Shape &a = graph.type(first[i]).shape, &b = graph.type(second[i]).shape;
    fit &= a.size() == b.size();
    for (size_t axis = 0; fit && axis < a.size(); ++axis)
      if (a[axis] != b[axis]) op.open.insert(op.open.end(), {int64_t(i), int64_t(axis)});
  }
  if (!fit) {
    const bool then = node.takes_first_side();
    // What has no results would not notice that it was left out.
    if ((then ? first : second).empty())
      node.refuse("its branches give sequences of different lengths, or a value and none");
    return only(node, then ? then_results : else_results, then);
  }
  if (first.empty()) return then_results;
  std::vector<ValueId> inputs{node.input(0)};
  inputs.insert(inputs.end(), first.begin(), first.end());
  inputs.insert(inputs.end(), second.begin(), second.end());
  return with_tensors(then_results, node.add_many(op, std::move(inputs)));
}

}  // namespace

void import_If(OnnxNode& node) {
  const auto* then_branch = node.graph_attribute("then_branch");
  const auto* else_branch = node.graph_attribute("else_branch");
  if (!then_branch || !else_branch) node.bad("a branch is missing");
  for (const auto* branch : {then_branch, else_branch})
    if (size_t(branch->output_size()) != node.output_count())
      node.bad("a branch has ", branch->output_size(), " outputs");
  const auto branch = [&](const onnx::GraphProto& graph) { return node.inline_graph(graph, {}); };
  std::vector<OnnxValue> outputs;
  const Contents* known = node.contents(0);
  if (known && known->size() == 1 && (*known)[0].is_constant()) {
    outputs = branch(*((*known)[0].value() ? then_branch : else_branch));
  } else {
    // A side that contradicts the shapes is meant for others. It is left out, as it is when a graph is specialised.
    std::optional<std::vector<OnnxValue>> sides[2];
    std::optional<Error> why;
    for (const bool then : {true, false}) try {
        sides[then] = branch(then ? *then_branch : *else_branch);
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::bad_file || node.is_too_deep() || why) throw;
        why = error;
      }
    if (!why) outputs = choose(node, *sides[1], *sides[0]);
    else if (const bool then = sides[1].has_value(); tensors_of(*sides[then]).empty()) throw Error(*why);
    else outputs = only(node, *sides[then], then);
  }
  for (size_t i = 0; i < outputs.size(); ++i) node.set_output(i, outputs[i]);
}

}  // namespace temper
