// SPDX-License-Identifier: Apache-2.0
// temper profile: times a plan step by step and shows how far each is from the limits of the machine.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/log.h"
#include "bench/bench_engine.h"
#include "bench/table.h"
#include "cli/json_text.h"
#include "cli/outputs.h"
#include "cli/profile_flags.h"

namespace temper::cli {

namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string path, csv;
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

Table steps_table(const Profile& profile, const std::vector<const StepProfile*>& rows) {
  Table table{{{"step", false},
               {"op", false},
               {"ms"},
               {"share"},
               {"bytes"},
               {"Gop/s"},
               {"GB/s"},
               {"of the limit", false},
               {"precision", false},
               {"tactic", false},
               {"next best", false}},
              {}};
  for (const StepProfile* row : rows) {
    const PlanStep& step = *row->step;
    const Segment& segment = profile.plan->segments[row->segment];
    const std::string slices = segment.slices == 1 ? "" : concat(segment.parallel ? " =" : " x", segment.slices);
    const bool timed = row->ms > 0;
    table.rows.push_back(
        {step.node + slices, op_of(step), format_number(row->ms), share_text(row->share),
         format_bytes(double(row->bytes)),
         timed && row->operations && *row->operations ? format_number(double(*row->operations) / row->ms / 1e6) : "",
         timed ? format_number(double(row->bytes) / row->ms / 1e6) : "", limit_text(*row),
         row->from == row->to ? concat(row->to) : concat(row->from, " -> ", row->to),
         concat(step.tactic, step.config.text.empty() || step.is_reorder() ? "" : " ",
                step.is_reorder() ? "" : step.config.text, fewer_threads(*profile.plan, segment, step)),
         runner_up_text(step)});
  }
  return table;
}

void profile(const Options& options, const Context& context) {
  if (!is_plan(options.path))
    fail(ErrorKind::usage, "'", options.path, "' is no plan; build one first: temper build ", options.path, " -o PLAN");
  const Output csv{options.csv, FileKind::csv, options.force, "--csv"};
  check_files({{options.path}, {}, {csv, {options.flags.timing_cache, FileKind::timings, false, "--timing-cache"}}});
  const ProfiledPlan plan = [&] {
    ProgressLine progress(context);
    return profile_plan(options.path, options.flags.settings(progress));
  }();
  const Profile& measured = plan.profile;
  const Peaks& peaks = plan.peaks;
  std::vector<const StepProfile*> rows;
  for (const StepProfile& row : measured.steps) rows.push_back(&row);
  if (!options.csv.empty()) write_file_atomically(csv, csv_table(steps_table(measured, rows)));
  if (context.json) {
    std::fputs(json_text(json_of(plan)).c_str(), stdout);
    return;
  }
  if (options.by_time || options.top)
    std::stable_sort(rows.begin(), rows.end(),
                     [](const StepProfile* a, const StepProfile* b) { return a->ms > b->ms; });
  if (options.top && size_t(options.top) < rows.size()) rows.resize(size_t(options.top));
  std::fputs(terminal_table(steps_table(measured, rows)).c_str(), stdout);
  // A step's time has the waking and the joining of its threads in it.
  const double between = measured.run_ms - measured.steps_ms;
  std::printf(
      "%zu steps, batch %lld, %d threads: %s ms a run, %s ms in the steps when they are timed one by one (%d runs of "
      "each)%s\n",
      measured.steps.size(), static_cast<long long>(batch_of(plan.shapes)), plan.engine->threads(),
      format_number(measured.run_ms).c_str(), format_number(measured.steps_ms).c_str(), measured.runs,
      between > 0 ? concat(", ", format_number(between), " ms between the steps and around them").c_str() : "");
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
    std::printf("limits, measured on %s: memory %s GB/s%s%s%s%s%s\n", where.c_str(),
                format_number(peaks.bytes_per_s / 1e9).c_str(), rate("fp32", peaks.f32_per_s).c_str(),
                rate("fp16", peaks.f16_per_s).c_str(), rate("bf16", peaks.bf16_per_s).c_str(),
                rate("int8", peaks.i8_per_s).c_str(), above.c_str());
  }
}

}  // namespace

void add_profile(Command& verb, Context& context) {
  auto options = std::make_shared<Options>();
  verb.add_option("plan", options->path, "a plan file").required();
  options->flags.add_to(verb);
  verb.add_option("--top", options->top, "number of steps to print, those that take longest; by default all steps")
      .check(whole_number(1));
  verb.add_flag("--by-time", options->by_time, "print the longest steps first, not in the order in which they run");
  verb.add_option("--csv", options->csv, "CSV file to save the table to");
  add_force_flag(verb, options->force);
  verb.callback([options, &context] { profile(*options, context); });
}

}  // namespace temper::cli
