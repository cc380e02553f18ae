// SPDX-License-Identifier: Apache-2.0
#include "build/fusion.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/hash.h"
#include "base/log.h"
#include "build/in_context.h"

namespace temper {

namespace {

// Timed step by step, each step takes 2 to 3 microseconds longer than in a recording, and a pair has two.
constexpr double kSecondStepMs = 0.0015;

// Of an output's positions a chain is worth timing: with fewer, too few blocks have work, and apart the second convolution
// has more of them. On an H200 chains of 25,000 positions took 1.5 times as long, of 100,000 some are faster.
constexpr int64_t kLeastPositions = 50'000;

FusionTaken chains_taken(const Backend& backend, const Device& device) {
  return [taken = taken_by(backend, device, {})](const Graph& graph, const Op& op, const std::vector<ValueId>& inputs) {
    const Dims x = graph.type(inputs[0]).dims(), weights = graph.type(inputs[1]).dims();
    const Dims between = std::get<ops::ConvChain>(op).first.output_dims(x, weights);
    return element_count(between) / std::max<int64_t>(1, between[1]) >= kLeastPositions && taken(graph, op, inputs);
  };
}

// Under which the decision for a graph is kept: 1 for a chain that is faster, 0 for one that is not.
std::string start_of_decisions(const Graph& graph, const Device& device) {
  return concat("chains of ", hex(xxh3(print(graph))), ", ", device.fingerprint, ": ");
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

Chains find_chains(const Graph& graph, const Backend& backend, const Device& device, const TimingCache& cache) {
  const FusionTaken taken = chains_taken(backend, device);
  Chains all{{}, graph, true};
  all.list = chain_convs(all.chained, taken, [](const std::string&) { return true; });
  if (all.list.empty()) return all;
  const std::string start = start_of_decisions(graph, device);
  std::set<std::string> faster;
  for (const ConvPair& pair : all.list) {
    const auto known = cache.find(start + pair.name);
    if (!known) {
      all.chained.compact();
      all.decided = false;
      return all;
    }
    if (*known > 0) faster.insert(pair.name);
  }
  all.chained = graph;
  all.list = chain_convs(all.chained, taken, [&](const std::string& name) { return faster.contains(name); });
  all.chained.compact();
  return all;
}

Plan plan_with_chains(const Graph& graph, const Chains& chains, const Backend& backend, const Device& device,
                      const PlanOptions& options, TimingCache& cache,
                      const std::function<void(const std::string&)>& progress) {
  auto plan_of = [&](const Graph& g) { return plan_in_context(g, backend, device, options, cache, progress); };
  if (chains.list.empty()) return plan_of(graph);
  if (chains.decided) return plan_of(chains.chained);
  Plan apart = plan_of(graph);
  const auto ms_apart = times_of(apart);
  const auto ms_chained =
      times_of(plan_by_times_in_context(chains.chained, backend, device, options, cache, progress));
  std::set<std::string> faster;
  for (const ConvPair& pair : chains.list) {
    const double two = ms_apart.at(pair.first) + ms_apart.at(pair.second) - kSecondStepMs, one = ms_chained.at(pair.name);
    log(LogLevel::debug, pair.name, ": ", two, " ms apart, ", one, " ms in a chain");
    if (one < two) faster.insert(pair.name);
  }
  Plan chained;
  if (!faster.empty()) {
    Graph some = graph;
    chain_convs(some, chains_taken(backend, device), [&](const std::string& name) { return faster.contains(name); });
    some.compact();
    chained = plan_of(some);
    PlanBuffers buffers(apart);
    if (!is_faster(chained, apart, buffers, device)) faster.clear();
  }
  for (const ConvPair& pair : chains.list)
    cache.add(start_of_decisions(graph, device) + pair.name, faster.contains(pair.name) ? 1 : 0);
  return faster.empty() ? std::move(apart) : std::move(chained);
}

}  // namespace temper
