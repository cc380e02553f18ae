// SPDX-License-Identifier: Apache-2.0
#include "optimize/step_threads.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "backends/cpu/pointwise_threads.h"
#include "base/log.h"
#include "measure/clock.h"
#include "measure/statistics.h"
#include "optimize/plan_buffers.h"
#include "plan/execute_host.h"
#include "plan/nearest.h"
#include "plan/planner.h"

namespace temper {

namespace {

// A step that takes longer on all threads is not small: what opening and joining cost is lost in it.
constexpr double kSmallMs = 0.1;
// Below this share of the plan, small steps do not matter.
constexpr double kShare = 0.03;
constexpr int kTurns = 5;
constexpr double kTurnsMs = 3000;

using Threads = std::map<std::string, int>;  // by problem; all where it is not listed

// The times of a plan's problems; a reorder counts for the step that asked for it, which follows it.
std::map<std::string, double> by_problem(const Plan& plan, const TimedPlan& times) {
  std::map<std::string, double> ms;
  for (size_t s = 0; s < plan.segments.size(); ++s) {
    double waiting = 0;
    for (size_t i = 0; i < plan.segments[s].steps.size(); ++i) {
      const PlanStep& step = plan.segments[s].steps[i];
      waiting += times.step_ms[s][i];
      if (step.is_reorder()) continue;
      ms[text_without_threads(step.problem)] += waiting;
      waiting = 0;
    }
  }
  return ms;
}

// Whether its kernel, of those that know, works on one thread however many there are.
bool works_on_one_thread(const PlanStep& step) {
  return step.tactic == "cpu.pointwise" &&
         pointwise_threads(element_count(step.problem.outputs.at(0).dims()), step.problem.threads) == 1;
}
// Whether anything else supports the problem, and might be chosen on fewer threads.
bool had_rivals(const PlanStep& step) {
  return std::ranges::any_of(step.losers, [](const Candidate& loser) { return !loser.config.empty(); });
}
// Neither its kernel nor the choice of it would be another on fewer threads, nor has it a reorder that would.
bool is_same_on_one_thread(const Segment& segment, size_t i) {
  const PlanStep& step = segment.steps[i];
  return works_on_one_thread(step) && !had_rivals(step) && (i == 0 || !segment.steps[i - 1].is_reorder());
}
bool is_same_on_one_thread(const Plan& plan) {
  for (const Segment& segment : plan.segments)
    for (size_t i = 0; i < segment.steps.size(); ++i)
      if (!is_same_on_one_thread(segment, i)) return false;
  return true;
}

class Search {
 public:
  Search(const Graph& graph, const Backend& backend, const Device& device, const PlanOptions& options,
         const PlanTimer& time, const Progress& progress)
      : graph_(graph), backend_(backend), device_(device), options_(options), time_(time), progress_(progress) {}

  ThreadedPlan run(Plan all) {
    Tried base{{}, std::move(all), {}};
    measure({&base});
    const Threads fewest = small_problems(base, 1);
    if (fewest.empty()) return {std::move(base.plan), nullptr};
    std::vector<Tried> uniform;  // all small steps on as many threads
    for (int threads = 1; threads < options_.threads; threads *= 4)
      uniform.push_back(plan_with(small_problems(base, threads)));
    std::vector<Tried*> all_plans{&base};
    for (Tried& tried : uniform) all_plans.push_back(&tried);
    measure(all_plans);

    // Each problem as it was fastest; and on more threads only where that brings a lot.
    Threads mixed, careful;
    for (const auto& [problem, one] : fewest) {
      const double ms_all = base.by_problem.at(problem);
      double best = ms_all, best_but_all = std::numeric_limits<double>::infinity();
      for (const Tried& tried : uniform)  // where other layouts were chosen, a plan may have none of these problems
        if (const auto timed = tried.by_problem.find(problem);
            timed != tried.by_problem.end() && timed->second < best_but_all && tried.threads.contains(problem)) {
          best_but_all = timed->second;
          careful[problem] = tried.threads.at(problem);
        }
      if (best_but_all <= best) mixed[problem] = careful[problem];
      if (ms_all < 0.8 * best_but_all) careful.erase(problem);
    }
    Tried best = std::move(base);
    for (Tried& tried : uniform) keep_faster(best, std::move(tried), false);
    for (const Threads& threads : {mixed, careful}) try_beside(best, threads);
    // A step that other cores slow down among others of many threads may gain by itself: the longest, and only those.
    for (double least : {0.02, 0.01}) {
      Threads short_ones = fewest;
      std::erase_if(short_ones, [&](const auto& entry) {
        const auto longest = longest_ms_.find(entry.first);
        return longest == longest_ms_.end() || longest->second >= least;
      });
      try_beside(best, short_ones);
    }
    // What a step takes depends on its neighbours: those that are slower now than they were with fewer threads go back.
    for (int round = 0; round < 2; ++round) {
      Threads back = best.threads;
      for (const auto& [problem, one] : fewest)
        if (const auto timed = best.by_problem.find(problem), few = fewest_ms_.find(problem);
            timed != best.by_problem.end() && few != fewest_ms_.end() && !back.contains(problem) &&
            timed->second > few->second)
          back[problem] = one;
      if (!try_beside(best, back)) break;
    }
    log(LogLevel::debug, "of ", fewest.size(), " problems of small steps, ", best.threads.size(), " run on fewer than ",
        options_.threads, " threads: ", best.times.ms, " ms");
    if (best.threads.empty()) return {std::move(best.plan), nullptr};
    return {std::move(best.plan), threads_of(best.threads)};
  }

 private:
  struct Tried {
    Threads threads;
    Plan plan;
    TimedPlan times;
    std::map<std::string, double> by_problem;
  };
  const Graph& graph_;
  const Backend& backend_;
  const Device& device_;
  const PlanOptions& options_;
  const PlanTimer& time_;
  const Progress& progress_;
  std::vector<Threads> seen_;
  std::map<std::string, double> fewest_ms_, longest_ms_;  // by problem, on one thread: all steps together, the longest

  static ThreadsOf threads_of(const Threads& threads) {
    return [threads](const Problem& problem) {
      const auto it = threads.find(text_without_threads(problem));
      return it == threads.end() ? problem.threads : it->second;
    };
  }

  Tried plan_with(const Threads& threads) {
    seen_.push_back(threads);
    PlanOptions options = options_;
    options.threads_of = threads_of(threads);
    return {threads, build_plan(graph_, backend_, device_, options), {}, {}};
  }

  void measure(const std::vector<Tried*>& tried) {
    tell_words(progress_, "timing steps on fewer threads");
    std::vector<const Plan*> plans;
    for (const Tried* one : tried) plans.push_back(&one->plan);
    std::vector<TimedPlan> times = time_(plans);
    for (size_t i = 0; i < tried.size(); ++i) {
      tried[i]->times = std::move(times[i]);
      tried[i]->by_problem = by_problem(tried[i]->plan, tried[i]->times);
      if (!tried[i]->threads.empty() && longest_ms_.empty()) longest_ms_ = longest(*tried[i]);
      for (const auto& [problem, ms] : tried[i]->by_problem)
        if (auto it = tried[i]->threads.find(problem); it != tried[i]->threads.end() && it->second == 1)
          fewest_ms_.try_emplace(problem, ms);
      log(LogLevel::debug, tried[i]->threads.size(), " problems on fewer threads: ", tried[i]->times.ms, " ms");
    }
  }

  // The longest step of each problem.
  static std::map<std::string, double> longest(const Tried& tried) {
    std::map<std::string, double> ms;
    for (size_t s = 0; s < tried.plan.segments.size(); ++s)
      for (size_t i = 0; i < tried.plan.segments[s].steps.size(); ++i)
        if (const PlanStep& step = tried.plan.segments[s].steps[i]; !step.is_reorder()) {
          double& most = ms[text_without_threads(step.problem)];
          most = std::max(most, tried.times.step_ms[s][i]);
        }
    return ms;
  }

  Threads small_problems(const Tried& base, int threads) {
    Threads small;
    double sum = 0;
    for (size_t s = 0; s < base.plan.segments.size(); ++s)
      for (size_t i = 0; i < base.plan.segments[s].steps.size(); ++i) {
        const PlanStep& step = base.plan.segments[s].steps[i];
        if (base.times.step_ms[s][i] > kSmallMs) continue;
        sum += base.times.step_ms[s][i];
        if (!step.is_reorder()) small[text_without_threads(step.problem)] = threads;
      }
    return sum < kShare * base.times.ms ? Threads() : small;
  }

  // Whether `tried` is now the best. Both were timed in turns.
  bool keep_faster(Tried& best, Tried tried, bool more_threads) const {
    if (tried.times.ms >= best.times.ms * (more_threads ? 0.99 : 1.01)) return false;
    best = std::move(tried);
    return true;
  }
  bool try_beside(Tried& best, const Threads& threads) {
    if (threads == best.threads || std::find(seen_.begin(), seen_.end(), threads) != seen_.end()) return false;
    Tried tried = plan_with(threads);
    measure({&best, &tried});
    return keep_faster(best, std::move(tried), threads.size() < best.threads.size());
  }
};

}  // namespace

PlanTimer timer_of_plans(const Device& device) {
  return [&device](const std::vector<const Plan*>& plans) {
    struct Timed {
      Arena arena;
      HostExecutor executor;
      std::vector<double> whole;
      std::vector<std::vector<std::vector<double>>> steps;  // by segment, step and turn
      Timed(const Plan& plan, const Device& device) : arena(device), executor(plan, device, arena) {
        for (const Segment& segment : plan.segments) steps.emplace_back(segment.steps.size());
      }
    };
    PlanBuffers buffers(*plans.at(0));
    std::vector<std::unique_ptr<Timed>> all;
    for (const Plan* plan : plans) all.push_back(std::make_unique<Timed>(*plan, device));
    Clock& clock = host_clock();
    const double begin = clock.now_ms();
    // Of plans that take long, as on the reference, one look at each.
    for (int turn = 0; turn < kTurns && (turn == 0 || clock.now_ms() - begin < kTurnsMs); ++turn)
      for (auto& timed : all) {
        const auto run = [&] { timed->executor.run(buffers.inputs, buffers.outputs); };
        // What the one before left in the caches is not the plan's business.
        const double first = clock.elapsed_ms(run, 1), start = clock.now_ms();
        std::vector<double> runs;
        do runs.push_back(clock.elapsed_ms(run, 1));
        while (runs.size() < 20 && clock.now_ms() - start < std::max(2.0, first));
        timed->whole.push_back(median(runs));
        for (int again = 0; again < 2; ++again) {
          std::vector<std::vector<double>> ms;
          timed->executor.run_timed(buffers.inputs, buffers.outputs, ms);
          for (size_t s = 0; s < ms.size(); ++s)
            for (size_t i = 0; i < ms[s].size(); ++i) timed->steps[s][i].push_back(ms[s][i]);
        }
      }
    std::vector<TimedPlan> result;
    for (const auto& timed : all) {
      TimedPlan times{median(timed->whole), {}};
      for (const auto& segment : timed->steps)
        for (auto& row = times.step_ms.emplace_back(); const auto& step : segment) row.push_back(median(step));
      result.push_back(std::move(times));
    }
    return result;
  };
}

ThreadedPlan choose_step_threads(const Graph& graph, const Backend& backend, const Device& device,
                                 const PlanOptions& options, Plan all, const PlanTimer& time,
                                 const Progress& progress) {
  if (options.threads <= 1 || is_same_on_one_thread(all)) return {std::move(all), nullptr};
  return Search(graph, backend, device, options, time, progress).run(std::move(all));
}

}  // namespace temper
