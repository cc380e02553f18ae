// SPDX-License-Identifier: Apache-2.0
#include "runtime/partitions.h"

#include <algorithm>

#include "backends/backend.h"
#include "plan/execute.h"

namespace temper {

bool is_one_partition(const Graph& graph) {
  for (int32_t v = 0; v < graph.value_count(); ++v)
    if (!graph.type({v}).is_concrete()) return false;
  return true;
}

namespace {

// A value of the source graph by where the runner finds its tensor.
struct Source {
  enum class Kind { plan_output, eager_output, none } kind = Kind::none;
  size_t index = 0;
};

struct EagerNode {
  Op op;
  std::string name;
  std::vector<Source> inputs;
};

struct StageEntry {
  std::shared_ptr<const Plan> plan;
  std::unique_ptr<Executor> executor;
  std::vector<EagerNode> eager;                   // in order; each output appended to the eager tensors
  std::vector<std::pair<size_t, Source>> finals;  // graph output, where its tensor is
  std::vector<Source> next_inputs;
};

}  // namespace

struct PartitionedRunner::Branch {
  StageEntry entry;
  std::unique_ptr<Level> next;
  int64_t used = 0;  // the last run that came through here
};

struct PartitionedRunner::Level {
  Graph graph;
  std::vector<size_t> output_index;  // of the model, by output of this level's graph
  std::map<std::vector<Dims>, Branch> branches;
};

PartitionedRunner::PartitionedRunner(const Engine& engine, Arena& arena)
    : engine_(engine), arena_(arena), first_(std::make_unique<Level>()), bytes_(engine.known_constants()) {
  first_->graph = engine.graph();
  for (size_t o = 0; o < engine.graph().outputs().size(); ++o) first_->output_index.push_back(o);
}
PartitionedRunner::~PartitionedRunner() = default;

namespace {

// Splits `graph` (specialised as far as shapes are known) into a first part with concrete types, the nodes that decide
// shapes, and the rest.
class Splitter {
 public:
  Splitter(const Graph& graph, const std::vector<size_t>& output_index) : graph_(graph), output_index_(output_index) {}

  Graph part, rest;
  StageEntry entry;
  std::vector<size_t> rest_outputs;

  void run() {
    const size_t values = size_t(graph_.value_count());
    part_value_.assign(values, ValueId{});
    source_.assign(values, Source{});
    in_part_.assign(values, 0);
    for (ValueId id : graph_.inputs()) {
      part_value_[size_t(id.index)] = part.add_input(graph_.value(id).name, graph_.type(id));
      in_part_[size_t(id.index)] = 1;
    }
    std::vector<NodeId> eager, later;
    for (int32_t n = 0; n < graph_.node_count(); ++n) {
      const Node& node = graph_.node({n});
      const bool known = std::all_of(node.outputs.begin(), node.outputs.end(),
                                     [&](ValueId id) { return graph_.type(id).is_concrete(); });
      const bool ready = std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
        return !id.valid() || graph_.constant(id) || in_part_[size_t(id.index)];
      });
      if (known && ready) {
        std::vector<ValueId> inputs;
        std::vector<std::string> names;
        for (ValueId id : node.inputs) inputs.push_back(part_input(id));
        for (ValueId id : node.outputs) names.push_back(graph_.value(id).name);
        const auto outputs = part.add(node.op, std::move(inputs), node.name, names);
        for (size_t i = 0; i < outputs.size(); ++i) {
          part_value_[size_t(node.outputs[i].index)] = outputs[i];
          in_part_[size_t(node.outputs[i].index)] = 1;
        }
      } else {
        (ready ? eager : later).push_back({n});
      }
    }
    if (eager.empty() && !later.empty())
      fail(ErrorKind::unsupported, "no node of the graph can run next: shapes wait for each other");
    size_t eager_outputs = 0;
    for (NodeId id : eager) {
      const Node& node = graph_.node(id);
      EagerNode item{node.op, node.name, {}};
      for (ValueId input : node.inputs) item.inputs.push_back(input.valid() ? export_value(input) : Source{});
      entry.eager.push_back(std::move(item));
      for (ValueId output : node.outputs) source_[size_t(output.index)] = {Source::Kind::eager_output, eager_outputs++};
    }
    // The rest takes what it needs as inputs, under the names (and with the symbols) that the values have here.
    std::vector<ValueId> rest_value(values);
    auto rest_input = [&](ValueId id) -> ValueId {
      if (!id.valid()) return {};
      ValueId& to = rest_value[size_t(id.index)];
      if (to.valid()) return to;
      if (const Tensor* constant = graph_.constant(id)) return to = rest.add_constant(graph_.value(id).name, *constant);
      entry.next_inputs.push_back(export_value(id));
      return to = rest.add_input(graph_.value(id).name, graph_.type(id));
    };
    for (NodeId id : later) {
      const Node& node = graph_.node(id);
      std::vector<ValueId> inputs;
      std::vector<std::string> names;
      for (ValueId input : node.inputs) inputs.push_back(rest_input(input));
      for (ValueId output : node.outputs) names.push_back(graph_.value(output).name);
      const auto outputs = rest.add(node.op, std::move(inputs), node.name, names);
      for (size_t i = 0; i < outputs.size(); ++i) rest_value[size_t(node.outputs[i].index)] = outputs[i];
    }
    for (size_t o = 0; o < graph_.outputs().size(); ++o) {
      const ValueId id = graph_.outputs()[o].value;
      if (graph_.constant(id) || in_part_[size_t(id.index)] || source_[size_t(id.index)].kind != Source::Kind::none) {
        entry.finals.push_back({output_index_[o], export_value(id)});
      } else {
        rest.add_output(graph_.outputs()[o].name, rest_value[size_t(id.index)]);
        rest_outputs.push_back(output_index_[o]);
      }
    }
  }

 private:
  const Graph& graph_;
  const std::vector<size_t>& output_index_;
  std::vector<ValueId> part_value_;
  std::vector<Source> source_;
  std::vector<char> in_part_;

  ValueId part_input(ValueId id) {
    if (!id.valid()) return {};
    ValueId& to = part_value_[size_t(id.index)];
    if (!to.valid()) to = part.add_constant(graph_.value(id).name, *graph_.constant(id));
    return to;
  }
  // Makes a value of the first part (or an eager result) available after the partition.
  Source export_value(ValueId id) {
    Source& source = source_[size_t(id.index)];
    if (source.kind == Source::Kind::none) {
      source = {Source::Kind::plan_output, part.outputs().size()};
      part.add_output(graph_.value(id).name, part_input(id));
    }
    return source;
  }
};

}  // namespace

PartitionedRunner::Branch& PartitionedRunner::make(Level& level, const std::vector<Dims>& shapes) {
  const Graph concrete = specialize(level.graph, bind_shapes(level.graph, shapes));
  Splitter splitter(concrete, level.output_index);
  splitter.run();
  splitter.part.compact();
  Branch branch;
  branch.entry = std::move(splitter.entry);
  branch.entry.plan = engine_.make_plan(splitter.part);
  branch.entry.executor = make_executor(*branch.entry.plan, engine_.device(), arena_);
  if (splitter.rest.node_count() > 0 || !splitter.rest_outputs.empty()) {
    branch.next = std::make_unique<Level>();
    branch.next->graph = std::move(splitter.rest);
    branch.next->output_index = std::move(splitter.rest_outputs);
  }
  bytes_.add(*branch.entry.plan);
  kernel_bytes_ += kernel_bytes(*branch.entry.plan);
  ++kept_;
  ++made_;
  return level.branches.emplace(shapes, std::move(branch)).first->second;
}

// What stands below a level goes with it.
void PartitionedRunner::leave(Level& level) {
  for (auto& [shapes, branch] : level.branches) {
    if (branch.next) leave(*branch.next);
    bytes_.remove(*branch.entry.plan);
    kernel_bytes_ -= kernel_bytes(*branch.entry.plan);
    --kept_;
    ++evictions_;
  }
  level.branches.clear();
}

// The way of this run stays, whatever it takes.
void PartitionedRunner::stay_within_limits() {
  const ShapeLimits limits = engine_.limits();
  bool less = false;
  while (kept_ > limits.prepared || bytes_.total() + kernel_bytes_ > limits.prepared_bytes) {
    // A branch was used at least as lately as those below it: the oldest of all may go with them.
    Level* where = nullptr;
    std::map<std::vector<Dims>, Branch>::iterator oldest;
    std::vector<Level*> work{first_.get()};
    while (!work.empty()) {
      Level* level = work.back();
      work.pop_back();
      for (auto it = level->branches.begin(); it != level->branches.end(); ++it) {
        if (it->second.used < run_ && (!where || it->second.used < oldest->second.used)) where = level, oldest = it;
        if (it->second.next) work.push_back(it->second.next.get());
      }
    }
    if (!where) break;
    Level going;
    going.branches.insert(where->branches.extract(oldest));
    leave(going);
    less = true;
  }
  if (less) engine_.forget_unused();
}

void PartitionedRunner::add_to(SessionStatistics& statistics) const {
  statistics.plans_made += made_;
  statistics.prepared += kept_;
  statistics.prepared_bytes += bytes_.total() + kernel_bytes_;
  statistics.evictions += evictions_;
}

std::vector<Tensor> PartitionedRunner::run(const std::vector<Tensor>& model_inputs) {
  ++run_;
  std::vector<Tensor> results(engine_.outputs().size());
  std::vector<Tensor> inputs = model_inputs;
  Level* level = first_.get();
  while (level) {
    std::vector<Dims> shapes;
    for (const Tensor& input : inputs) shapes.push_back(input.dims());
    const auto it = level->branches.find(shapes);
    const bool fresh = it == level->branches.end();
    Branch& branch = fresh ? make(*level, shapes) : it->second;
    branch.used = run_;
    if (fresh) stay_within_limits();
    StageEntry& entry = branch.entry;
    std::vector<const void*> in;
    std::vector<void*> out;
    std::vector<Tensor> planned, eager;
    for (const Tensor& input : inputs) in.push_back(input.raw().data());
    for (const PortInfo& port : entry.plan->outputs) {
      planned.emplace_back(port.type.dtype, port.type.dims());
      out.push_back(planned.back().raw_mutable());
    }
    entry.executor->run(in, out);
    auto tensor_of = [&](const Source& source) {
      return source.kind == Source::Kind::plan_output    ? planned.at(source.index)
             : source.kind == Source::Kind::eager_output ? eager.at(source.index)
                                                         : Tensor();
    };
    for (const EagerNode& node : entry.eager) {
      std::vector<Tensor> arguments;
      for (const Source& source : node.inputs) arguments.push_back(tensor_of(source));
      for (Tensor& result : run_node(node.op, arguments, node.name)) eager.push_back(std::move(result));
    }
    for (const auto& [index, source] : entry.finals) results[index] = tensor_of(source);
    std::vector<Tensor> next;
    for (const Source& source : entry.next_inputs) next.push_back(tensor_of(source));
    inputs = std::move(next);
    level = branch.next.get();
  }
  return results;
}

}  // namespace temper
