// SPDX-License-Identifier: Apache-2.0
#include "cli/inspect_plan.h"
#include "cli/json_text.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench/table.h"
#include "plan/file.h"
#include "plan/work.h"

namespace temper::cli {

namespace {

using Json = nlohmann::json;

std::string layouts_of(const Config& config) {
  std::string out;
  for (Layout layout : config.inputs) out += concat(out.empty() ? "" : " ", layout);
  out += " ->";
  for (Layout layout : config.outputs) out += concat(' ', layout);
  return out;
}

std::string shapes_of(const std::vector<PortInfo>& ports) {
  std::string out;
  for (const PortInfo& port : ports) out += concat(out.empty() ? "" : ", ", port.name, ": ", port.type);
  return out;
}

std::string ms_text(double ms) { return ms <= 0 ? "n/a" : format_number(ms); }
Json ms_json(double ms) { return ms < 0 ? Json(nullptr) : Json(ms); }

std::string segments_text(const Plan& plan) {
  std::string out;
  for (const Segment& segment : plan.segments) {
    out += concat(out.empty() ? "" : " + ", segment.steps.size(), " steps");
    if (segment.slices > 1) out += concat(" on ", segment.slices, segment.parallel ? " slices side by side" : " slices");
  }
  return out.empty() ? "no steps" : out;
}

void print_summary(const std::string& path, const PlanFile& file) {
  const EngineInfo& info = file.info;
  auto line = [](const char* name, const std::string& text) { std::printf("%-12s%s\n", name, text.c_str()); };
  line("plan", concat(path, ", ", format_bytes(double(file.file_bytes)), ", by temper ", info.version, " (", info.revision, ")"));
  line("model", concat(info.model_name, info.source_path.empty() ? "" : concat(" from ", info.source_path), info.producer.empty() ? "" : concat(", made by ", info.producer)));
  line("sha256", info.model_sha256);
  line("device", concat(info.device, ", ", file.threads, file.threads == 1 ? " thread" : " threads", ": ", info.fingerprint));
  line("precision", concat(info.precision, info.precision == "fp32" ? "" : concat(": ", info.lowered_products, " of ", info.products, " convolutions and products"),
                           info.placeholder ? " (calibrated on noise: meaningless for accuracy)" : ""));
  if (!info.calibration_sha256.empty()) line("calibration", concat("sha256 ", info.calibration_sha256));
  for (const PortInfo& port : file.inputs) {
    std::string text = concat(port.name, ": ", port.type);
    if (auto it = info.shapes.find(port.name); it != info.shapes.end() && it->second.min != it->second.max)
      text += concat(" from ", it->second.min, " to ", it->second.max, ", best at ", it->second.opt);
    line("input", text);
  }
  for (const PortInfo& port : file.outputs) line("output", concat(port.name, ": ", port.type));
  for (const auto& plan : file.plans)
    line("shapes", concat(shapes_of(plan->inputs), ": ", segments_text(*plan), ", arena ", format_bytes(double(plan->arena_bytes())), ", estimated ", ms_text(plan->estimated_ms), " ms"));
  line("constants", concat(format_bytes(double(file.constant_bytes)), file.graph ? concat(", and ", format_bytes(double(file.graph_bytes)), " to plan other shapes") : ""));
  if (!file.timings.empty()) line("times", concat(file.timings.size(), " measured, for plans of other shapes"));
  line("built", concat("in ", format_number(info.build_s), " s by: ", info.command));
  for (const std::string& note : info.notes) line("note", note);
  if (!file.refusal.empty()) line("runs here", concat("no: ", file.refusal));
}

void print_layers(const PlanFile& file) {
  for (const auto& plan : file.plans) {
    std::printf("%s for %s\n", plan == file.plans[0] ? "plan" : "\nplan", shapes_of(plan->inputs).c_str());
    Table table{{{"segment", false}, {"node", false}, {"op", false}, {"output", false}, {"tactic", false}, {"configuration", false}, {"layouts", false}, {"ms"}, {"bytes"}}, {}};
    for (size_t s = 0; s < plan->segments.size(); ++s) {
      const Segment& segment = plan->segments[s];
      const std::string name = segment.slices == 1 ? concat(s) : concat(s, segment.parallel ? " =" : " x", segment.slices);
      for (const PlanStep& step : segment.steps)
        table.rows.push_back({name, step.node, op_of(step), step.problem.outputs[0].type.text(), step.tactic, step.config.text, layouts_of(step.config),
                              ms_text(step.ms), format_bytes(double(bytes_of(*plan, segment, step)))});
    }
    std::fputs(terminal_table(table).c_str(), stdout);
  }
}

// By time, then those without one, then those that were refused.
std::vector<Candidate> in_order(std::vector<Candidate> candidates) {
  auto rank = [](const Candidate& c) { return !c.refusal.empty() ? 2 : c.ms < 0 ? 1 : 0; };
  std::stable_sort(candidates.begin(), candidates.end(), [&](const Candidate& a, const Candidate& b) { return rank(a) != rank(b) ? rank(a) < rank(b) : rank(a) == 0 && a.ms < b.ms; });
  return candidates;
}

template <class F>
void for_each_step_named(const PlanFile& file, const std::string& node, F&& f) {
  bool found = false;
  std::string similar;
  int listed = 0;
  for (const auto& plan : file.plans)
    for (const Segment& segment : plan->segments)
      for (const PlanStep& step : segment.steps) {
        if (step.node == node) {
          found = true;
          f(*plan, step);
        } else if (plan == file.plans[0] && step.node.find(node) != step.node.npos && listed++ < 10) {
          similar += concat("\n  ", step.node);
        }
      }
  if (!found)
    fail(ErrorKind::usage, "no step of the plan is the node '", node, "'; it may have been fused into another (see --graph), all names are in --layers",
         similar.empty() ? "" : concat(". Names that contain it:", similar));
}

void print_why(const PlanFile& file, const std::string& node) {
  for_each_step_named(file, node, [&](const Plan& plan, const PlanStep& step) {
    std::printf("%s '%s' for %s\n", op_of(step).c_str(), node.c_str(), shapes_of(plan.inputs).c_str());
    if (step.is_reorder()) {
      std::printf("  a change of layout that its neighbours need: %s\n", layouts_of(step.config).c_str());
      return;
    }
    std::printf("  %s\n", step.problem.text().c_str());
    Table table{{{"", false}, {"tactic", false}, {"configuration", false}, {"ms"}, {"why not", false}}, {}};
    table.rows.push_back({"chosen", step.tactic, concat(step.config.text, step.config.text.empty() ? "" : " ", layouts_of(step.config)), ms_text(step.ms), ""});
    for (const Candidate& c : in_order(step.losers)) {
      // A faster one can lose: what counts is the sum with the changes of layout around it.
      const std::string reason = !c.refusal.empty() ? c.refusal : c.ms < 0 ? "not timed" : step.ms < 0 || c.ms >= step.ms ? "slower" : "faster alone; its layouts cost more around it";
      table.rows.push_back({c.refusal.empty() ? "lost" : "refused", c.tactic, c.config, c.refusal.empty() ? ms_text(c.ms) : "", reason});
    }
    std::fputs(terminal_table(table).c_str(), stdout);
  });
}

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
  Json json{{"node", step.node}, {"op", op_of(step)}, {"layouts", layouts}, {"ms", ms_json(step.ms)}, {"bytes", bytes_of(plan, segment, step)}, {"workspace_bytes", step.workspace}};
  if (!step.is_reorder()) json.update({{"tactic", step.tactic}, {"config", step.config.text}, {"problem", step.problem.text()}});
  return json;
}

Json plan_json(const Plan& plan, const InspectPlanOptions& options) {
  Json segments = Json::array();
  for (const Segment& segment : plan.segments) {
    Json item{{"slices", segment.slices}, {"parallel", segment.parallel}, {"local_bytes", segment.local_bytes}, {"steps", segment.steps.size()}};
    if (options.layers) {
      item["steps"] = Json::array();
      for (const PlanStep& step : segment.steps) item["steps"].push_back(step_json(plan, segment, step));
    }
    segments.push_back(std::move(item));
  }
  return {{"inputs", ports_json(plan.inputs)}, {"outputs", ports_json(plan.outputs)}, {"estimated_ms", plan.estimated_ms}, {"arena_bytes", plan.arena_bytes()}, {"segments", segments}};
}

Json file_json(const PlanFile& file, const InspectPlanOptions& options) {
  const EngineInfo& info = file.info;
  Json shapes = Json::object(), plans = Json::array();
  for (const auto& [name, range] : info.shapes) shapes[name] = {{"min", range.min}, {"opt", range.opt}, {"max", range.max}};
  for (const auto& plan : file.plans) plans.push_back(plan_json(*plan, options));
  Json json{{"model", info.model_name}, {"model_sha256", info.model_sha256}, {"source_path", info.source_path}, {"producer", info.producer}, {"precision", info.precision},
            {"calibration_sha256", info.calibration_sha256}, {"placeholder", info.placeholder}, {"products", info.products}, {"lowered_products", info.lowered_products},
            {"not_lowered", info.not_lowered}, {"device", info.device}, {"fingerprint", info.fingerprint}, {"version", info.version}, {"revision", info.revision}, {"command", info.command},
            {"build_s", info.build_s}, {"threads", file.threads}, {"inputs", ports_json(file.inputs)}, {"outputs", ports_json(file.outputs)}, {"shapes", shapes},
            {"notes", info.notes}, {"plan_bytes", file.file_bytes}, {"constant_bytes", file.constant_bytes}, {"graph_constant_bytes", file.graph_bytes},
            {"timings", file.timings.size()}, {"refusal", file.refusal.empty() ? Json(nullptr) : Json(file.refusal)}, {"plans", plans}};
  if (options.graph) json["graph"] = file.graph_text;
  if (!options.why.empty()) {
    json["why"] = Json::array();
    for_each_step_named(file, options.why, [&](const Plan& plan, const PlanStep& step) {
      json["why"].push_back({{"inputs", ports_json(plan.inputs)}, {"node", step.node}, {"tactic", step.tactic}, {"config", step.config.text}, {"layouts", layouts_of(step.config)}, {"ms", ms_json(step.ms)}, {"others", candidates_json(step)}});
    });
  }
  return json;
}

}  // namespace

void inspect_plan(const std::string& path, const InspectPlanOptions& options) {
  const PlanFile file = read_plan_file(path, {.candidates = !options.why.empty(), .foreign = true});
  if (!file.complete && (options.layers || !options.why.empty())) fail(ErrorKind::unsupported, path, ": its steps can only be read by the program that wrote it: ", file.refusal);
  if (options.json) {
    std::fputs(json_text(file_json(file, options)).c_str(), stdout);
    return;
  }
  if (options.graph) std::fputs(file.graph_text.c_str(), stdout);
  if (options.layers) print_layers(file);
  if (!options.why.empty()) print_why(file, options.why);
  if (!options.graph && !options.layers && options.why.empty()) print_summary(path, file);
}

}  // namespace temper::cli
