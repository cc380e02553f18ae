// SPDX-License-Identifier: Apache-2.0
#include "plan/describe.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "graph/ops/fused.h"
#include "plan/work.h"

namespace temper {

using Json = nlohmann::json;

std::string layouts_of(const Config& config) {
  std::string out;
  for (Layout layout : config.inputs) out += concat(out.empty() ? "" : " ", layout);
  out += " ->";
  for (Layout layout : config.outputs) out += concat(' ', layout);
  return out;
}

std::vector<Candidate> in_order(std::vector<Candidate> candidates) {
  auto rank = [](const Candidate& c) { return !c.refusal.empty() ? 2 : c.ms < 0 ? 1 : 0; };
  std::stable_sort(candidates.begin(), candidates.end(), [&](const Candidate& a, const Candidate& b) {
    return rank(a) != rank(b) ? rank(a) < rank(b) : rank(a) == 0 && a.ms < b.ms;
  });
  return candidates;
}

namespace {

// By itself, or as one of several convolutions (passes/chain_convs.h, passes/join_shortcuts.h).
bool computes(const PlanStep& step, const std::string& node) {
  if (step.node == node) return true;
  return step.problem.op.is<ops::ConvChain, ops::ShortcutConv>() &&
         concat(" + ", step.node, " + ").find(concat(" + ", node, " + ")) != std::string::npos;
}

}  // namespace

std::vector<std::pair<const Plan*, const PlanStep*>> steps_named(const PlanFile& file, const std::string& node) {
  std::vector<std::pair<const Plan*, const PlanStep*>> found;
  std::string similar;
  int listed = 0;
  for (const auto& plan : file.plans)
    for (const Segment& segment : plan->segments)
      for (const PlanStep& step : segment.steps) {
        if (computes(step, node)) found.emplace_back(plan.get(), &step);
        else if (plan == file.plans[0] && step.node.find(node) != step.node.npos && listed++ < 10)
          similar += concat("\n  ", step.node);
      }
  if (found.empty())
    fail(ErrorKind::usage, "no step of the plan is the node '", node,
         "'; it may have been fused into another (see --graph), all names are in --layers",
         similar.empty() ? "" : concat(". Names that contain it:", similar));
  return found;
}

std::vector<std::string> written_in_place(const Plan& plan, const PlanStep& step) {
  std::vector<std::string> writers(step.inputs.size());
  for (const Segment& segment : plan.segments)
    for (const PlanStep& other : segment.steps) {
      if (&other == &step) {
        std::erase(writers, "");
        return writers;
      }
      const bool here = &step >= segment.steps.data() && &step < segment.steps.data() + segment.steps.size();
      for (const BufferRef& output : other.outputs)
        for (size_t i = 0; i < step.inputs.size(); ++i) {
          const BufferRef& input = step.inputs[i];
          if (step.problem.inputs[i].in_place && input.kind == output.kind && input.at == output.at &&
              input.offset == output.offset && (here || input.kind != BufferRef::Kind::local))
            writers[i] = other.node;
        }
    }
  return {};
}

namespace {

Json ms_json(double ms) { return ms < 0 ? Json(nullptr) : Json(ms); }

Json ports_json(const std::vector<PortInfo>& ports) {
  Json json = Json::array();
  for (const PortInfo& port : ports) json.push_back({{"name", port.name}, {"type", port.type.text()}});
  return json;
}

Json candidates_json(const PlanStep& step) {
  Json json = Json::array();
  for (const Candidate& c : in_order(step.losers)) {
    Json item{{"tactic", c.tactic}, {"config", c.config}, {"ms", ms_json(c.ms)}};
    if (!c.refusal.empty()) item["refusal"] = c.refusal;
    json.push_back(std::move(item));
  }
  return json;
}

Json step_json(const Plan& plan, const Segment& segment, const PlanStep& step) {
  Json layouts{{"inputs", Json::array()}, {"outputs", Json::array()}};
  for (Layout layout : step.config.inputs) layouts["inputs"].push_back(name_of(layout));
  for (Layout layout : step.config.outputs) layouts["outputs"].push_back(name_of(layout));
  Json json{{"node", step.node},
            {"op", op_of(step)},
            {"layouts", layouts},
            {"ms", ms_json(step.ms)},
            {"bytes", bytes_of(plan, segment, step)},
            {"workspace_bytes", step.workspace}};
  if (!step.is_reorder())
    json.update({{"tactic", step.tactic}, {"config", step.config.text}, {"problem", step.problem.text()}});
  if (const auto writers = written_in_place(plan, step); !writers.empty()) json["in_place"] = writers;
  return json;
}

Json plan_json(const Plan& plan, const DescribeOptions& options) {
  const WholeTime& whole = plan.whole;
  Json measured = nullptr;
  if (whole.is_measured())
    measured = {{"ms", whole.ms},
                {"low_ms", ms_json(whole.low)},
                {"high_ms", ms_json(whole.high)},
                {"runs", whole.runs},
                {"load_by_others", ms_json(whole.load)}};
  const int64_t untimed = plan.untimed_steps();
  int64_t steps = 0;
  for (const Segment& segment : plan.segments) steps += int64_t(segment.steps.size());
  Json segments = Json::array();
  for (const Segment& segment : plan.segments) {
    Json item{{"slices", segment.slices},
              {"parallel", segment.parallel},
              {"local_bytes", segment.local_bytes},
              {"steps", segment.steps.size()}};
    if (options.layers) {
      item["steps"] = Json::array();
      for (const PlanStep& step : segment.steps) item["steps"].push_back(step_json(plan, segment, step));
    }
    segments.push_back(std::move(item));
  }
  return {{"inputs", ports_json(plan.inputs)},
          {"outputs", ports_json(plan.outputs)},
          {"measured", measured},
          {"steps_ms", ms_json(untimed < steps ? plan.steps_ms() : -1)},
          {"untimed_steps", untimed},
          {"not_measured", plan.not_measured},
          {"arena_bytes", plan.arena_bytes()},
          {"segments", segments}};
}

}  // namespace

Json describe(const PlanFile& file, const DescribeOptions& options) {
  const EngineInfo& info = file.info;
  Json plans = Json::array(), profiles = Json::array();
  const auto ranges = [](const std::map<std::string, ShapeRange>& shapes) {
    Json json = Json::object();
    for (const auto& [name, range] : shapes) json[name] = {{"min", range.min}, {"opt", range.opt}, {"max", range.max}};
    return json;
  };
  for (const auto& profile : info.profiles) profiles.push_back(ranges(profile));
  for (const auto& plan : file.plans) plans.push_back(plan_json(*plan, options));
  Json json{{"model", info.model_name},
            {"model_sha256", info.model_sha256},
            {"source_path", info.source_path},
            {"producer", info.producer},
            {"precision", info.precision},
            {"calibration_sha256", info.calibration_sha256},
            {"placeholder", info.placeholder},
            {"products", info.products},
            {"lowered_products", info.lowered_products},
            {"not_lowered", info.not_lowered},
            {"device", info.device},
            {"fingerprint", info.fingerprint},
            {"version", info.version},
            {"revision", info.revision},
            {"command", info.command},
            {"build_s", info.build_s},
            {"threads", file.threads},
            {"inputs", ports_json(file.inputs)},
            {"outputs", ports_json(file.outputs)},
            {"shapes", ranges(info.shapes)},
            {"profiles", profiles},
            {"preprocess", info.preprocess},
            {"notes", info.notes},
            {"plan_bytes", file.file_bytes > 0 ? Json(file.file_bytes) : Json(nullptr)},
            {"constant_bytes", file.constant_bytes},
            {"graph_constant_bytes", file.graph_bytes},
            {"timings", file.timings.size()},
            {"refusal", file.refusal.empty() ? Json(nullptr) : Json(file.refusal)},
            {"plans", plans}};
  if (options.graph) json["graph"] = file.graph_text;
  if (!options.why.empty()) {
    json["why"] = Json::array();
    for (const auto& [plan, step] : steps_named(file, options.why))
      json["why"].push_back({{"inputs", ports_json(plan->inputs)},
                             {"node", step->node},
                             {"tactic", step->tactic},
                             {"config", step->config.text},
                             {"layouts", layouts_of(step->config)},
                             {"ms", ms_json(step->ms)},
                             {"others", candidates_json(*step)}});
  }
  return json;
}

}  // namespace temper
