// SPDX-License-Identifier: Apache-2.0
#include "runtime/split_graph.h"

#include <algorithm>
#include <map>

#include "graph/control.h"
#include "graph/ops/choose.h"
#include "graph/ops/loop.h"

namespace temper {

namespace {

class Splitter {
 public:
  Splitter(const Graph& graph, const std::vector<size_t>& output_index) : graph_(graph), output_index_(output_index) {}

  Split run() {
    const size_t values = size_t(graph_.value_count());
    part_value_.assign(values, ValueId{});
    source_.assign(values, Source{});
    in_part_.assign(values, 0);
    for (ValueId id : graph_.inputs()) {
      part_value_[size_t(id.index)] = split_.part.add_input(graph_.value(id).name, graph_.type(id));
      in_part_[size_t(id.index)] = 1;
    }
    const std::vector<char> needed = needed_nodes(graph_, [&](ValueId id) { return constant_condition(graph_, id); });
    find_loops(needed);
    std::vector<NodeId> between, later;
    std::vector<char> is_later(size_t(graph_.node_count()), 0);
    for (int32_t n = 0; n < graph_.node_count(); ++n) {
      const Node& node = graph_.node({n});
      if (const auto at = loops_.find(n); at != loops_.end() && can_run(at->second)) {
        between.push_back({n});
        continue;
      }
      if (in_loop_[size_t(n)]) continue;
      const bool known = std::all_of(node.outputs.begin(), node.outputs.end(),
                                     [&](ValueId id) { return graph_.type(id).is_concrete(); });
      const bool ready = needed[size_t(n)] && !node.op.is<ops::Choose>() && are_in_part(node.inputs);
      if (known && ready) {
        std::vector<ValueId> inputs;
        std::vector<std::string> names;
        for (ValueId id : node.inputs) inputs.push_back(part_input(id));
        for (ValueId id : node.outputs) names.push_back(graph_.value(id).name);
        const auto outputs = split_.part.add(node.op, std::move(inputs), node.name, names);
        for (size_t i = 0; i < outputs.size(); ++i) {
          part_value_[size_t(node.outputs[i].index)] = outputs[i];
          in_part_[size_t(node.outputs[i].index)] = 1;
        }
      } else if (ready && is_concrete(node.op)) {
        between.push_back({n});
      } else {
        // Its fields may hold a size that the result of another node decides.
        is_later[size_t(n)] = 1;
      }
    }
    bool goes_on = !between.empty();
    for (const auto& [end, loop] : loops_)
      if (std::find(between.begin(), between.end(), NodeId{end}) == between.end()) {
        is_later[size_t(loop.begin.index)] = is_later[size_t(end)] = 1;
        for (NodeId id : loop.inside) is_later[size_t(id.index)] = 1;
      }
    for (int32_t n = 0; n < graph_.node_count(); ++n) {
      if (!is_later[size_t(n)]) continue;
      later.push_back({n});
      const Node& node = graph_.node({n});
      goes_on |= node.op.is<ops::Choose>() && needed[size_t(n)] && in_part_[size_t(node.inputs[0].index)];
    }
    if (!goes_on && !later.empty()) fail_stuck(later, needed);
    size_t between_outputs = 0;
    for (NodeId id : between) {
      const Node& node = graph_.node(id);
      BetweenNode item{node, {}, {}, {}};
      std::vector<ValueId> inputs = node.inputs;
      if (const auto at = loops_.find(id.index); at != loops_.end()) {
        const auto carried = size_t(node.op.get<ops::LoopEnd>().carried);
        inputs = graph_.node(at->second.begin).inputs;
        inputs.resize(2 + carried);
        inputs.insert(inputs.end(), at->second.captured.begin(), at->second.captured.end());
        for (ValueId output : node.outputs) item.types.push_back(graph_.type(output));
        item.body = body_of(graph_, at->second);
      }
      for (ValueId input : inputs) item.inputs.push_back(input.valid() ? export_value(input) : Source{});
      split_.between.push_back(std::move(item));
      for (ValueId output : node.outputs)
        source_[size_t(output.index)] = {Source::Kind::between_output, between_outputs++};
    }
    // The rest takes what it needs as inputs, under the names (and with the symbols) that the values have here.
    std::vector<ValueId> rest_value(values);
    auto rest_input = [&](ValueId id) -> ValueId {
      if (!id.valid()) return {};
      ValueId& to = rest_value[size_t(id.index)];
      if (to.valid()) return to;
      if (const Tensor* constant = graph_.constant(id))
        return to = split_.rest.add_constant(graph_.value(id).name, *constant);
      split_.next_inputs.push_back(export_value(id));
      return to = split_.rest.add_input(graph_.value(id).name, graph_.type(id));
    };
    // What decides sizes is an input also where only its sizes are used: fields speak of them.
    for (NodeId id : between)
      for (ValueId output : graph_.node(id).outputs)
        if (!later.empty() && !graph_.type(output).is_concrete()) rest_input(output);
    for (NodeId id : later) {
      const Node& node = graph_.node(id);
      std::vector<ValueId> inputs;
      std::vector<std::string> names;
      for (ValueId input : node.inputs) inputs.push_back(rest_input(input));
      for (ValueId output : node.outputs) names.push_back(graph_.value(output).name);
      const auto outputs = split_.rest.add(node.op, std::move(inputs), node.name, names);
      for (size_t i = 0; i < outputs.size(); ++i) rest_value[size_t(node.outputs[i].index)] = outputs[i];
    }
    for (size_t o = 0; o < graph_.outputs().size(); ++o) {
      const ValueId id = graph_.outputs()[o].value;
      if (graph_.constant(id) || in_part_[size_t(id.index)] || source_[size_t(id.index)].kind != Source::Kind::none) {
        split_.finals.push_back({output_index_[o], export_value(id)});
      } else {
        split_.rest.add_output(graph_.outputs()[o].name, rest_value[size_t(id.index)]);
        split_.rest_outputs.push_back(output_index_[o]);
      }
    }
    split_.part.compact();
    return std::move(split_);
  }

 private:
  Split split_;
  const Graph& graph_;
  const std::vector<size_t>& output_index_;
  std::vector<ValueId> part_value_;
  std::vector<Source> source_;
  std::vector<char> in_part_;
  std::map<int32_t, Loop> loops_;  // by their ends; not those inside of others
  std::vector<char> in_loop_;      // by node, the ends too

  bool are_in_part(const std::vector<ValueId>& ids) const {
    return std::all_of(ids.begin(), ids.end(),
                       [&](ValueId id) { return !id.valid() || graph_.constant(id) || in_part_[size_t(id.index)]; });
  }

  void find_loops(const std::vector<char>& needed) {
    in_loop_.assign(size_t(graph_.node_count()), 0);
    for (int32_t n = graph_.node_count(); n-- > 0;) {
      if (in_loop_[size_t(n)] || !needed[size_t(n)] || !graph_.node({n}).op.is<ops::LoopEnd>()) continue;
      Loop loop = loop_of(graph_, {n});
      in_loop_[size_t(n)] = in_loop_[size_t(loop.begin.index)] = 1;
      bool read_outside = needed[size_t(loop.begin.index)];
      for (NodeId id : loop.inside) {
        in_loop_[size_t(id.index)] = 1;
        read_outside |= needed[size_t(id.index)] != 0;
      }
      if (read_outside)
        fail(ErrorKind::bad_file, "a value inside of the loop '", graph_.node({n}).name, "' is read outside of it");
      loops_.emplace(n, std::move(loop));
    }
  }

  // Of a graph from a file: a size in its fields has no node before it that decides it.
  [[noreturn]] void fail_stuck(const std::vector<NodeId>& later, const std::vector<char>& needed) const {
    const auto first = std::find_if(later.begin(), later.end(), [&](NodeId id) { return needed[size_t(id.index)]; });
    const Node& node = graph_.node(first == later.end() ? later.front() : *first);
    fail(ErrorKind::unsupported, name_of(node.op), " '", node.name,
         "' cannot run: nothing before it decides the sizes ", "that it needs (", fields_text(node.op), ")");
  }

  // What its body takes is there, and so is every size that data decide outside of it.
  bool can_run(const Loop& loop) const {
    return are_in_part(graph_.node(loop.begin).inputs) && are_in_part(loop.captured) && loop.deciders.empty();
  }

  ValueId part_input(ValueId id) {
    if (!id.valid()) return {};
    ValueId& to = part_value_[size_t(id.index)];
    if (!to.valid()) to = split_.part.add_constant(graph_.value(id).name, *graph_.constant(id));
    return to;
  }
  // Makes a value of the first part (or a result behind it) available after the partition.
  Source export_value(ValueId id) {
    Source& source = source_[size_t(id.index)];
    if (source.kind == Source::Kind::none) {
      source = {Source::Kind::part_output, split_.part.outputs().size()};
      split_.part.add_output(graph_.value(id).name, part_input(id));
    }
    return source;
  }
};

}  // namespace

Split split_graph(const Graph& graph, const std::vector<size_t>& output_index) {
  return Splitter(graph, output_index).run();
}

}  // namespace temper
