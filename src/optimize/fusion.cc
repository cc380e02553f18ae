// SPDX-License-Identifier: Apache-2.0
#include "optimize/fusion.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "base/hash.h"
#include "base/log.h"
#include "graph/ops/fused.h"
#include "optimize/in_context.h"

namespace temper {

namespace {

// Timed step by step, each step takes 2 to 3 microseconds longer than in a capture, and a pair has two.
constexpr double kSecondStepMs = 0.0015;

// Of an output's positions a chain is worth timing: with fewer, too few blocks have work, and apart the second
// convolution has more of them. On an H200 chains of 25,000 positions took 1.5 times as long, of 100,000 some are
// faster.
constexpr int64_t kLeastPositions = 50'000;

bool is_worth_timing(const Graph& graph, const ops::ConvChain& chain, const std::vector<ValueId>& inputs) {
  const Dims between = chain.first.output_dims(graph.type(inputs[0]).dims(), graph.type(inputs[1]).dims());
  return element_count(between) / std::max<int64_t>(1, between[1]) >= kLeastPositions;
}

// The graph with the shortcuts that a tactic takes, and with those chains that are wanted and taken by one.
Chains chained(Graph graph, const PassOptions& passes, const Backend& backend, const Device& device,
               const PairWanted& wanted) {
  FusionTaken taken = [by_tactic = taken_by(backend, device, {})](const Graph& in, const Op& op,
                                                                  const std::vector<ValueId>& inputs) {
    const auto* chain = op.get_if<ops::ConvChain>();
    return (!chain || is_worth_timing(in, *chain, inputs)) && by_tactic(in, op, inputs);
  };
  Chains chains;
  run_passes(graph, passes, shapes_pipeline(std::move(taken), wanted, &chains.list));
  chains.graph = std::move(graph);
  return chains;
}

// Under which it is kept what was decided for a graph.
std::string key_of(const Graph& graph, const Device& device) {
  return decision_key(hex(xxh3(print(graph))), device.fingerprint);
}

std::map<std::string, double> times_of(const Plan& plan) {
  std::map<std::string, double> ms;
  for (const Segment& segment : plan.segments)
    for (const PlanStep& step : segment.steps)
      if (!step.is_reorder()) ms[step.node] += step.ms;  // names may be the same: then so are decisions
  return ms;
}

}  // namespace

FusionTaken taken_by(const Backend& backend, const Device& device, const Bindings& bindings) {
  return [&backend, &device, bindings](const Graph& graph, const Op& op, const std::vector<ValueId>& inputs) {
    Problem problem;
    problem.op = op;
    substitute(problem.op, bindings);
    std::vector<Operand> operands;
    for (ValueId id : inputs) {
      Port port;
      port.present = id.valid();
      if (id.valid()) port.type = graph.type(id);
      for (Dim& dim : port.type.shape) dim = dim.substitute(bindings);
      if (id.valid() && !port.type.is_concrete()) return false;
      port.constant = graph.constant(id);
      port.is_constant = port.constant != nullptr;
      problem.inputs.push_back(std::move(port));
    }
    for (const Port& port : problem.inputs) operands.push_back({port.present ? &port.type : nullptr, port.constant});
    for (TensorType& type : infer(problem.op, InferContext(operands, ""))) problem.outputs.push_back({std::move(type)});
    return std::ranges::any_of(backend.tactics(), [&](const Tactic* tactic) {
      return !tactic->last_resort && tactic->supports(problem, device).yes();
    });
  };
}

Chains find_chains(Graph& graph, const PassOptions& passes, const Backend& backend, const Device& device,
                   const TimingCache& cache) {
  const auto none = [](const ConvPair&) { return false; };
  graph = chained(std::move(graph), passes.dumped_into("apart"), backend, device, none).graph;
  Chains all = chained(graph, passes.dumped_into("every-pair"), backend, device, std::not_fn(none));
  if (all.list.empty()) return all;
  const PairDecisions* known = cache.fused_pairs.find(key_of(graph, device));
  if (!known) return all;
  std::set<std::string> faster;
  for (const ConvPair& pair : all.list) {
    const auto decision = known->find(pair.name);
    if (decision == known->end()) return all;
    if (decision->second) faster.insert(pair.name);
  }
  const auto wanted = [&](const ConvPair& pair) { return faster.contains(pair.name); };
  Chains decided = chained(graph, passes.dumped_into("faster-pairs"), backend, device, wanted);
  decided.decided = true;
  return decided;
}

Graph graph_of_plan(Graph graph, const Plan& plan, const PassOptions& passes, const Backend& backend,
                    const Device& device) {
  if (!backend.fuses) return graph;
  run_passes(graph, passes, rows_pipeline(taken_by(backend, device, {})));
  const auto any_step = [&](const auto& is_it) {
    return std::ranges::any_of(plan.segments,
                               [&](const Segment& segment) { return std::ranges::any_of(segment.steps, is_it); });
  };
  FusionTaken taken = [&](const Graph&, const Op& op, const std::vector<ValueId>&) {
    const auto* both = op.get_if<ops::ShortcutConv>();
    return !both || any_step([&](const PlanStep& step) {
      const auto* chain = step.problem.op.get_if<ops::ConvChain>();
      return chain ? chain->has_shortcut() && chain->shortcut == both->shortcut && chain->then == both->conv.epilogue
                   : step.problem.op == op;
    });
  };
  const auto wanted = [&](const ConvPair& pair) {
    return any_step([&](const PlanStep& step) {
      return step.node == pair.name || step.node.starts_with(concat(pair.name, " + "));
    });
  };
  run_passes(graph, passes, shapes_pipeline(std::move(taken), wanted, nullptr));
  return graph;
}

Plan plan_with_chains(const Graph& graph, const Chains& chains, const PassOptions& passes, const Backend& backend,
                      const Device& device, const PlanOptions& options, TimingCache& cache, const Progress& progress) {
  Workbench bench(device);
  auto plan_of = [&](const Graph& g) { return plan_in_context(g, backend, device, options, cache, bench, progress); };
  if (chains.list.empty()) return plan_of(graph);
  if (chains.decided) return plan_of(chains.graph);
  Plan apart = plan_of(graph);
  if (options.search_is_over()) return apart;
  const auto ms_apart = times_of(apart);
  auto times_in = [&](const Graph& g) {
    return times_of(plan_by_times_in_context(g, backend, device, options, cache, bench, progress));
  };
  auto of_three = [](const ConvPair& pair) { return pair.of_three; };
  const bool threes = std::ranges::any_of(chains.list, of_three);
  const auto ms_chained = times_in(chains.graph);
  auto with = [&](const char* folder, const PairWanted& wanted) {
    return chained(graph, passes.dumped_into(folder), backend, device, wanted).graph;
  };
  const auto ms_of_pairs = threes ? times_in(with("pairs-of-two", std::not_fn(of_three))) : ms_chained;
  std::set<std::string> faster;
  std::map<std::string, double> best;  // of pairs of two, in a chain or apart
  for (const ConvPair& pair : chains.list) {
    const double first = pair.of_three ? best.at(pair.first) : ms_apart.at(pair.first),
                 two = first + ms_apart.at(pair.second) - kSecondStepMs,
                 one = (pair.of_three ? ms_chained : ms_of_pairs).at(pair.name);
    log(LogLevel::debug, pair.name, ": ", two, " ms apart, ", one, " ms in a chain");
    best[pair.name] = std::min(one, two);
    if (one >= two) continue;
    faster.insert(pair.name);
    if (pair.of_three) faster.insert(pair.first);
  }
  Plan chosen;
  if (!faster.empty()) {
    chosen = plan_of(with("faster-pairs", [&](const ConvPair& pair) { return faster.contains(pair.name); }));
    if (!is_faster(chosen, apart, bench, device)) faster.clear();
  }
  if (options.search_is_over())
    return faster.empty() ? std::move(apart) : std::move(chosen);  // nothing is decided for good
  PairDecisions decisions;
  for (const ConvPair& pair : chains.list) decisions[pair.name] = faster.contains(pair.name);
  cache.fused_pairs.add(key_of(graph, device), std::move(decisions));
  return faster.empty() ? std::move(apart) : std::move(chosen);
}

}  // namespace temper
