// SPDX-License-Identifier: Apache-2.0
#include "graph/control.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "graph/data_sizes.h"
#include "graph/ops/choose.h"
#include "graph/ops/loop.h"

namespace temper {

bool has_control_flow(const Graph& graph) {
  for (int32_t n = 0; n < graph.node_count(); ++n)
    if (graph.node({n}).op.is<ops::Choose, ops::LoopBegin, ops::LoopEnd>()) return true;
  return false;
}

std::optional<bool> constant_condition(const Graph& graph, ValueId condition) {
  const Tensor* constant = graph.constant(condition);
  return constant ? std::optional(constant->to_ints().at(0) != 0) : std::nullopt;
}

std::vector<char> needed_nodes(const Graph& graph, const KnownCondition& known) {
  std::vector<char> needed(size_t(graph.node_count()), 0), visited(needed);
  std::vector<NodeId> stack;
  const auto need = [&](ValueId id) {
    if (id.valid() && graph.value(id).producer.valid()) stack.push_back(graph.value(id).producer);
  };
  for (const GraphOutput& output : graph.outputs()) need(output.value);
  const DataSizes sizes(graph);
  while (!stack.empty()) {
    const NodeId id = stack.back();
    stack.pop_back();
    if (std::exchange(needed[size_t(id.index)], 1)) continue;
    const Node& node = graph.node(id);
    if (node.op.is<ops::Choose>()) {
      need(node.inputs[0]);
      if (const auto side = known(node.inputs[0]))
        for (size_t i = 0; i < node.outputs.size(); ++i)
          need(node.inputs[ops::first_of_side(*side, node.outputs.size()) + i]);
    } else if (node.op.is<ops::LoopEnd>()) {
      const Loop loop = loop_of(graph, id);
      for (ValueId input : graph.node(loop.begin).inputs) need(input);
      for (ValueId input : loop.captured) need(input);
      stack.insert(stack.end(), loop.deciders.begin(), loop.deciders.end());
    } else {
      const std::vector<NodeId> deciders = sizes.deciders(id);
      stack.insert(stack.end(), deciders.begin(), deciders.end());
      for (ValueId input : node.inputs) need(input);
    }
  }
  return needed;
}

Loop loop_of(const Graph& graph, NodeId end) {
  const Node& last = graph.node(end);
  const Node* first = graph.producer(last.inputs.at(0));
  if (!first || !first->op.is<ops::LoopBegin>()) fail(ErrorKind::bad_file, "loop_end '", last.name, "' has no begin");
  if (first->outputs.size() != 2 + size_t(last.op.get<ops::LoopEnd>().carried))
    fail(ErrorKind::bad_file, "loop_end '", last.name, "' carries other values than its begin");
  Loop loop{graph.value(last.inputs[0]).producer, end, {}, {}, {}};
  const auto base = size_t(loop.begin.index);
  std::vector<char> depends(size_t(end.index) - base + 1, 0), leads(depends);
  const auto place = [&](ValueId id) -> int64_t {
    return id.valid() ? int64_t(graph.value(id).producer.index) - int64_t(base) : -1;
  };
  depends[0] = leads.back() = 1;
  const DataSizes sizes(graph);
  const auto each_before = [&](size_t i, const auto& f) {  // places of what a node depends on
    const NodeId id{int32_t(base + i)};
    for (ValueId input : graph.node(id).inputs)
      if (const int64_t at = place(input); at >= 0) f(size_t(at));
    for (NodeId decider : sizes.deciders(id))
      if (decider >= loop.begin) f(size_t(decider.index) - base);
  };
  for (size_t i = 1; i < depends.size(); ++i) each_before(i, [&](size_t at) { depends[i] |= depends[at]; });
  for (size_t i = leads.size(); i-- > 1;)
    if (leads[i]) each_before(i, [&](size_t at) { leads[at] = 1; });
  std::vector<char> seen(size_t(graph.value_count()), 0);
  const auto is_inside = [&](ValueId id) {
    const int64_t at = place(id);
    return at >= 0 && depends[size_t(at)] && leads[size_t(at)];
  };
  const auto take = [&](ValueId id) {
    if (id.valid() && !graph.constant(id) && !is_inside(id) && !std::exchange(seen[size_t(id.index)], 1))
      loop.captured.push_back(id);
  };
  for (size_t i = 1; i + 1 < leads.size(); ++i) {
    if (!depends[i] || !leads[i]) continue;
    loop.inside.push_back({int32_t(base + i)});
    for (ValueId input : graph.node({int32_t(base + i)}).inputs) take(input);
    for (NodeId decider : sizes.deciders({int32_t(base + i)})) {
      const int64_t at = int64_t(decider.index) - int64_t(base);
      if (at < 0 || !depends[size_t(at)] || !leads[size_t(at)]) loop.deciders.push_back(decider);
    }
  }
  // The trip, input 1, is what loop_begin takes, too.
  for (size_t i = 2; i < last.inputs.size(); ++i) take(last.inputs[i]);
  return loop;
}

Graph body_of(const Graph& graph, const Loop& loop) {
  Graph body;
  body.name = graph.node(loop.end).name;
  std::vector<ValueId> map(size_t(graph.value_count()));
  const auto take = [&](ValueId id) { map[size_t(id.index)] = body.add_input(graph.value(id).name, graph.type(id)); };
  const auto mapped = [&](ValueId id) {
    if (!id.valid()) return ValueId{};
    ValueId& to = map[size_t(id.index)];
    if (!to.valid()) to = body.add_constant(graph.value(id).name, *graph.constant(id));
    return to;
  };
  for (ValueId id : graph.node(loop.begin).outputs) take(id);
  for (ValueId id : loop.captured) take(id);
  for (NodeId id : loop.inside) {
    const Node& node = graph.node(id);
    std::vector<ValueId> inputs;
    std::vector<std::string> names;
    for (ValueId input : node.inputs) inputs.push_back(mapped(input));
    for (ValueId output : node.outputs) names.push_back(graph.value(output).name);
    const auto outputs = body.add(node.op, std::move(inputs), node.name, names);
    for (size_t i = 0; i < outputs.size(); ++i) map[size_t(node.outputs[i].index)] = outputs[i];
  }
  const Node& end = graph.node(loop.end);
  const auto carried = size_t(end.op.get<ops::LoopEnd>().carried);
  body.add_output("condition", mapped(end.inputs[2]));
  for (size_t i = 3 + carried; i < end.inputs.size(); ++i)
    body.add_output(concat("next.", i - 3 - carried), mapped(end.inputs[i]));
  body.compact();
  return body;
}

namespace {

// Slices one behind the other: of one shape, or joined along their first axis, of one shape but for that.
class Stack {
 public:
  explicit Stack(bool joins) : joins_(joins) {}
  void add(const Tensor& slice) {
    const Dims& dims = slice.dims();
    const auto from = [&](const Dims& all) { return std::span(all).subspan(joins_ && !all.empty() ? 1 : 0); };
    if (count_++ == 0) dims_ = dims;
    else if (dims.size() != dims_.size() || !std::ranges::equal(from(dims), from(dims_)))
      fail(ErrorKind::unsupported, "it gives ", dims, " to a scan of slices ", dims_, ": slices of different shapes ",
           "cannot be stacked, nor elements of different shapes appended to a sequence whose length is data");
    rows_ += joins_ ? dims[0] : 1;
    bytes_.insert(bytes_.end(), slice.raw().begin(), slice.raw().end());
  }
  Tensor stacked(const TensorType& type) {
    const size_t before = joins_ ? 0 : 1;  // axes of the result that a slice has not
    Dims dims{rows_};
    for (size_t axis = 1; axis < type.shape.size(); ++axis)
      dims.push_back(count_ ? dims_[axis - before] : type.shape[axis].is_constant() ? type.shape[axis].value() : 0);
    Tensor tensor(type.dtype, std::move(dims));
    if (!bytes_.empty()) std::memcpy(tensor.raw_mutable(), bytes_.data(), bytes_.size());
    return tensor;
  }

 private:
  bool joins_;
  int64_t count_ = 0, rows_ = 0;
  Dims dims_;
  std::vector<std::byte> bytes_;
};

}  // namespace

void check_iterations(int64_t trip, int64_t most) {
  if (trip > most)
    fail(ErrorKind::unsupported, "it runs ", trip, " iterations; the limit is ", most, "; --loop-limit N sets another");
}

std::vector<Tensor> run_loop(const Node& end, std::span<const TensorType> types, const Tensor& trip,
                             const Tensor& condition, std::vector<Tensor> carried,
                             const std::function<std::vector<Tensor>(std::vector<Tensor> inputs)>& body) {
  const int64_t limit = end.op.get<ops::LoopEnd>().limit;
  const int64_t most = trip.defined() ? trip.to_ints().at(0) : std::numeric_limits<int64_t>::max();
  bool goes_on = !condition.defined() || condition.to_ints().at(0) != 0;
  const auto named = [&] { return concat("loop '", end.name, "'"); };
  const bool trip_decides = end.inputs[1].valid();
  if (trip_decides && goes_on) with_context(named, [&] { check_iterations(most, limit); });
  const size_t count = carried.size();
  std::vector<Stack> stacks;
  for (size_t s = 0; s < types.size() - count; ++s) stacks.emplace_back(end.op.get<ops::LoopEnd>().joins(s));
  for (int64_t i = 0; i < most && goes_on; ++i) {
    if (i == limit)
      with_context(named, [&] {
        fail(ErrorKind::unsupported, "its condition did not end it within ", limit,
             " iterations; --loop-limit N sets another limit");
      });
    std::vector<Tensor> inputs{Tensor::of<int64_t>({}, {i}), Tensor(DType::boolean, {})};
    *inputs[1].raw_mutable() = std::byte{1};
    for (Tensor& value : carried) inputs.push_back(std::move(value));
    with_context([&] { return concat("loop '", end.name, "', iteration ", i); },
                 [&] {
                   std::vector<Tensor> given = body(std::move(inputs));
                   goes_on = given.at(0).to_ints().at(0) != 0;
                   for (size_t c = 0; c < count; ++c) carried[c] = std::move(given[1 + c]);
                   for (size_t s = 0; s < stacks.size(); ++s)
                     with_context([&] { return concat("result ", 1 + count + s, " of its body"); },
                                  [&] { stacks[s].add(given.at(1 + count + s)); });
                 });
  }
  for (size_t s = 0; s < stacks.size(); ++s) carried.push_back(stacks[s].stacked(types[count + s]));
  return carried;
}

}  // namespace temper
