// SPDX-License-Identifier: Apache-2.0
// temper gate: fails in CI where a result is slower than its baseline beyond doubt. Fails only where a result is slower
// than its baseline beyond doubt.
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "bench/compare.h"
#include "bench/side_by_side.h"
#include "bench/table.h"
#include "cli/json_text.h"
#include "cli/model.h"

namespace temper::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string baseline, result, max_slowdown = "3%";
  bool strict = false, force = false;
};

std::string signed_percent(double share) { return concat(share >= 0 ? "+" : "", percent(share)); }

void gate(const Options& options, Context& context) {
  const double limit = share_of("--max-slowdown", options.max_slowdown);
  const BenchResult baseline = load_result(options.baseline), result = load_result(options.result);
  Json json{{"schema", "temper.gate/1"},
            {"baseline", options.baseline},
            {"result", options.result},
            {"max_slowdown", limit},
            {"runs", Json::array()}};
  Table table{{{"run", false}, {"baseline"}, {"result"}, {"slowdown"}, {"99 % interval"}, {"gate", false}}, {}};
  bool failed = false, unsure = false;
  for (const auto& [i, j] : matching_runs(baseline, result)) {
    const BenchRun &a = baseline.runs[i], &b = result.runs[j];
    Differences differences = differences_of({&a, &baseline.environment}, {&b, &result.environment});
    if (a.precision != b.precision)
      differences.refusals.push_back(
          concat("precision: ", a.precision.value_or("unknown"), " and ", b.precision.value_or("unknown")));
    const std::string forced = refuse_unlike(differences.refusals, options.baseline, options.result, options.force);
    for (const std::string& warning : differences.warnings) log(LogLevel::warning, label_of(b), ": ", warning);
    const Gate g = gate_of(compare_runs(a, b), limit);
    failed |= g.verdict == GateVerdict::fail;
    unsure |= g.verdict == GateVerdict::unsure;
    if (g.verdict == GateVerdict::unsure)
      log(LogLevel::warning, label_of(b), ": UNSURE, ", g.why,
          !g.samples_factor ? ""
          : *g.samples_factor > 1000
              ? "; no number of samples would decide, it is where the slowdown lies"
              : concat("; about ", int64_t(std::ceil(*g.samples_factor * double(b.samples.value_or(0)))),
                       " samples would decide"));
    table.rows.push_back(
        {label_of(b), format_number(*a.latency.median) + " ms", format_number(*b.latency.median) + " ms",
         signed_percent(g.slowdown),
         g.interval ? concat(signed_percent(g.interval->low), " to ", signed_percent(g.interval->high)) : "n/a",
         concat(name_of(g.verdict), forced.empty() ? "" : concat(" [forced; ", forced, "]"))});
    json["runs"].push_back(
        {{"run", label_of(b)},
         {"baseline_ms", *a.latency.median},
         {"result_ms", *b.latency.median},
         {"slowdown", g.slowdown},
         {"ci99", g.interval ? Json{g.interval->low, g.interval->high} : Json(nullptr)},
         {"gate", name_of(g.verdict)},
         {"why", g.why},
         {"samples_needed",
          g.samples_factor ? Json(std::ceil(*g.samples_factor * double(b.samples.value_or(0)))) : Json(nullptr)},
         {"forced", forced.empty() ? Json(nullptr) : Json(forced)}});
  }
  const size_t left = baseline.runs.size() - table.rows.size();
  if (left)
    log(LogLevel::warning, left, " of ", baseline.runs.size(),
        " runs of the baseline have no run in the result to be held against");
  if (failed || (options.strict && (unsure || left))) context.exit_code = int(ErrorKind::check_failed);
  if (context.json) {
    std::fputs(json_text(json).c_str(), stdout);
    return;
  }
  std::fputs(terminal_table(table).c_str(), stdout);
  std::printf(
      "limit: %s slower than the baseline; FAIL where the whole interval lies beyond it, PASS where none of it does\n",
      options.max_slowdown.c_str());
}

}  // namespace

void add_gate(Command& verb, Context& context) {
  auto options = std::make_shared<Options>();
  verb.add_option("baseline", options->baseline, "the result to compare with (bench --json)").required();
  verb.add_option("result", options->result, "the new result (bench --json)").required();
  verb.add_option(
          "--max-slowdown", options->max_slowdown,
          "slowdown of the median latency that is allowed; exit code 1 if the result is slower than that beyond doubt")
      .capture_default_str();
  verb.add_flag("--strict", options->strict,
                "exit code 1 also if the answer is uncertain, or if a run of the baseline is missing");
  verb.add_flag("--force", options->force,
                "compare runs that differ in device, threads, shapes, model, ..., and mark the verdict");
  verb.callback([options, &context] { gate(*options, context); });
}

}  // namespace temper::cli
