// SPDX-License-Identifier: Apache-2.0
#include "bench/trace.h"

#include <nlohmann/json.hpp>

#include "base/strict_json.h"

namespace temper {

using Json = nlohmann::ordered_json;

namespace {

constexpr int kProcess = 1, kSteps = 1, kRuns = 2;  // the numbers of the tracks

Json name_of_track(const char* what, int thread, const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"pid", kProcess}, {"tid", thread}, {"args", {{"name", name}}}};
}

// Times of the format are microseconds.
Json event(const std::string& name, const std::string& category, int thread, double at_ms, double ms, Json arguments) {
  return {{"name", name},  {"cat", category},   {"ph", "X"},       {"pid", kProcess},
          {"tid", thread}, {"ts", at_ms * 1e3}, {"dur", ms * 1e3}, {"args", std::move(arguments)}};
}

}  // namespace

std::string trace_of(const ProfiledPlan& plan) {
  const Profile& profile = plan.profile;
  const EngineInfo& info = plan.engine->info();
  Json events = Json::array();
  events.push_back(name_of_track(
      "process_name", kSteps,
      concat(plan.path, ", ", info.device, ", ", info.precision, ", medians of ", profile.runs, " runs")));
  events.push_back(name_of_track("thread_name", kSteps, "steps"));
  events.push_back(name_of_track("thread_name", kRuns, "whole run, not taken apart"));
  double at_ms = 0;
  std::string where;
  const auto add_between = [&] {  // behind the steps of `where`
    for (const Partition& partition : profile.partitions) {
      if (partition.where != where) continue;
      for (const Partition::Between& node : partition.between) {
        events.push_back(event(node.node, node.op, kSteps, at_ms, node.ms, {{"between", "plans"}}));
        at_ms += node.ms;
      }
    }
  };
  for (const StepProfile& row : profile.steps) {
    if (row.where != where) add_between();
    where = row.where;
    const PlanStep& step = *row.step;
    Json arguments{{"op", op_of(step)},
                   {"output", step.problem.outputs.empty() ? "" : step.problem.outputs[0].type.text()},
                   {"tactic", step.tactic},
                   {"configuration", step.config.text},
                   {"threads", step.problem.threads},
                   {"bytes", row.bytes},
                   {"share", row.share}};
    if (row.operations) arguments["operations"] = *row.operations;
    if (row.of_arithmetic > 0) arguments["of_arithmetic_peak"] = row.of_arithmetic;
    if (row.of_memory > 0) arguments["of_memory_peak"] = row.of_memory;
    if (!row.where.empty()) arguments["in"] = row.where;
    if (row.calls != 1) arguments["calls"] = row.calls;
    events.push_back(event(step.node, op_of(step), kSteps, at_ms, row.ms, std::move(arguments)));
    at_ms += row.ms;
  }
  add_between();
  events.push_back(event("run", "run", kRuns, 0, profile.run_ms, {{"threads", plan.engine->threads()}}));
  return strict::dump(Json{{"schema", "temper.profile/trace"}, {"displayTimeUnit", "ms"}, {"traceEvents", events}}) +
         "\n";
}

}  // namespace temper
