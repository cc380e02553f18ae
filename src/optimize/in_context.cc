// SPDX-License-Identifier: Apache-2.0
#include "optimize/in_context.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "backends/timing_text.h"
#include "base/hash.h"
#include "base/log.h"
#include "graph/ops/concat.h"
#include "measure/statistics.h"
#include "measure/timer.h"
#include "plan/choose.h"
#include "plan/describe.h"
#include "plan/execute.h"
#include "plan/planner.h"
#include "plan/view_layouts.h"

namespace temper {

namespace {

constexpr int kRanks = 5;            // candidates of a problem that are looked at
constexpr double kWithin = 1.8;      // and how much slower than the best they may be by themselves
constexpr double kLaunchMs = 0.002;  // differences below what a launch takes say nothing about the rest
constexpr int kRuns = 7, kHostRuns = 4;
constexpr double kLongMs = 200;  // a run that takes longer, as on the reference, is not looked at so often
constexpr double kNever = 1e6;   // ms, of what must not be chosen

struct Known {
  const Tactic* tactic;
  Config config;
  double ms;
};
std::string name_of(const Tactic& tactic, const Config& config) { return timing_key("", tactic, config); }

std::string hash_of(const Graph& graph) { return hex(xxh3(print(graph))); }

// Of the host: the load of others that its times are marked with, and how long to measure.
struct Host {
  double load = 0, seconds = std::numeric_limits<double>::infinity();
};

class InContext {
 public:
  InContext(const Graph& graph, const Backend& backend, const Device& device, PlanOptions options, TimingCache& cache,
            Workbench* bench, Host host = {})
      : graph_(graph),
        backend_(backend),
        device_(device),
        options_(std::move(options)),
        cache_(cache),
        host_(host),
        bench_(bench) {}

  Plan run(const Progress& progress) {
    if (options_.times)
      if (auto plan = plan_as_before()) return std::move(*plan);
    auto [plan, base] = by_times(progress);
    if (base && !same_kernels(*base, plan) && is_faster(*base, plan, *bench_, device_)) {
      plan = std::move(*base);
      use_times_in_plans(plan);
    }
    check_overlap(plan);
    if (!is_over()) remember(plan);  // otherwise the next build goes on with the search
    return std::move(plan);
  }

  // The plan that the times in plans give and, if any of them had to be taken, the one by the caller's times.
  std::pair<Plan, std::optional<Plan>> by_times(const Progress& progress) {
    Listening listening(*this);
    std::optional<Plan> base = plan_by(listening);
    shortlist(*base);
    // On a GPU the times in plans are wanted for themselves.
    if (!backend_.queue && nothing_to_compare()) return {std::move(*base), std::nullopt};
    if (all_known()) base.reset();
    else {
      expect_ranks(*base);
      for (int rank = 0; rank < kRanks && (rank == 0 || !is_over()); ++rank) {
        tell(progress, {"timing whole plans", double(rank + 1), double(kRanks), "at most"});
        if (!measure_rank(rank) || (host_clock().now_ms() - start_ms_) / 1e3 > host_.seconds) break;
      }
    }
    Given in_plans(*this, [&](const std::string& group, const Known& known) {
      const auto ms = context_ms(group, known);
      return ms ? *ms : kNever;
    });
    Plan plan = plan_by(in_plans);
    drop_never(plan);
    return {std::move(plan), std::move(base)};
  }

  // What was chosen for this very graph is found again without looking at any other candidate.
  void remember(const Plan& plan) {
    for (const Segment& segment : plan.segments)
      for (const PlanStep& step : segment.steps)
        if (const Tactic* tactic = step.is_reorder() ? nullptr : find_tactic(step.tactic)) {
          const std::string key = key_of_decision(of_threads(step.problem, plan.threads));
          const Decision decision{name_of(*tactic, step.config).substr(kBar.size()), step.problem.threads,
                                  taken_now(std::max(0.0, step.ms), host_.load)};
          // Decided twice, it is what was decided on the quieter machine, or later.
          const Decision* before = cache_.decisions.find(key);
          if (!before || before->candidate == decision.candidate || decision.better_than(*before))
            cache_.decisions.add(key, decision);
        }
  }
  std::optional<Plan> plan_as_before() const {
    PlanOptions options = options_;
    AsBefore as_before(*this);
    options.times = &as_before;
    options.threads_of = [&](const Problem& problem) {
      const Decision* known = cache_.decisions.find(key_of_decision(exact_of(problem)));
      return known && known->threads ? known->threads : problem.threads;
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

 private:
  struct Undecided {};
  bool is_over() const { return options_.search_is_over(); }
  const Graph& graph_;
  const std::string graph_hash_ = hash_of(graph_);
  const Backend& backend_;
  const Device& device_;
  PlanOptions options_;
  TimingCache& cache_;
  const Host host_;
  const double start_ms_ = host_clock().now_ms();
  Workbench* const bench_;                                   // null where nothing is timed
  std::map<std::string, std::vector<Known>> known_;          // by problem, the best first
  std::map<std::string, std::vector<Known>> shortlist_;      // by problem
  std::map<std::string, CandidateTime::Kind> without_time_;  // by key: why

  static constexpr std::string_view kBar = " | ";  // behind the group in timing_key()
  // Decisions are kept by the problem on all threads.
  std::string of_threads(Problem problem, int threads) const {
    problem.threads = threads;
    return exact_of(problem);
  }
  std::string key_of_decision(const std::string& group) const { return decision_key(graph_hash_, group); }
  // A GPU's times are its own, which the host's load does not disturb.
  bool is_believed(const TimedEntry& entry) const { return backend_.queue || !entry.suspect(); }
  std::string group_of(const Problem& problem) const { return timing_group(device_.fingerprint, problem, 1); }
  // Decisions are kept for each problem by itself: what one candidate fuses may hang on a number.
  std::string exact_of(const Problem& problem) const { return exact_group(device_.fingerprint, problem, 1); }
  std::string context_key(const std::string& group, const Known& known) const {
    return timing_key(group, *known.tactic, known.config);
  }
  std::optional<double> context_ms(const std::string& group, const Known& known) const {
    const TimedEntry* entry = cache_.in_plans.find(context_key(group, known));
    return entry && is_believed(*entry) ? std::optional(entry->ms) : std::nullopt;
  }

  // None of these times is refined: they are compared within plans.
  struct Final : TimeSource {
    explicit Final(InContext& in) : in_(in) {}
    std::string fault(const Problem& problem, const Tactic& tactic, const Config& config) override {
      return in_.options_.times->fault(problem, tactic, config);
    }
    bool is_over() override { return in_.is_over(); }
    InContext& in_;
  };
  // The caller's times, noting what they are asked for.
  struct Listening final : Final {
    using Final::Final;
    CandidateTime time(const Problem& problem, const Tactic& tactic, const Config& config, int chains) override {
      const CandidateTime time = in_.options_.times->time(problem, tactic, config, chains);
      const std::string group = in_.group_of(problem);
      auto& known = in_.known_[group];  // of other problems of the group, too
      if (time.is_known() && std::ranges::none_of(known, [&](const Known& before) {
            return before.tactic == &tactic && before.config == config;
          }))
        known.push_back({&tactic, config, time.ms});
      if (time.kind == CandidateTime::Kind::over_workspace || time.kind == CandidateTime::Kind::out_of_time)
        in_.without_time_[timing_key(group, tactic, config)] = time.kind;
      return time;
    }
  };
  // Times by problem and candidate, for all but those that the caller has none of.
  struct Given final : Final {
    using Times = std::function<double(const std::string&, const Known&)>;
    Given(InContext& in, Times times) : Final(in), times_(std::move(times)) {}
    CandidateTime time(const Problem& problem, const Tactic& tactic, const Config& config, int) override {
      const std::string group = in_.group_of(problem);
      const auto none = in_.without_time_.find(timing_key(group, tactic, config));
      if (none != in_.without_time_.end()) return {none->second};
      return CandidateTime::of(times_(group, {&tactic, config, 0}));
    }
    const Times times_;
  };
  // What the cache says was decided; throws Undecided where it does not.
  struct AsBefore final : TimeSource {
    explicit AsBefore(const InContext& in) : in_(in) {}
    DecidedCandidate decided(const Problem& problem) override {
      const Decision* found =
          in_.cache_.decisions.find(in_.key_of_decision(in_.of_threads(problem, in_.options_.threads)));
      if (found && in_.is_believed(found->time)) {
        const auto [tactic, config] = candidate_of_key(found->candidate, problem.inputs.size(), problem.outputs.size());
        if (tactic) return {tactic, config, found->time.ms};
      }
      if (!found && !view_configs(problem).empty()) return {};  // it was no step
      throw Undecided();
    }
    const InContext& in_;
  };
  Plan plan_by(TimeSource& times) const {
    PlanOptions options = options_;
    options.times = &times;
    return build_plan(graph_, backend_, device_, options);
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

  // What was not timed in the plan has lost by its time alone, which compares with no time in the plan, or by its
  // layouts, which are not those of the plan that the times alone give.
  void drop_never(Plan& plan) const {
    for (Segment& segment : plan.segments)
      for (PlanStep& step : segment.steps)
        for (Candidate& loser : step.losers)
          if (loser.ms >= kNever) {
            loser.ms = -1;
            loser.refusal = loser.config.ends_with(layouts_of(step.config))
                                ? "too slow by itself to be timed in the plan"
                                : "not timed in the plan, whose layouts are others";
          }
  }

  // Chains, and int8 with 16 bits, hold the steps of one plan against those of another. Alone, again and again, a GPU's
  // step takes some microseconds less than timed in a plan: both must be of one kind.
  void use_times_in_plans(Plan& plan) {
    const auto each = [&](auto&& visit) {
      for (Segment& segment : plan.segments)
        for (PlanStep& step : segment.steps)
          if (!step.is_reorder()) visit(step, group_of(step.problem));
    };
    bool any_unknown = false;
    each([&](PlanStep& step, const std::string& group) {
      for (const Known& known : known_[group]) any_unknown |= is_of(known, step) && !context_ms(group, known);
    });
    if (any_unknown) time_steps(plan, known_);
    each([&](PlanStep& step, const std::string& group) {
      for (const Known& known : known_[group]) {
        const auto ms = context_ms(group, known);
        if (is_of(known, step) && ms) step.ms = *ms;
        for (Candidate& loser : step.losers)
          if (loser.ms >= 0 && loser.tactic == known.tactic->name && loser.config == candidate_text(known.config))
            loser.ms = ms ? *ms : kNever;
      }
    });
    drop_never(plan);
  }
  static bool is_of(const Known& known, const PlanStep& step) {
    return known.tactic->name == step.tactic && known.config == step.config;
  }

  bool nothing_to_compare() const {
    return std::ranges::all_of(shortlist_, [](const auto& entry) { return entry.second.size() < 2; });
  }
  bool all_known() const {
    for (const auto& [group, list] : shortlist_)
      for (const Known& known : list)
        if (!context_ms(group, known)) return false;
    return true;
  }

  // Whether some problem has so many candidates of which some are not known.
  bool has_rank(int rank) const {
    for (const auto& [group, list] : shortlist_)
      for (size_t i = size_t(rank); i < list.size(); ++i)
        if (!context_ms(group, list[i])) return true;
    return false;
  }

  // What was timed alone lies in tensors of its own: what is part of a larger one in the plan has kernels of its own,
  // which each rank would wait for.
  void expect_ranks(const Plan& base) const {
    std::vector<CandidateRef> next;
    for (int rank = 0; rank < kRanks && has_rank(rank); ++rank)
      for (const Segment& segment : base.segments)
        for (const PlanStep& step : segment.steps) {
          if (step.is_reorder()) continue;
          const auto& list = shortlist_.at(group_of(step.problem));
          if (size_t(rank) < list.size() && list[size_t(rank)].tactic->takes(step.problem, list[size_t(rank)].config))
            next.push_back({&step.problem, list[size_t(rank)].tactic, list[size_t(rank)].config});
        }
    options_.times->expect(next);
  }

  // False where there is no such rank.
  bool measure_rank(int rank) {
    if (!has_rank(rank)) return false;
    Given of_rank(*this, [&](const std::string& group, const Known& known) {
      const auto it = shortlist_.find(group);
      if (it == shortlist_.end() || it->second.empty()) return 1.0;
      const auto& list = it->second;
      const Known& wanted = list[std::min(size_t(rank), list.size() - 1)];
      return name_of(*known.tactic, known.config) == name_of(*wanted.tactic, wanted.config) ? 0.001 : kNever;
    });
    time_steps(plan_by(of_rank), shortlist_);
    return true;
  }

  // Keeps the times of these candidates, as far as the plan has them, in the plan.
  void time_steps(const Plan& plan, const std::map<std::string, std::vector<Known>>& candidates) {
    auto loaded = std::make_unique<Workbench::Loaded>(plan, device_, bench_->arena);
    Executor* const executor = loaded->executor.get();
    PlanBuffers& buffers = bench_->buffers_for(plan);
    const bool is_long = host_clock().elapsed_ms([&] { executor->run(buffers.inputs, buffers.outputs); }, 1) > kLongMs;
    std::vector<std::vector<std::vector<double>>> runs;
    if (backend_.queue) runs = on_device(*executor).steps_on_device(is_long ? 1 : kRuns);
    else
      for (int run = 0; run < (is_long ? 1 : kHostRuns); ++run)
        executor->run_timed(buffers.inputs, buffers.outputs, runs.emplace_back());
    if (backend_.queue) bench_->before = std::move(loaded);
    // Nodes of one group share a candidate: their mean.
    std::map<std::string, std::pair<double, int>> sums;
    for (size_t s = 0; s < plan.segments.size(); ++s)
      for (size_t k = 0; k < plan.segments[s].steps.size(); ++k) {
        const PlanStep& step = plan.segments[s].steps[k];
        if (step.is_reorder()) continue;
        std::vector<double> ms;
        ms.reserve(runs.size());
        for (const auto& run : runs) ms.push_back(run[s][k]);
        const std::string group = group_of(step.problem);
        const auto list = candidates.find(group);
        if (list == candidates.end()) continue;
        for (const Known& known : list->second)
          if (is_of(known, step)) {
            auto& [sum, count] = sums[context_key(group, known)];
            // What a concat has to copy depends on what is chosen around it; its time is that of copying all.
            sum += step.problem.has_parts() && step.problem.op.is<ops::Concat>() ? known.ms : median(ms);
            ++count;
          }
      }
    for (const auto& [key, sum] : sums) cache_.in_plans.add(key, taken_now(sum.first / sum.second, host_.load));
  }

  // In a capture a kernel may start before the one in front of it has ended. What that gives must be, bit for bit,
  // what the steps give when each is waited for.
  void check_overlap(const Plan& plan) {
    DeviceExecutor executor(plan, device_, bench_->arena);
    PlanBuffers& buffers = bench_->buffers_for(plan);
    auto outputs = [&] { return std::span(buffers.tensors).subspan(plan.inputs.size()); };
    executor.run_waiting(buffers.inputs, buffers.outputs);
    std::vector<Tensor> want;
    for (const Tensor& output : outputs()) {
      want.emplace_back(output.dtype(), output.dims());
      std::memcpy(want.back().raw_mutable(), output.raw().data(), output.raw().size());
    }
    for (int run = 0; run < 3; ++run) {
      executor.run(buffers.inputs, buffers.outputs);
      for (size_t i = 0; i < want.size(); ++i)
        if (!outputs()[i].same_bits(want[i]))
          fail(ErrorKind::check_failed, "the output '", plan.outputs[i].name,
               "' changes when its kernels overlap: this is a defect of Temper on this GPU; please report it");
    }
  }
};

}  // namespace

bool same_kernels(const Plan& a, const Plan& b) {
  auto kernels = [](const Plan& plan) {
    std::vector<std::pair<std::string, Config>> list;
    for (const Segment& segment : plan.segments)
      for (const PlanStep& step : segment.steps) list.emplace_back(step.tactic, step.config);
    return list;
  };
  return kernels(a) == kernels(b);
}

// In turns, each in an arena of its own, so that its inputs stay where they are.
bool is_faster(const Plan& plan, const Plan& other, Workbench& bench, const Device& device, Clock& clock) {
  const bool on_host = !find_backend(device.backend).queue;
  // A GPU's clock drifts by some percent between two measurements: turns tell less than that apart.
  constexpr double kFar = 1.2;
  if (const double a = plan.whole.ms, b = other.whole.ms;
      !on_host && plan.whole.is_measured() && other.whole.is_measured() && std::max(a, b) > kFar * std::min(a, b))
    return a < b;
  std::vector<double> ms[2];
  PlanBuffers& buffers = bench.buffers_for(plan);
  Arena beside(device);
  const std::unique_ptr<Executor> executors[2] = {make_executor(plan, device, bench.arena),
                                                  make_executor(other, device, beside)};
  const auto run_once = [&](int i) {
    return clock.elapsed_ms([&] { executors[i]->run(buffers.inputs, buffers.outputs); }, 1);
  };
  double once = run_once(0);
  run_once(1);
  if (on_host) once = run_once(0);  // the first one found cold memory
  once = std::max(once, 1e-3);
  constexpr double kTurnsMs = 300;
  const int turns = on_host ? int(std::clamp(kTurnsMs / once, 2.0, 6.0)) : once > kLongMs ? 2 : 6;
  for (int turn = 0; turn < turns; ++turn)
    for (int i = 0; i < 2; ++i) {
      Executor& executor = *executors[i];
      const auto run = [&] { executor.run(buffers.inputs, buffers.outputs); };
      if (on_host) ms[i].push_back(quick_time_ms(run, {.max_ms = 20, .max_runs = 5}, clock));
      else
        for (double one : on_device(executor).run_on_device(once > kLongMs ? 1 : 5)) ms[i].push_back(one);
    }
  log(LogLevel::debug, "a plan of ", median(ms[0]), " ms beside one of ", median(ms[1]), " ms");
  return median(ms[0]) < median(ms[1]);
}

Plan plan_on_host_in_context(const Graph& graph, const Backend& backend, const Device& device, PlanOptions options,
                             TimingCache& cache, double load, double seconds, const Progress& progress) {
  Workbench bench(device);
  return InContext(graph, backend, device, std::move(options), cache, &bench, {load, seconds}).by_times(progress).first;
}

void remember_plan(const Graph& graph, const Plan& plan, const Device& device, TimingCache& cache, double load) {
  InContext(graph, find_backend(device.backend), device, {}, cache, nullptr, {load}).remember(plan);
}

std::optional<Plan> decided_plan(const Graph& graph, const Backend& backend, const Device& device,
                                 const PlanOptions& options, TimingCache& cache) {
  if (!decided_before(graph, device, cache)) return std::nullopt;
  return InContext(graph, backend, device, options, cache, nullptr).plan_as_before();
}

bool decided_before(const Graph& graph, const Device& device, const TimingCache& cache) {
  return cache.decisions.has_prefix(decision_key(hash_of(graph), device.fingerprint));
}

Plan plan_in_context(const Graph& graph, const Backend& backend, const Device& device, PlanOptions options,
                     TimingCache& cache, Workbench& bench, const Progress& progress) {
  return InContext(graph, backend, device, std::move(options), cache, &bench).run(progress);
}

Plan plan_by_times_in_context(const Graph& graph, const Backend& backend, const Device& device, PlanOptions options,
                              TimingCache& cache, Workbench& bench, const Progress& progress) {
  return InContext(graph, backend, device, std::move(options), cache, &bench).by_times(progress).first;
}

}  // namespace temper
