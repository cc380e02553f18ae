// SPDX-License-Identifier: Apache-2.0
// temper profile: times a plan step by step and shows how far each is from the limits of the machine.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/count_of.h"
#include "base/file.h"
#include "base/log.h"
#include "bench/bench_engine.h"
#include "bench/table.h"
#include "bench/trace.h"
#include "cli/data_flags.h"
#include "cli/json_text.h"
#include "cli/outputs.h"
#include "cli/profile_flags.h"
#include "cli/terminal.h"

namespace temper::cli {

namespace {

using Json = nlohmann::ordered_json;

struct ProfilerFlags {
  std::string path, csv, trace;
  ProfileFlags flags;
  int top = 0;
  bool by_time = false, force = false;
};

std::string share_text(double share) { return share <= 0 ? "n/a" : concat(format_number(100 * share, 3), " %"); }

// The limit that bounds the step: the nearer of the two.
std::string limit_text(const StepProfile& row) {
  if (row.of_arithmetic <= 0 && row.of_memory <= 0) return "n/a";
  return row.of_arithmetic >= row.of_memory ? concat("arithmetic ", share_text(row.of_arithmetic))
                                            : concat("memory ", share_text(row.of_memory));
}

std::string runner_up_text(const PlanStep& step) {
  const Candidate* other = runner_up(step);
  if (!other || step.ms <= 0) return "";
  const double more = other->ms / step.ms - 1;
  return concat(other->tactic == step.tactic ? "" : concat(other->tactic, other->config.empty() ? "" : " "),
                other->config, more >= 0 ? " +" : " ", format_number(100 * more, 3), " %");
}

std::string fewer_threads(const Plan& plan, const Segment& segment, const PlanStep& step) {
  const int threads = step.problem.threads;
  return segment.parallel || threads == plan.threads ? ""
                                                     : concat(" on ", threads, threads == 1 ? " thread" : " threads");
}

// What a model in partitions computes between its plans, in the form of its steps.
Table between_table(const Profile& profile) {
  Table table{{{"in", false}, {"between plans", false}, {"op", false}, {"ms"}, {"share"}}, {}};
  for (const Partition& partition : profile.partitions)
    for (const Partition::Between& node : partition.between)
      table.rows.push_back({partition.where, node.node, node.op, format_number(node.ms),
                            share_text(profile.steps_ms > 0 ? node.ms / profile.steps_ms : 0)});
  return table;
}

Table steps_table(const Profile& profile, const std::vector<const StepProfile*>& rows) {
  Table table{{{"step", false},
               {"op", false},
               {"ms", true, 9},
               {"share", true, 8},
               {"bytes", true, 2},
               {"Gop/s", true, 3},
               {"GB/s", true, 3},
               {"of the limit", false, 7},
               {"precision", false, 4},
               {"tactic", false, 6},
               {"next best", false, 1}},
              {}};
  for (const StepProfile* row : rows) {
    const PlanStep& step = *row->step;
    const Segment& segment = row->plan->segments[row->segment];
    const std::string slices = segment.slices == 1 ? "" : concat(segment.parallel ? " =" : " x", segment.slices);
    const bool timed = row->ms > 0;
    table.rows.push_back({step.node + slices, op_of(step), format_number(row->ms), share_text(row->share),
                          format_bytes(double(row->bytes)),
                          timed && row->operations && *row->operations
                              ? format_number(double(*row->operations) * row->calls / row->ms / 1e6)
                              : "",
                          timed ? format_number(double(row->bytes) * row->calls / row->ms / 1e6) : "", limit_text(*row),
                          row->from == row->to ? concat(row->to) : concat(row->from, " -> ", row->to),
                          concat(step.tactic, step.config.text.empty() || step.is_reorder() ? "" : " ",
                                 step.is_reorder() ? "" : step.config.text, fewer_threads(*row->plan, segment, step)),
                          runner_up_text(step)});
    if (profile.plan) continue;
    table.rows.back().insert(table.rows.back().begin(), row->where);
    table.rows.back().push_back(format_number(row->calls));
  }
  if (!profile.plan) {  // in partitions, of which loops run some many times
    table.columns.insert(table.columns.begin(), Table::Column{"in", false});
    table.columns.push_back(Table::Column{"calls"});
  }
  return table;
}

void profile(const ProfilerFlags& options, const Context& context) {
  const Output csv{options.csv, FileKind::csv, options.force, "--csv"},
      trace{options.trace, FileKind::profile, options.force, "--trace"};
  check_files({{options.path},
               input_paths(options.flags.inputs),
               {csv, trace, {options.flags.timing_cache, FileKind::timings, false, "--timing-cache"}}});
  const ProfiledPlan plan = [&] {
    ProgressLine progress(context);
    const ProfileSettings settings = options.flags.settings(progress);
    if (is_plan(options.path)) return profile_plan(options.path, settings);
    // A model is built on the spot, for the batch that is asked for; its inputs may have no plan to be held against.
    const ModelFlags flags;
    auto engine = build_for_batch(options.path, settings.batch, flags, context, settings.inputs);
    const GivenInputs given = with_context([&] { return options.path; },
                                           [&] { return read_given(settings.inputs, *engine, settings.batch); });
    return profile_loaded(std::move(engine), options.path, settings, given);
  }();
  const Profile& measured = plan.profile;
  const Peaks& peaks = plan.peaks;
  std::vector<const StepProfile*> rows;
  for (const StepProfile& row : measured.steps) rows.push_back(&row);
  if (!options.csv.empty()) write_file_atomically(csv, csv_table(steps_table(measured, rows)));
  if (!options.trace.empty()) write_file_atomically(trace, trace_of(plan));
  if (context.json) {
    print_json(json_of(plan));
    return;
  }
  if (options.by_time || options.top)
    std::stable_sort(rows.begin(), rows.end(),
                     [](const StepProfile* a, const StepProfile* b) { return a->ms > b->ms; });
  if (options.top && size_t(options.top) < rows.size()) rows.resize(size_t(options.top));
  print_table(steps_table(measured, rows));
  if (const Table between = between_table(measured); !between.rows.empty()) print_table(between);
  // A step's time has the waking and the joining of its threads in it.
  const double between = measured.run_ms - measured.steps_ms;
  print_text(concat(count_of(measured.steps.size(), "step"), ", batch ", batch_of(plan.shapes), ", ",
                    count_of(plan.engine->threads(), "thread"), ": ", format_number(measured.run_ms), " ms a run, ",
                    format_number(measured.steps_ms), " ms in the steps when they are timed one by one (",
                    count_of(measured.runs, "run"), " of each)",
                    between > 0 ? concat(", ", format_number(between), " ms between the steps and around them") : ""));
  if (peaks.bytes_per_s > 0) {
    const auto rate = [](const char* name, double value) {
      return value > 0 ? concat(", ", name, ' ', format_number(value / 1e9), " Gop/s") : std::string();
    };
    const std::string where = plan.engine->device().gpu ? "the GPU" : concat(plan.engine->threads(), " threads");
    std::string above;
    const auto any = [&](double StepProfile::* share) {
      return std::any_of(measured.steps.begin(), measured.steps.end(),
                         [&](const StepProfile& row) { return row.*share > 1; });
    };
    if (any(&StepProfile::of_memory)) above += "; above 100 % of memory: read from a cache";
    if (any(&StepProfile::of_arithmetic))
      above += "; above 100 % of arithmetic: Winograd needs fewer operations than are counted";
    print_text(concat("limits, measured on ", where, ": memory ", format_number(peaks.bytes_per_s / 1e9), " GB/s",
                      rate("fp32", peaks.f32_per_s), rate("fp16", peaks.f16_per_s), rate("bf16", peaks.bf16_per_s),
                      rate("int8", peaks.i8_per_s), above));
  }
}

}  // namespace

void add_profile(Command& verb, Context& context) {
  auto options = std::make_shared<ProfilerFlags>();
  verb.add_option(
          "plan", options->path,
          "a plan file, or an ONNX model, which is built first; with options of building, temper build makes the plan")
      .required();
  options->flags.add_to(verb);
  verb.add_option("--top", options->top, "number of steps to print, those that take longest; by default all steps")
      .check(whole_number(1));
  verb.add_flag("--by-time", options->by_time, "print the longest steps first, not in the order in which they run");
  verb.add_option("--csv", options->csv, "CSV file to save the table to");
  verb.add_option("--trace", options->trace,
                  "JSON file to save the steps to as a trace, which ui.perfetto.dev and chrome://tracing show");
  add_force_flag(verb, options->force);
  verb.callback([options, &context] { profile(*options, context); });
}

}  // namespace temper::cli
