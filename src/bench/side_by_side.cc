// SPDX-License-Identifier: Apache-2.0
#include "bench/side_by_side.h"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "bench/bench_engine.h"
#include "bench/compare_engines.h"
#include "bench/table.h"
#include "measure/statistics.h"

namespace temper {

std::string refuse_unlike(const std::vector<std::string>& differences, const std::string& a, const std::string& b,
                          bool force) {
  if (differences.empty()) return "";
  std::string list;
  for (const std::string& one : differences) list += concat(list.empty() ? "" : "; ", one);
  if (!force)
    fail(ErrorKind::unsupported, "'", a, "' and '", b, "' are unlike, their times do not compare: ", list,
         ". --force compares them all the same, and marks the answer");
  return list;
}

Turns time_side_by_side(const std::vector<std::shared_ptr<const Engine>>& engines, const std::vector<Dims>& shapes,
                        const SideBySide& options) {
  for (const auto& engine : engines) {
    check_same_inputs(*engines[0], *engine);
    engine->check_shapes(shapes);
  }
  std::vector<std::unique_ptr<BenchSession>> sessions;
  std::vector<std::function<void()>> bodies;
  for (const auto& engine : engines) {
    sessions.push_back(std::make_unique<BenchSession>(engine, shapes));
    bodies.push_back([session = sessions.back().get()] { session->run(); });
  }
  if (options.burn > 0)
    bodies.back() = [session = sessions.back().get(), burn = options.burn] {
      const double start = host_clock().now_ms();
      session->run();
      const double end = start + (1 + burn) * (host_clock().now_ms() - start);
      while (host_clock().now_ms() < end) {}
    };
  if (engines[0]->device().gpu) log(LogLevel::info, "times are the host's, with the copies of inputs and outputs");
  PairedOptions paired;
  paired.max_seconds = options.seconds;
  paired.progress = [&](int rounds, double s) {
    tell(options.progress, {options.what, s, options.seconds, "s", concat(rounds, " rounds")});
  };
  return measure_turns(bodies, paired);
}

std::vector<double> medians_of(const Turns& turns) {
  std::vector<double> medians;
  for (const std::vector<double>& ms : turns.ms) medians.push_back(median(ms));
  return medians;
}

int64_t running_bytes(const Engine& engine, const std::vector<Dims>& shapes) {
  const auto plan = engine.plan_for(shapes);
  if (!plan) return 0;
  int64_t bytes = plan->arena_bytes();
  for (const auto& constant : plan->constants) bytes += constant->bytes();
  return bytes;
}

std::string paired_text(const Paired& paired) {
  return concat(format_number(paired.ratio), "x as fast, 99 % interval ",
                std::isfinite(paired.interval.high)
                    ? concat(format_number(paired.interval.low), " to ", format_number(paired.interval.high))
                    : "not known",
                " (", paired.ratios.size(), " rounds of turns): ", name_of(paired.verdict),
                paired.why.empty() ? "" : concat(" (", paired.why, ")"));
}

std::string remedy_text(const Paired& paired) {
  constexpr double kMostSeconds = 3600;  // that anybody would wait
  if (paired.rounds_needed <= 0) return "";
  if (!std::isfinite(paired.interval.high)) return "; a longer --duration gives an interval";
  const double seconds = paired.seconds * paired.rounds_needed / double(paired.ratios.size());
  if (seconds > kMostSeconds) return "; more than an hour would be needed to tell, so for most uses they are alike";
  return concat("; about ", paired.rounds_needed, " rounds would decide: --duration ",
                int64_t(std::ceil(seconds * 1.2)), "s");
}

nlohmann::ordered_json json_of(const Paired& paired) {
  const auto number = [](double value) {
    return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
  };
  return {{"ratio", paired.ratio},
          {"ci99", {number(paired.interval.low), number(paired.interval.high)}},
          {"verdict", name_of(paired.verdict)},
          {"why", paired.why},
          {"rounds", paired.ratios.size()},
          {"rounds_needed", paired.rounds_needed},
          {"seconds", paired.seconds},
          {"a_ms", paired.a_ms},
          {"b_ms", paired.b_ms}};
}

}  // namespace temper
