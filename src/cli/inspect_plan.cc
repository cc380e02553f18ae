// SPDX-License-Identifier: Apache-2.0
#include "cli/inspect_plan.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "base/count_of.h"
#include "bench/plan_times.h"
#include "bench/table.h"
#include "cli/json_text.h"
#include "cli/terminal.h"
#include "plan/describe.h"
#include "plan/file.h"
#include "plan/work.h"
#include "runtime/partitions.h"

namespace temper::cli {

namespace {

constexpr std::string_view kNoPlan = "no plan for ";  // begins the notes of sides that have none

std::string shapes_of(const std::vector<PortInfo>& ports) {
  std::string out;
  for (const PortInfo& port : ports) out += concat(out.empty() ? "" : ", ", port.name, ": ", port.type);
  return out;
}

std::string ms_text(double ms) { return ms <= 0 ? "n/a" : format_number(ms); }

std::string segments_text(const Plan& plan) {
  std::string out;
  for (const Segment& segment : plan.segments) {
    out += concat(out.empty() ? "" : " + ", count_of(segment.steps.size(), "step"));
    if (segment.slices > 1)
      out += concat(" on ", segment.slices, segment.parallel ? " slices side by side" : " slices");
  }
  return out.empty() ? "no steps" : out;
}

// Steps that have no kernel, each once: plans of other shapes have the same.
void print_reference_steps(const PlanFile& file) {
  if (file.info.device == "reference") return;
  std::set<std::string> shown;
  for (const auto& plan : file.plans)
    for (const Segment& segment : plan->segments)
      for (const PlanStep& step : segment.steps)
        if (step.tactic == "reference" && shown.insert(step.node).second)
          print_line("reference", concat(step.node, " (", op_of(step), ") runs on the slow scalar reference",
                                         step.ms >= 0 ? concat(", ", format_number(step.ms), " ms") : "", "; --why ",
                                         step.node, " says why the kernels refused"));
}

void print_summary(const std::string& path, const PlanFile& file) {
  const EngineInfo& info = file.info;
  const auto& line = print_line;
  line("plan", concat(path, ", ", format_bytes(double(file.file_bytes)), ", by temper ", info.version, " (",
                      info.revision, ")"));
  line("model", concat(info.model_name, info.source_path.empty() ? "" : concat(" from ", info.source_path),
                       info.producer.empty() ? "" : concat(", made by ", info.producer)));
  line("sha256", info.model_sha256);
  line("device", concat(info.device, ", ", count_of(file.threads, "thread"), ": ", info.fingerprint));
  line("precision", concat(info.precision,
                           info.precision == "fp32" ? ""
                                                    : concat(": ", info.lowered_products, " of ", info.products,
                                                             " convolutions and products"),
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
    line("shapes", concat(shapes_of(plan->inputs), ": ", segments_text(*plan), ", arena ",
                          format_bytes(double(plan->arena_bytes())), "; ", whole_text(plan->whole),
                          "; steps: ", steps_text(*plan)));
  print_reference_steps(file);
  line("constants",
       concat(format_bytes(double(file.constant_bytes)),
              file.graph ? concat(", and ", format_bytes(double(file.graph_bytes)), " to plan other shapes") : ""));
  if (!file.timings.empty()) line("times", concat(file.timings.size(), " measured, for plans of other shapes"));
  line("built", concat("in ", format_number(info.build_s), " s by: ", info.command));
  for (const std::string& note : info.notes) line("note", note);
  if (!file.refusal.empty()) line("runs here", concat("no: ", file.refusal));
}

// The configuration, with the order of the walk where it is the other one, with the threads where they are not all, and
// of a concat with what it need not copy.
std::string configuration_of(const Plan& plan, const Segment& segment, const PlanStep& step) {
  std::string out = step.config.text;
  if (step.backwards) out += out.empty() ? "backwards" : ", backwards";
  const int threads = step.problem.threads;
  if (!segment.parallel && threads < plan.threads)
    out += concat(out.empty() ? "on " : " on ", threads, threads == 1 ? " thread" : " threads");
  const std::vector<std::string> writers = written_in_place(plan, step);
  for (const std::string& writer : writers)
    out += concat(&writer == writers.data() ? (out.empty() ? "written in place by " : ", written in place by ") : ", ",
                  writer);
  if (!writers.empty() && writers.size() < step.inputs.size())
    out += concat("; copies ", step.inputs.size() - writers.size(), " of ", step.inputs.size());
  return out;
}

// Of a model in partitions the file holds no plan: they are made here, on the machine that it is for, for the shapes
// that it is tuned for. What leads to each is given beside it.
std::vector<std::string> add_partitions(PlanFile& file, const std::string& path) {
  std::vector<std::string> where(file.plans.size());
  if (!file.plans.empty() || !file.graph || !file.refusal.empty()) return where;
  const auto engine = std::make_shared<const Engine>(read_plan_file(path, {.candidates = true}));
  std::vector<Dims> shapes;
  for (const PortInfo& port : file.inputs) {
    const auto range = file.info.shapes.find(port.name);
    shapes.push_back(range == file.info.shapes.end() ? port.type.dims() : range->second.opt);
  }
  for (Partition& partition : Session(engine).partitions(shapes)) {
    if (!partition.plan) {
      file.info.notes.push_back(concat(kNoPlan, partition.where, ": ", partition.refusal));
      continue;
    }
    file.plans.push_back(std::move(partition.plan));
    std::string text = partition.where.empty() ? "first" : partition.where;
    for (const Partition::Between& node : partition.between) text += concat("; then ", node.op, " '", node.node, "'");
    if (partition.is_open) text += "; what follows has shapes that only data decide: temper profile runs it";
    where.push_back(std::move(text));
  }
  return where;
}

void print_layers(const PlanFile& file, const std::vector<std::string>& where) {
  for (size_t p = 0; p < file.plans.size(); ++p) {
    const auto& plan = file.plans[p];
    print_text(concat(shapes_of(plan->inputs), where[p].empty() ? "" : concat(": ", where[p])), 2,
               p == 0 ? "plan for " : "\nplan for ");
    Table table{{{"node", false, 9},
                 {"op", false, 7},
                 {"output", false, 5},
                 {"tactic", false, 8},
                 {"ms", true, 9},
                 {"configuration", false, 4},
                 {"layouts", false, 3},
                 {"bytes", true, 2},
                 {"segment", false, 1}},
                {}};
    for (size_t s = 0; s < plan->segments.size(); ++s) {
      const Segment& segment = plan->segments[s];
      const std::string name =
          segment.slices == 1 ? concat(s) : concat(s, segment.parallel ? " =" : " x", segment.slices);
      for (const PlanStep& step : segment.steps)
        table.rows.push_back({step.node, op_of(step), step.problem.outputs[0].type.text(), step.tactic,
                              step.ms == 0 ? "0" : ms_text(step.ms), configuration_of(*plan, segment, step),
                              layouts_of(step.config), format_bytes(double(bytes_of(*plan, segment, step))), name});
    }
    print_table(table);
  }
  for (const std::string& note : file.info.notes)
    if (note.starts_with(kNoPlan)) std::printf("\n%s\n", in_short_words(note).c_str());
}

void print_why(const PlanFile& file, const std::string& node) {
  for (const auto& [plan_of_step, step_found] : steps_named(file, node)) {
    const Plan& plan = *plan_of_step;
    const PlanStep& step = *step_found;
    std::printf("%s\n", in_short_words(concat(op_of(step), " '", node, "' for ", shapes_of(plan.inputs))).c_str());
    if (step.is_reorder()) {
      std::printf("  a change of layout that its neighbours need: %s\n", layouts_of(step.config).c_str());
      continue;
    }
    print_text(step.problem.text(), 2);
    Table table{
        {{"", false}, {"tactic", false, 8}, {"configuration", false, 4}, {"ms", true, 9}, {"why not", false, 7, true}},
        {}};
    table.rows.push_back({"chosen", step.tactic,
                          concat(step.config.text, step.config.text.empty() ? "" : " ", layouts_of(step.config)),
                          ms_text(step.ms), ""});
    int64_t others = 0;  // tactics of other ops
    for (const Candidate& c : in_order(step.losers)) {
      if (c.refusal.starts_with("not a ") || c.refusal.starts_with("not an ")) {
        ++others;
        continue;
      }
      // A faster one can lose: what counts is the sum with the changes of layout around it.
      const std::string reason = !c.refusal.empty()               ? c.refusal
                                 : c.ms < 0                       ? "not timed"
                                 : step.ms < 0 || c.ms >= step.ms ? "slower"
                                                                  : "faster alone; its layouts cost more around it";
      table.rows.push_back(
          {c.refusal.empty() ? "lost" : "refused", c.tactic, c.config, c.refusal.empty() ? ms_text(c.ms) : "", reason});
    }
    print_table(table);
    if (others) std::printf("  %lld tactics are for other ops\n", static_cast<long long>(others));
  }
}

}  // namespace

void inspect_plan(const std::string& path, const InspectPlanOptions& options) {
  PlanFile file = read_plan_file(path, {.candidates = !options.why.empty(), .foreign = true});
  if (!file.complete && (options.layers || !options.why.empty()))
    fail(ErrorKind::unsupported, path, ": its steps can only be read by the program that wrote it: ", file.refusal);
  std::vector<std::string> where(file.plans.size());
  if (options.layers || !options.why.empty()) where = add_partitions(file, path);
  if (options.json) {
    auto json = describe(file, {options.layers, options.graph, options.why});
    for (size_t p = 0; p < where.size(); ++p)
      if (!where[p].empty()) json["plans"][p]["where"] = where[p];
    print_json(json);
    return;
  }
  if (options.graph) std::fputs(file.graph_text.c_str(), stdout);
  if (options.layers) print_layers(file, where);
  if (!options.why.empty()) print_why(file, options.why);
  if (!options.graph && !options.layers && options.why.empty()) print_summary(path, file);
}

}  // namespace temper::cli
