// SPDX-License-Identifier: Apache-2.0
#include "runtime/partitions.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <iterator>
#include <set>

#include "backends/cpu/eager.h"
#include "backends/sized_by_data.h"
#include "base/checked.h"
#include "graph/control.h"
#include "graph/ops/choose.h"
#include "graph/ops/loop.h"
#include "plan/execute.h"
#include "runtime/split_graph.h"

namespace temper {

bool is_one_partition(const Graph& graph) {
  for (int32_t v = 0; v < graph.value_count(); ++v)
    if (!graph.type({v}).is_concrete()) return false;
  return !has_control_flow(graph);
}

namespace {

struct EagerNode : BetweenNode {
  std::unique_ptr<PartitionedRunner> runner;  // of a loop's body
  // Where the device has a kernel of it: its problem, and the kernel; null where it is known to find nothing.
  std::optional<Problem> problem;
  std::unique_ptr<Kernel> kernel;
  RunEager on_host;  // else, but for loops and the reference
};

struct StageEntry {
  std::shared_ptr<const Plan> plan;
  std::unique_ptr<Executor> executor;
  std::vector<char> to_host, there;               // by output of the plan: where it is wanted
  std::vector<EagerNode> eager;                   // in order; each output appended to the eager tensors
  std::vector<std::pair<size_t, Source>> finals;  // graph output, where its tensor is
  std::vector<Source> next_inputs;
};

}  // namespace

struct PartitionedRunner::Branch {
  StageEntry entry;
  Partition seen;
  std::unique_ptr<Level> next;
  int64_t used = 0;  // the last run that came through here
};

struct PartitionedRunner::Level {
  Graph graph;
  std::vector<size_t> output_index;              // of the model, by output of this level's graph
  std::vector<size_t> conditions;                // inputs that choose
  std::string where;                             // what leads to all of its branches
  int part = 1;                                  // its place in a row
  std::vector<Partition> refused;                // sides that were looked at and have no plan
  std::map<std::vector<Dims>, Branch> branches;  // by the inputs' shapes, then the values of the conditions

  Level(Graph of, std::vector<size_t> outputs, std::string path = "", int place = 1)
      : graph(std::move(of)), output_index(std::move(outputs)), where(std::move(path)), part(place) {
    std::set<ValueId> choosing;
    for (int32_t n = 0; n < graph.node_count(); ++n)
      if (const Node& node = graph.node({n}); node.op.is<ops::Choose>()) choosing.insert(node.inputs[0]);
    for (size_t i = 0; i < graph.inputs().size(); ++i)
      if (choosing.contains(graph.inputs()[i])) conditions.push_back(i);
  }

  // What leads to a branch.
  std::string where_of(const std::vector<Dims>& key) const {
    std::string out = where;
    const auto add = [&](const std::string& text) { out += concat(out.empty() ? "" : ", ", text); };
    if (part > 1) add(concat("part ", part));
    for (size_t i = 0; i < conditions.size(); ++i)
      add(concat("'", graph.value(graph.inputs()[conditions[i]]).name, "' ",
                 key[graph.inputs().size() + i][0] ? "true" : "false"));
    return out;
  }
  // The graph where these shapes and conditions are known.
  Graph known(const std::vector<Dims>& key) const {
    const auto shapes = int64_t(graph.inputs().size());
    Bindings bindings = bind_shapes(graph, {key.begin(), key.begin() + shapes});
    if (conditions.empty()) return specialize(graph, bindings);
    Graph decided = graph;
    for (size_t i = 0; i < conditions.size(); ++i) {
      const ValueId input = decided.inputs()[conditions[i]];
      Tensor value(DType::boolean, decided.type(input).dims());
      *value.raw_mutable() = std::byte(key[size_t(shapes) + i][0]);
      decided.replace(input, decided.add_constant(graph.value(input).name, std::move(value)));
    }
    return specialize(decided, bindings);
  }
};

PartitionedRunner::PartitionedRunner(const Engine& engine, Arena& arena, const Graph& graph, std::string where,
                                     std::shared_ptr<DevicePool> pool)
    : engine_(engine),
      arena_(arena),
      outputs_(graph.outputs().size()),
      where_(std::move(where)),
      pool_(std::move(pool)),
      bytes_(engine.known_constants()) {
  if (!pool_ && arena.queue()) pool_ = std::make_shared<DevicePool>(arena);
  std::vector<size_t> outputs;
  for (size_t o = 0; o < outputs_; ++o) outputs.push_back(o);
  first_ = std::make_unique<Level>(graph, std::move(outputs), where_);
}
PartitionedRunner::~PartitionedRunner() = default;

namespace {

// The device's kernel for a node of `graph` whose result has the size that the data give.
void find_kernel(EagerNode& each, const Graph& graph, const Device& device) {
  std::vector<Port> ports;
  for (ValueId id : each.node.inputs) {
    Port& port = ports.emplace_back();
    port.present = id.valid();
    if (id.valid()) port.type = graph.type(id), port.constant = graph.constant(id);
  }
  std::optional<Problem> problem = largest_problem(each.node.op, std::move(ports), 1);
  if (!problem) return;
  for (Port& port : problem->inputs) port.constant = nullptr;  // the plan gives it
  for (const Tactic* tactic : find_backend(device.backend).tactics()) {
    if (tactic->last_resort || !tactic->supports(*problem, device).yes()) continue;
    if (largest_size(*problem) > 0) {
      const Config config = tactic->configs(*problem, device).at(0);
      const Packed packed = tactic->build ? tactic->build(*problem, config, device) : Packed{};
      each.kernel = tactic->load(*problem, config, {packed.bytes, packed.code}, device);
      each.kernel->prepare();
    }
    each.problem = std::move(problem);
    return;
  }
}

// Says where what the plan gives is wanted. `conditions`: those of the next level's inputs that the host reads; null:
// there is no next level.
void find_places(StageEntry& entry, const std::vector<size_t>* conditions) {
  entry.to_host.assign(entry.plan->outputs.size(), 0);
  entry.there = entry.to_host;
  const auto want = [](std::vector<char>& where, const Source& source) {
    if (source.kind == Source::Kind::part_output) where[source.index] = 1;
  };
  for (const EagerNode& each : entry.eager)
    for (const Source& source : each.inputs) want(each.problem ? entry.there : entry.to_host, source);
  for (const auto& [index, source] : entry.finals) want(entry.to_host, source);
  for (size_t i = 0; conditions && i < entry.next_inputs.size(); ++i) {
    const bool is_condition = std::find(conditions->begin(), conditions->end(), i) != conditions->end();
    want(is_condition ? entry.to_host : entry.there, entry.next_inputs[i]);
  }
}

}  // namespace

PartitionedRunner::Branch& PartitionedRunner::make(Level& level, const std::vector<Dims>& key) {
  const Graph concrete = level.known(key);
  Split split = split_graph(concrete, level.output_index);
  Branch branch;
  for (BetweenNode& each : split.between) branch.entry.eager.push_back({std::move(each), {}, {}, {}, {}});
  branch.entry.finals = std::move(split.finals);
  branch.entry.next_inputs = std::move(split.next_inputs);
  branch.seen.where = level.where_of(key);
  for (EagerNode& each : branch.entry.eager) {
    branch.seen.between.push_back({each.node.name, std::string(name_of(each.node.op)), 0});
    if (!each.node.op.is<ops::LoopEnd>()) {
      if (pool_) find_kernel(each, concrete, engine_.device());
      if (!each.problem && engine_.device().backend != "reference")
        each.on_host = prepare_eager(each.node.op, each.node.name, engine_.threads());
      continue;
    }
    const std::string& where = branch.seen.where;
    each.runner = std::make_unique<PartitionedRunner>(
        engine_, arena_, std::exchange(each.body, {}),
        concat(where, where.empty() ? "" : ", ", "loop '", each.node.name, "'"), pool_);
  }
  branch.entry.plan = engine_.make_plan(split.part);
  branch.entry.executor = make_executor(*branch.entry.plan, engine_.device(), arena_);
  if (split.rest.node_count() > 0 || !split.rest_outputs.empty()) {
    const bool chosen = !level.conditions.empty();  // its own words say where it is
    branch.next = std::make_unique<Level>(std::move(split.rest), std::move(split.rest_outputs),
                                          chosen ? branch.seen.where : level.where, chosen ? 2 : level.part + 1);
  }
  if (pool_) find_places(branch.entry, branch.next ? &branch.next->conditions : nullptr);
  bytes_.add(*branch.entry.plan);
  kernel_bytes_ += kernel_bytes(*branch.entry.plan);
  ++kept_;
  ++made_;
  return level.branches.emplace(key, std::move(branch)).first->second;
}

// What the plans of a run go by.
std::vector<Dims> PartitionedRunner::key_of(const Level& level, std::vector<Held>& inputs) {
  std::vector<Dims> key;
  key.reserve(inputs.size() + level.conditions.size());
  for (const Held& input : inputs) key.push_back(input.type.dims());
  for (size_t i : level.conditions) key.push_back({on_host(inputs[i]).to_ints().at(0) != 0});
  return key;
}

PartitionedRunner::Branch& PartitionedRunner::branch_for(Level& level, std::vector<Held>& inputs) {
  const std::vector<Dims> key = key_of(level, inputs);
  const auto it = level.branches.find(key);
  const bool fresh = it == level.branches.end();
  Branch& branch = fresh ? make(level, key) : it->second;
  branch.used = run_;
  if (fresh) stay_within_limits();
  return branch;
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
  // The shapes of a body that grows come in turn, run after run: with room for fewer than there are iterations each
  // would be gone when it comes again. What such small plans take is counted in bytes all the same.
  constexpr int64_t kTimesInBodies = 32;
  const int64_t most = limits.prepared * (where_.empty() ? 1 : kTimesInBodies);
  const auto is_too_much = [&](int64_t count) {
    return kept_ > count || bytes_.total() + kernel_bytes_ > limits.prepared_bytes;
  };
  if (!is_too_much(most)) return;
  struct Old {
    int64_t used;
    size_t above;  // how many levels stand above it
    Level* level;
    std::map<std::vector<Dims>, Branch>::iterator at;
  };
  std::vector<Old> old;
  std::vector<std::pair<Level*, size_t>> work{{first_.get(), 0}};
  while (!work.empty()) {
    const auto [level, above] = work.back();
    work.pop_back();
    for (auto it = level->branches.begin(); it != level->branches.end(); ++it) {
      if (it->second.used < run_) old.push_back({it->second.used, above, level, it});
      if (it->second.next) work.emplace_back(it->second.next.get(), above + 1);
    }
  }
  // A branch was used at least as lately as those below it, which go before it.
  std::ranges::sort(old,
                    [](const Old& a, const Old& b) { return a.used != b.used ? a.used < b.used : a.above > b.above; });
  // An eighth more goes than must, so that not every further shape looks through all of them.
  bool less = false;
  for (const Old& each : old) {
    if (!is_too_much(most - most / 8)) break;
    Level going({}, {});
    going.branches.insert(each.level->branches.extract(each.at));
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
  std::vector<const Level*> work{first_.get()};
  while (!work.empty()) {
    const Level* level = work.back();
    work.pop_back();
    for (const auto& [key, branch] : level->branches) {
      for (const EagerNode& each : branch.entry.eager)
        if (each.runner) each.runner->add_to(statistics);
      if (branch.next) work.push_back(branch.next.get());
    }
  }
}

// `arguments`: trip, condition, carried values, and what the body captures.
static std::vector<Tensor> run_loop_of(const EagerNode& loop, const std::vector<Tensor>& arguments) {
  const auto captured = arguments.begin() + 2 + loop.node.op.get<ops::LoopEnd>().carried;
  if (auto results = loop.runner->run_loop_of_one_plan(loop.node, arguments)) return std::move(*results);
  return run_loop(loop.node, loop.types, arguments[0], arguments[1], {arguments.begin() + 2, captured},
                  [&](std::vector<Tensor> inputs) {
                    inputs.insert(inputs.end(), captured, arguments.end());
                    return loop.runner->run(inputs);
                  });
}

std::optional<std::vector<Tensor>> PartitionedRunner::run_loop_of_one_plan(const Node& end,
                                                                           const std::vector<Tensor>& arguments) {
  const auto carried = size_t(end.op.get<ops::LoopEnd>().carried);
  const bool trip_decides = end.inputs[1].valid();
  if (timed_ || !trip_decides || !arguments[0].defined() || !first_->conditions.empty()) return std::nullopt;
  const int64_t trip = arguments[0].to_ints().at(0);
  if (trip < 1 || trip > end.op.get<ops::LoopEnd>().limit ||
      (arguments[1].defined() && arguments[1].to_ints().at(0) == 0))
    return std::nullopt;  // run_loop says what is wrong with it
  Tensor iteration = Tensor::of<int64_t>({}, {0}), condition(DType::boolean, {});
  *condition.raw_mutable() = std::byte{1};
  std::vector<Tensor> inputs{iteration, condition};
  inputs.insert(inputs.end(), arguments.begin() + 2, arguments.end());
  ++run_;
  std::vector<Held> held(inputs.begin(), inputs.end());
  Branch& branch = branch_for(*first_, held);
  const StageEntry& entry = branch.entry;
  if (branch.next || !entry.eager.empty()) return std::nullopt;
  // Where the plan puts the body's results: condition, carried values, scans.
  std::vector<size_t> place(outputs_, entry.plan->outputs.size());
  for (const auto& [output, source] : entry.finals) place[output] = source.index;
  for (size_t c = 0; c < carried; ++c)
    if (entry.plan->outputs.at(place[1 + c]).type != inputs[2 + c].type()) return std::nullopt;
  // What an iteration gives lies in one of two sets of buffers; the next one reads it there, and writes to the other.
  std::array<std::vector<Tensor>, 2> given;
  std::array<std::vector<void*>, 2> out;
  for (size_t set = 0; set < 2; ++set)
    for (const PortInfo& port : entry.plan->outputs)
      out[set].push_back(given[set].emplace_back(port.type.dtype, port.type.dims()).raw_mutable());
  std::vector<const void*> in;
  in.reserve(inputs.size());
  for (const Tensor& input : inputs) in.push_back(input.raw().data());
  std::vector<Tensor> stacks;
  for (size_t o = 1 + carried; o < outputs_; ++o) {
    const TensorType& type = entry.plan->outputs.at(place[o]).type;
    Dims dims = type.dims();
    if (end.op.get<ops::LoopEnd>().joins(o - 1 - carried)) dims[0] = checked_mul(dims[0], trip);
    else dims.insert(dims.begin(), trip);
    stacks.emplace_back(type.dtype, std::move(dims));
  }
  int64_t i = 0;
  with_context([&] { return concat("loop '", end.name, "', iteration ", i); },
               [&] {
                 for (; i < trip; ++i) {
                   const size_t set = size_t(i % 2);
                   *iteration.data<int64_t>() = i;
                   entry.executor->run(in, out[set]);
                   for (size_t c = 0; c < carried; ++c) in[2 + c] = out[set][place[1 + c]];
                   for (size_t s = 0; s < stacks.size(); ++s) {
                     const Tensor& slice = given[set][place[1 + carried + s]];
                     if (slice.bytes() > 0)
                       std::memcpy(stacks[s].raw_mutable() + i * slice.bytes(), slice.raw().data(),
                                   size_t(slice.bytes()));
                   }
                 }
               });
  std::vector<Tensor> results;
  results.reserve(outputs_ - 1);
  for (size_t c = 0; c < carried; ++c) results.push_back(given[size_t((trip - 1) % 2)][place[1 + c]]);
  std::move(stacks.begin(), stacks.end(), std::back_inserter(results));
  return results;
}

// Of all timed runs.
double PartitionedRunner::timed_ms() const {
  double sum = 0;
  for (const Partition& partition : partitions()) {
    for (const auto& segment : partition.ms)
      for (double ms : segment) sum += ms;
    for (const Partition::Between& node : partition.between) sum += node.ms;
  }
  return sum;
}

std::vector<Partition> PartitionedRunner::partitions() const {
  std::vector<Partition> all;
  std::vector<const Level*> work{first_.get()};
  while (!work.empty()) {
    const Level* level = work.back();
    work.pop_back();
    all.insert(all.end(), level->refused.begin(), level->refused.end());
    for (const auto& [key, branch] : level->branches) {
      all.push_back(branch.seen);
      all.back().plan = branch.entry.plan;
      for (const EagerNode& each : branch.entry.eager) {
        if (!each.runner) continue;
        std::vector<Partition> body = each.runner->partitions();
        std::move(body.begin(), body.end(), std::back_inserter(all));
      }
      if (branch.next) work.push_back(branch.next.get());
    }
  }
  return all;
}

void PartitionedRunner::explore(const std::vector<Dims>& shapes) { explore(*first_, shapes); }

void PartitionedRunner::explore(Level& level, const std::vector<Dims>& shapes) {
  const auto shapes_of_inputs = [](const Graph& graph) {
    std::optional<std::vector<Dims>> known(std::in_place);
    for (ValueId id : graph.inputs()) {
      if (!graph.type(id).is_concrete()) return std::optional<std::vector<Dims>>();
      known->push_back(graph.type(id).dims());
    }
    return known;
  };
  const size_t sides = std::min(kMostSides, size_t(1) << std::min<size_t>(level.conditions.size(), 8));
  for (size_t side = 0; side < sides; ++side) {
    std::vector<Dims> key = shapes;
    for (size_t i = 0; i < level.conditions.size(); ++i) key.push_back({int64_t(side >> i & 1)});
    const auto it = level.branches.find(key);
    Branch* made = it == level.branches.end() ? nullptr : &it->second;
    try {
      if (!made) made = &make(level, key);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unsupported) throw;
      Partition refused;
      refused.where = level.where_of(key);
      refused.refusal = error.what();
      const auto is_same = [&](const Partition& other) { return other.where == refused.where; };
      if (std::none_of(level.refused.begin(), level.refused.end(), is_same))
        level.refused.push_back(std::move(refused));
      continue;
    }
    Branch& branch = *made;
    for (EagerNode& each : branch.entry.eager) {
      if (!each.runner) continue;
      if (const auto known = shapes_of_inputs(each.runner->first_->graph)) each.runner->explore(*known);
      else branch.seen.is_open = true;
    }
    if (!branch.next) continue;
    if (const auto known = shapes_of_inputs(branch.next->graph)) explore(*branch.next, *known);
    else branch.seen.is_open = true;
  }
}

const Tensor& PartitionedRunner::on_host(Held& value) {
  if (!value.host.defined() && value.there) {
    value.host = Tensor(value.type.dtype, value.type.dims());
    Queue& queue = *arena_.queue();
    if (value.host.bytes() > 0) queue.copy_to_host(value.host.raw_mutable(), value.there.get(), value.host.bytes());
    queue.wait();
  }
  return value.host;
}

std::vector<PartitionedRunner::Held> PartitionedRunner::run_plan(Branch& branch, const std::vector<Held>& inputs) {
  StageEntry& entry = branch.entry;
  std::vector<Held> given;
  std::vector<const void*> in, in_there;
  std::vector<void*> out, out_there;
  bool any_there = false, any_to_host = false;
  for (const Held& input : inputs) {
    in.push_back(input.there ? nullptr : input.host.raw().data());
    in_there.push_back(input.there.get());
    any_there |= input.there != nullptr;
  }
  for (size_t o = 0; o < entry.plan->outputs.size(); ++o) {
    const TensorType& type = entry.plan->outputs[o].type;
    Held& held = given.emplace_back(type);
    const bool there = pool_ && entry.there[o], to_host = !pool_ || entry.to_host[o];
    if (there) held.there = pool_->take(byte_count(type.dtype, type.dims()));
    if (to_host) held.host = Tensor(type.dtype, type.dims());
    out.push_back(to_host ? held.host.raw_mutable() : nullptr);
    out_there.push_back(held.there.get());
    any_there |= there;
    any_to_host |= to_host;
  }
  if (timed_) ++branch.seen.runs;
  if (any_there) {
    // Reading the count of the first node waits for the plan, too.
    const bool waits = any_to_host || entry.eager.empty() || !entry.eager.front().kernel;
    on_device(*entry.executor)
        .run_partly_there(in, out, in_there, out_there, timed_ ? &branch.seen.ms : nullptr, waits);
  } else if (timed_) {
    entry.executor->run_timed(in, out, branch.seen.ms);
  } else {
    entry.executor->run(in, out);
  }
  return given;
}

std::vector<Tensor> PartitionedRunner::run(const std::vector<Tensor>& model_inputs) {
  ++run_;
  std::vector<Tensor> results(outputs_);
  std::vector<Held> inputs(model_inputs.begin(), model_inputs.end());
  Held none{Tensor()};
  Level* level = first_.get();
  while (level) {
    Branch& branch = branch_for(*level, inputs);
    StageEntry& entry = branch.entry;
    std::vector<Held> planned = run_plan(branch, inputs), eager;
    auto held_of = [&](const Source& source) -> Held& {
      return source.kind == Source::Kind::part_output      ? planned.at(source.index)
             : source.kind == Source::Kind::between_output ? eager.at(source.index)
                                                           : none;
    };
    for (size_t e = 0; e < entry.eager.size(); ++e) {
      EagerNode& each = entry.eager[e];
      const double body_ms = timed_ && each.runner ? each.runner->timed_ms() : 0;
      if (each.runner) each.runner->timed_ = timed_;
      const auto begin = std::chrono::steady_clock::now();
      const Node& node = each.node;
      if (each.problem) {
        std::vector<const void*> arguments;
        for (const Source& source : each.inputs) arguments.push_back(held_of(source).there.get());
        with_context([&] { return concat(name_of(node.op), " '", node.name, "'"); },
                     [&] {
                       for (Held& result : run_there(*each.problem, each.kernel.get(), arguments))
                         eager.push_back(std::move(result));
                     });
      } else {
        std::vector<Tensor> arguments;
        for (const Source& source : each.inputs) arguments.push_back(on_host(held_of(source)));
        const auto run = [&] {
          if (each.runner) return run_loop_of(each, arguments);
          try {
            return each.on_host ? each.on_host(arguments) : run_node(node.op, arguments, node.name);
          } catch (const Error& error) {
            // What an op cannot do with sizes that are data is no fault of the file.
            if (error.kind() != ErrorKind::bad_file) throw;
            fail(ErrorKind::usage, error.what());
          }
        };
        for (Tensor& result : run()) eager.emplace_back(std::move(result));
      }
      if (!timed_) continue;
      const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - begin;
      branch.seen.between[e].ms += taken.count() - (each.runner ? each.runner->timed_ms() - body_ms : 0);
    }
    for (const auto& [index, source] : entry.finals) results[index] = on_host(held_of(source));
    std::vector<Held> next;
    for (const Source& source : entry.next_inputs) next.push_back(held_of(source));
    inputs = std::move(next);
    level = branch.next.get();
  }
  inputs.clear();
  if (pool_ && where_.empty()) pool_->end_run();
  return results;
}

// The device's kernel of a node between plans. It writes where the largest results have room; of these the host reads
// how large they are.
std::vector<PartitionedRunner::Held> PartitionedRunner::run_there(const Problem& problem, Kernel* kernel,
                                                                  std::span<const void* const> inputs) {
  std::vector<std::shared_ptr<void>> memory;
  int64_t count = 0;
  if (kernel) {
    Queue& queue = *arena_.queue();
    std::vector<void*> outputs;
    for (const Port& port : problem.outputs) {
      memory.push_back(pool_->take(byte_count(port.type.dtype, port.dims())));
      outputs.push_back(memory.back().get());
    }
    const std::shared_ptr<void> workspace = pool_->take(kernel->workspace());
    kernel->launch({inputs, outputs, workspace.get(), queue.stream()});
    if (!count_) count_ = queue.allocate_host(sizeof count);
    queue.copy_to_host(count_.get(), outputs.back(), sizeof count);
    queue.wait();
    std::memcpy(&count, count_.get(), sizeof count);
  }
  std::vector<Held> results;
  for (TensorType& type : types_for(problem, count)) {
    Held& result = results.emplace_back(std::move(type));
    if (kernel) result.there = std::move(memory[results.size() - 1]);
    else result.host = Tensor(result.type.dtype, result.type.dims());
  }
  return results;
}

}  // namespace temper
