// SPDX-License-Identifier: Apache-2.0
#include "bench/profile_plan.h"

#include <nlohmann/json.hpp>

#include "base/log.h"
#include "bench/bench_engine.h"
#include "bench/table.h"
#include "measure/environment.h"
#include "plan/file.h"
#include "tune/default_cache.h"

namespace temper {

using Json = nlohmann::ordered_json;

namespace {

// A step above a limit says that the limit is wrong: it was measured while others worked, or at a lower clock.
void check_limits(ProfiledPlan& plan, TimingCache& cache, const Progress& progress) {
  const Environment environment = read_environment(0);
  const int64_t cache_bytes =
      plan.engine->device().gpu ? int64_t(256) << 20 : environment.l3_bytes.value_or(environment.l2_bytes.value_or(0));
  if (above_limits(plan.profile, cache_bytes).empty()) return;
  tell_words(progress, "peaks of this machine, again");
  plan.peaks = peaks_again(plan.peaks, plan.engine->device(), plan.engine->threads(), cache);
  cache.save();
  hold_against(plan.profile, plan.peaks);
  if (const auto above = above_limits(plan.profile, cache_bytes); !above.empty())
    log(LogLevel::warning, plan.path, ": '", above[0]->step->node, "'",
        above.size() > 1 ? concat(" and ", above.size() - 1, " more steps") : std::string(),
        above.size() > 1 ? " take" : " takes",
        " less time than this machine's limits allow, although these were measured again: the limits are too low");
}

}  // namespace

ProfiledPlan profile_plan(const std::string& path, const ProfileSettings& settings) {
  const DeviceSettings device{settings.library_folders};
  auto engine = std::make_shared<const Engine>(read_plan_file(path, {.candidates = true, .settings = device}), device);
  const GivenInputs given =
      with_context([&] { return path; }, [&] { return read_given(settings.inputs, *engine, settings.batch); });
  return profile_loaded(std::move(engine), path, settings, given);
}

ProfiledPlan profile_loaded(std::shared_ptr<const Engine> engine, const std::string& name,
                            const ProfileSettings& settings, const GivenInputs& given) {
  ProfiledPlan done;
  done.path = name;
  done.engine = std::move(engine);
  done.shapes = shapes_for_batch(*done.engine, settings.batch, given);
  TimingCache cache(settings.timing_cache.empty() ? default_timing_cache() : settings.timing_cache);
  tell_words(settings.progress, "peaks of this machine");
  done.peaks = known_peaks(done.engine->device(), done.engine->threads(), cache);
  cache.save();
  tell_words(settings.progress, name, ": running step by step");
  done.profile = profile_engine(done.engine, done.shapes, done.peaks, settings.seconds, given);
  check_limits(done, cache, settings.progress);
  if (done.profile.load_by_others.value_or(0) >= kLoadThatCounts)
    log(LogLevel::warning, name, ": other processes used ", *done.profile.load_by_others, " of ",
        read_environment(0).allowed_cores, " cores while the steps were timed");
  return done;
}

Json json_of(const ProfiledPlan& plan) {
  const Engine& engine = *plan.engine;
  const Profile& profile = plan.profile;
  const Peaks& peaks = plan.peaks;
  const auto known = [](double value) { return value > 0 ? Json(value) : Json(nullptr); };
  Json steps = Json::array();
  for (const StepProfile& row : profile.steps) {
    const PlanStep& step = *row.step;
    Json losers = Json::array();
    for (const Candidate& c : step.losers)
      if (c.refusal.empty())
        losers.push_back({{"tactic", c.tactic}, {"config", c.config}, {"ms", c.ms >= 0 ? Json(c.ms) : Json(nullptr)}});
    steps.push_back({{"where", row.where},
                     {"calls", row.calls},
                     {"segment", row.segment},
                     {"node", step.node},
                     {"op", op_of(step)},
                     {"ms", row.ms},
                     {"share", row.share},
                     {"bytes", row.bytes},
                     {"operations", row.operations ? Json(*row.operations) : Json(nullptr)},
                     {"of_arithmetic_peak", known(row.of_arithmetic)},
                     {"of_memory_peak", known(row.of_memory)},
                     {"precision_in", concat(row.from)},
                     {"precision_out", concat(row.to)},
                     {"tactic", step.tactic},
                     {"config", step.config.text},
                     {"threads", step.problem.threads},
                     {"tuned_ms", step.ms >= 0 ? Json(step.ms) : Json(nullptr)},
                     {"lost", losers}});
  }
  Json between = Json::array();
  for (const Partition& partition : profile.partitions)
    for (const Partition::Between& node : partition.between)
      between.push_back({{"where", partition.where}, {"node", node.node}, {"op", node.op}, {"ms", node.ms}});
  return {{"schema", "temper.profile/1"},
          {"plan", plan.path},
          {"model_sha256", engine.info().model_sha256},
          {"device", engine.info().device},
          {"precision", engine.info().precision},
          {"threads", engine.threads()},
          {"runs", profile.runs},
          {"load_by_others", profile.load_by_others ? Json(*profile.load_by_others) : Json(nullptr)},
          {"measured_ms", known(profile.plan ? profile.plan->whole.ms : 0)},
          {"between_plans", between},
          {"run_ms", profile.run_ms},
          {"steps_ms", profile.steps_ms},
          {"peaks",
           {{"memory_bytes_per_s", known(peaks.bytes_per_s)},
            {"fp32_per_s", known(peaks.f32_per_s)},
            {"bf16_per_s", known(peaks.bf16_per_s)},
            {"fp16_per_s", known(peaks.f16_per_s)},
            {"int8_per_s", known(peaks.i8_per_s)}}},
          {"steps", steps}};
}

}  // namespace temper
