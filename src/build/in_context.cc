// SPDX-License-Identifier: Apache-2.0
#include "build/in_context.h"

#include <algorithm>
#include <limits>
#include <map>

#include "base/hash.h"
#include "base/log.h"
#include "build/plan_buffers.h"
#include "measure/statistics.h"
#include "plan/execute.h"

namespace temper {

namespace {

constexpr int kRanks = 5;             // candidates of a problem that are looked at
constexpr double kWithin = 1.8;       // and how much slower than the best they may be by themselves
constexpr double kLaunchMs = 0.002;   // differences below what a launch takes say nothing about the rest
constexpr int kRuns = 7;
constexpr double kNever = 1e6;        // ms, of what must not be chosen

struct Known {
  const Tactic* tactic;
  Config config;
  double ms;
};
std::string name_of(const Tactic& tactic, const Config& config) { return timing_key("", tactic, config); }

// Of the keys under which the choices for a graph are kept.
std::string start_of_decisions(const Graph& graph) { return concat("decided for ", hex(xxh3(print(graph))), ", "); }

class InContext {
 public:
  InContext(const Graph& graph, const Backend& backend, const Device& device, PlanOptions options, TimingCache& cache)
      : graph_(graph), backend_(backend), device_(device), options_(std::move(options)), cache_(cache) {
    options_.refine = nullptr;
  }

  Plan run(const std::function<void(const std::string&)>& progress) {
    if (options_.time)
      if (auto plan = plan_as_before()) return std::move(*plan);
    Plan base = build_plan(graph_, backend_, device_, listening());
    shortlist(base);
    bool measured = false;
    if (!all_known()) {
      measured = true;
      for (int rank = 0; rank < kRanks; ++rank) {
        if (progress) progress(concat("timing whole plans, ", rank + 1, " of at most ", kRanks));
        if (!measure_rank(rank)) break;
      }
    }
    Plan plan = build_plan(graph_, backend_, device_, with_times([&](const std::string& group, const Known& known) {
                             const auto ms = context_ms(group, known);
                             return ms ? *ms : kNever;
                           }));
    if (measured) {
      const auto [base_ms, ms] = compare(base, plan);
      log(LogLevel::debug, "by single times ", base_ms, " ms, by times in context ", ms, " ms");
      if (base_ms < ms) plan = std::move(base);
      check_overlap(plan);
    }
    remember(plan);
    return plan;
  }

 private:
  struct Undecided {};
  const Graph& graph_;
  const std::string start_ = start_of_decisions(graph_);
  const Backend& backend_;
  const Device& device_;
  PlanOptions options_;
  TimingCache& cache_;
  std::map<std::string, std::vector<Known>> known_;      // by problem, the best first
  std::map<std::string, std::vector<Known>> shortlist_;  // by problem

  // What was chosen for this very graph is found again without looking at any other candidate.
  std::string decided_group(const std::string& group) const { return concat(start_, group); }
  void remember(const Plan& plan) {
    for (const Segment& segment : plan.segments)
      for (const PlanStep& step : segment.steps)
        if (const Tactic* tactic = step.is_reorder() ? nullptr : find_tactic(step.tactic))
          cache_.add(timing_key(decided_group(group_of(step.problem)), *tactic, step.config), std::max(0.0, step.ms));
  }
  std::optional<Plan> plan_as_before() const {
    PlanOptions options = options_;
    options.time = nullptr;
    options.decided = [&](const Problem& problem) -> DecidedCandidate {
      const std::string start = decided_group(group_of(problem)) + " | ";
      const auto found = cache_.entries().lower_bound(start);
      if (found != cache_.entries().end() && found->first.starts_with(start)) {
        const auto [tactic, config] =
            candidate_of_key(std::string_view(found->first).substr(start.size()), problem.inputs.size(), problem.outputs.size());
        if (tactic) return {tactic, config, found->second};
      }
      throw Undecided();
    };
    try {
      return build_plan(graph_, backend_, device_, options);
    } catch (const Undecided&) {
      return std::nullopt;
    } catch (const Error& error) {  // of another library's version, say
      log(LogLevel::debug, "choosing anew: ", error.what());
      return std::nullopt;
    }
  }

  std::string group_of(const Problem& problem) const { return timing_group(device_.fingerprint, problem, 1); }
  std::string context_key(const std::string& group, const Known& known) const {
    return timing_key("in context, " + group, *known.tactic, known.config);
  }
  std::optional<double> context_ms(const std::string& group, const Known& known) const {
    return cache_.find(context_key(group, known));
  }

  // The caller's times, noting what they are asked for.
  PlanOptions listening() {
    PlanOptions options = options_;
    options.time = [this](const Problem& problem, const Tactic& tactic, const Config& config, int chains) {
      const double ms = options_.time(problem, tactic, config, chains);
      if (ms >= 0) known_[group_of(problem)].push_back({&tactic, config, ms});
      return ms;
    };
    return options;
  }
  PlanOptions with_times(std::function<double(const std::string&, const Known&)> time) const {
    PlanOptions options = options_;
    options.time = [this, time](const Problem& problem, const Tactic& tactic, const Config& config, int) {
      return time(group_of(problem), {&tactic, config, 0});
    };
    options.workspace_limit = -1;  // what is over it has no place on the shortlist
    return options;
  }

  void shortlist(const Plan& base) {
    for (const Segment& segment : base.segments)
      for (const PlanStep& step : segment.steps) {
        if (step.is_reorder()) continue;
        const std::string group = group_of(step.problem);
        std::vector<Known> list;
        double best = std::numeric_limits<double>::infinity();
        for (const Known& known : known_[group])
          if (known.config.inputs == step.config.inputs && known.config.outputs == step.config.outputs) {
            list.push_back(known);
            best = std::min(best, known.ms);
          }
        std::erase_if(list, [&](const Known& known) { return known.ms > std::max(best * kWithin, best + kLaunchMs); });
        std::sort(list.begin(), list.end(), [](const Known& a, const Known& b) { return a.ms < b.ms; });
        if (list.size() > size_t(kRanks)) list.resize(kRanks);
        shortlist_[group] = std::move(list);
      }
  }

  bool all_known() const {
    for (const auto& [group, list] : shortlist_)
      for (const Known& known : list)
        if (!context_ms(group, known)) return false;
    return true;
  }

  // False where no problem has so many candidates.
  bool measure_rank(int rank) {
    bool any = false;
    for (const auto& [group, list] : shortlist_) any |= list.size() > size_t(rank);
    if (!any) return false;
    const Plan plan = build_plan(graph_, backend_, device_, with_times([&](const std::string& group, const Known& known) {
                                   const auto it = shortlist_.find(group);
                                   if (it == shortlist_.end() || it->second.empty()) return 1.0;
                                   const auto& list = it->second;
                                   const Known& wanted = list[std::min(size_t(rank), list.size() - 1)];
                                   return name_of(*known.tactic, known.config) == name_of(*wanted.tactic, wanted.config) ? 0.001 : kNever;
                                 }));
    Arena arena(device_);
    Executor executor(plan, device_, arena);
    PlanBuffers buffers(plan);
    executor.run(buffers.inputs, buffers.outputs);
    std::vector<std::vector<std::vector<double>>> runs;
    for (int i = 0; i < kRuns; ++i) {
      runs.emplace_back();
      executor.run_timed(buffers.inputs, buffers.outputs, runs.back());
    }
    // Nodes of one problem share a candidate: their mean.
    std::map<std::string, std::pair<double, int>> sums;
    for (size_t s = 0; s < plan.segments.size(); ++s)
      for (size_t k = 0; k < plan.segments[s].steps.size(); ++k) {
        const PlanStep& step = plan.segments[s].steps[k];
        if (step.is_reorder()) continue;
        std::vector<double> ms;
        for (const auto& run : runs) ms.push_back(run[s][k]);
        const std::string group = group_of(step.problem);
        for (const Known& known : shortlist_[group])
          if (known.tactic->name == step.tactic && known.config == step.config) {
            auto& [sum, count] = sums[context_key(group, known)];
            sum += median(ms);
            ++count;
          }
      }
    for (const auto& [key, sum] : sums) cache_.add(key, sum.first / sum.second);
    return true;
  }

  // In a recording a kernel may start before the one in front of it has ended. What that gives must be, bit for bit, what
  // the steps give when each is waited for. Large plans are left out: every buffer would go to the host, and the rules are
  // the same for every batch.
  void check_overlap(const Plan& plan) const {
    constexpr int64_t kMostBytes = int64_t(512) << 20;
    if (plan.arena_bytes() > kMostBytes) return;
    Arena arena(device_);
    Executor executor(plan, device_, arena);
    auto outputs_of = [&](auto&& run) {
      PlanBuffers buffers(plan);
      run(buffers);
      return std::vector<Tensor>(buffers.tensors.begin() + int64_t(plan.inputs.size()), buffers.tensors.end());
    };
    const Executor::Observer waits{nullptr, [](const PlanStep&, const Buffers&) {}};
    const auto want = outputs_of([&](PlanBuffers& b) { executor.run_observed(b.inputs, b.outputs, waits); });
    for (int run = 0; run < 3; ++run) {
      const auto got = outputs_of([&](PlanBuffers& b) { executor.run(b.inputs, b.outputs); });
      for (size_t i = 0; i < got.size(); ++i)
        if (!got[i].same_bits(want[i]))
          fail(ErrorKind::check_failed, "the output '", plan.outputs[i].name,
               "' changes when its kernels overlap: this is a defect of Temper on this GPU; please report it");
    }
  }

  std::pair<double, double> compare(const Plan& a, const Plan& b) const {
    std::vector<double> ms[2];
    struct Ready {
      Arena arena;
      Executor executor;
      PlanBuffers buffers;
      Ready(const Plan& plan, const Device& device) : arena(device), executor(plan, device, arena), buffers(plan) {
        executor.run(buffers.inputs, buffers.outputs);
      }
    };
    Ready first(a, device_), second(b, device_);
    for (int turn = 0; turn < 6; ++turn)
      for (int i = 0; i < 2; ++i)
        for (double one : (i ? second : first).executor.run_on_device(5)) ms[i].push_back(one);
    return {median(ms[0]), median(ms[1])};
  }
};

}  // namespace

bool decided_before(const Graph& graph, const Device& device, const TimingCache& cache) {
  const std::string start = start_of_decisions(graph) + device.fingerprint;
  const auto found = cache.entries().lower_bound(start);
  return found != cache.entries().end() && found->first.starts_with(start);
}

Plan plan_in_context(const Graph& graph, const Backend& backend, const Device& device, PlanOptions options,
                     TimingCache& cache, const std::function<void(const std::string&)>& progress) {
  return InContext(graph, backend, device, std::move(options), cache).run(progress);
}

}  // namespace temper
