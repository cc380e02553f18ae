// SPDX-License-Identifier: Apache-2.0
#include "bench/gate.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/quote.h"
#include "bench/side_by_side.h"

namespace temper {

namespace {

using Json = nlohmann::ordered_json;

std::string signed_percent(double share) { return concat(share >= 0 ? "+" : "", percent(share)); }

std::string interval_text(const GatedRun& run) {
  const auto& interval = run.gate.interval;
  return interval ? concat(signed_percent(interval->low), " to ", signed_percent(interval->high)) : "n/a";
}

bool fails(const GatedRun& run, bool strict) {
  return run.gate.verdict == GateVerdict::fail || (strict && run.gate.verdict == GateVerdict::unsure);
}

std::string missing_text(const GatedResult& gated) {
  return concat(gated.missing, " of the baseline's runs ", gated.missing == 1 ? "has" : "have",
                " no run in the result to be held against");
}

// Names of files and models may hold anything; what XML 1.0 has no form for becomes '?'.
std::string xml_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') out += "&amp;";
    else if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '"') out += "&quot;";
    else if (static_cast<unsigned char>(c) < 0x20) out += c == '\n' || c == '\t' ? c : '?';
    else out += c;
  }
  return out;
}

// GitHub and Azure end a command at the line, and a property at these signs.
std::string escaped(std::string_view text, bool property) {
  std::string out;
  for (const char c : text) {
    if (c == '%') out += "%25";
    else if (c == '\r') out += "%0D";
    else if (c == '\n') out += "%0A";
    else if (property && c == ':') out += "%3A";
    else if (property && c == ',') out += "%2C";
    else if (property && c == ';') out += "%3B";
    else if (property && c == ']') out += "%5D";
    else out += c;
  }
  return out;
}

}  // namespace

bool GatedResult::failed() const {
  return std::any_of(runs.begin(), runs.end(), [&](const GatedRun& run) { return fails(run, strict); }) ||
         (strict && missing);
}

GatedResult gate_results(const std::string& baseline_name, const BenchResult& baseline, const std::string& result_name,
                         const BenchResult& result, const GateOptions& options) {
  GatedResult gated{baseline_name, result_name, options.max_slowdown, {}, 0, options.strict};
  for (const auto& [i, j] : matching_runs(baseline, result)) {
    const BenchRun &a = baseline.runs[i], &b = result.runs[j];
    Differences differences = differences_of({&a, &baseline.environment}, {&b, &result.environment});
    if (a.precision != b.precision)
      differences.refusals.push_back(
          concat("precision: ", a.precision.value_or("unknown"), " and ", b.precision.value_or("unknown")));
    GatedRun run{label_of(b), 0,  0,
                 {},          {}, refuse_unlike(differences.refusals, baseline_name, result_name, options.force)};
    for (const std::string& warning : differences.warnings) log(LogLevel::warning, run.label, ": ", warning);
    run.gate = gate_of(compare_runs(a, b), options.max_slowdown);  // refuses runs without a median
    run.baseline_ms = *a.latency.median;
    run.result_ms = *b.latency.median;
    if (run.gate.samples_factor)
      run.samples_needed = std::ceil(*run.gate.samples_factor * double(b.samples.value_or(0)));
    if (run.gate.verdict == GateVerdict::unsure)
      log(LogLevel::warning, run.label, ": UNSURE, ", run.gate.why,
          !run.samples_needed ? ""
          : *run.gate.samples_factor > 1000
              ? "; no number of samples would decide, it is where the slowdown lies"
              : concat("; about ", int64_t(*run.samples_needed), " samples would decide"));
    gated.runs.push_back(std::move(run));
  }
  gated.missing = baseline.runs.size() - gated.runs.size();
  if (gated.missing) log(LogLevel::warning, missing_text(gated));
  return gated;
}

std::string sentence_of(const GatedRun& run) {
  return concat(signed_percent(run.gate.slowdown), " (", interval_text(run), "), ", format_number(run.result_ms),
                " ms after ", format_number(run.baseline_ms), " ms: ", name_of(run.gate.verdict),
                run.gate.why.empty() ? "" : ", ", run.gate.why);
}

Table table_of(const GatedResult& gated) {
  Table table{{{"run", false}, {"baseline"}, {"result"}, {"slowdown"}, {"99 % interval"}, {"gate", false}}, {}};
  for (const GatedRun& run : gated.runs)
    table.rows.push_back(
        {run.label, format_number(run.baseline_ms) + " ms", format_number(run.result_ms) + " ms",
         signed_percent(run.gate.slowdown), interval_text(run),
         concat(name_of(run.gate.verdict), run.forced.empty() ? "" : concat(" [forced; ", run.forced, "]"))});
  return table;
}

Json json_of(const GatedResult& gated) {
  Json runs = Json::array();
  for (const GatedRun& run : gated.runs)
    runs.push_back({{"run", run.label},
                    {"baseline_ms", run.baseline_ms},
                    {"result_ms", run.result_ms},
                    {"slowdown", run.gate.slowdown},
                    {"ci99", run.gate.interval ? Json{run.gate.interval->low, run.gate.interval->high} : Json(nullptr)},
                    {"gate", name_of(run.gate.verdict)},
                    {"why", run.gate.why},
                    {"samples_needed", run.samples_needed ? Json(*run.samples_needed) : Json(nullptr)},
                    {"forced", run.forced.empty() ? Json(nullptr) : Json(run.forced)}});
  return {{"schema", "temper.gate/1"},
          {"baseline", gated.baseline},
          {"result", gated.result},
          {"max_slowdown", gated.max_slowdown},
          {"missing", gated.missing},
          {"failed", gated.failed()},
          {"runs", runs}};
}

std::string junit_of(const std::vector<GatedResult>& gated) {
  std::string tests;
  size_t count = 0, failures = 0, skipped = 0;
  const auto test = [&](const std::string& suite, const std::string& name, double ms, const char* outcome,
                        const std::string& text) {
    ++count;
    tests +=
        concat("  <testcase classname=\"", xml_text(suite), "\" name=\"", xml_text(name), "\" time=\"", ms / 1e3, '"');
    const std::string_view element = outcome;
    failures += element == "failure";
    skipped += element == "skipped";
    if (element.empty()) tests += concat(">\n    <system-out>", xml_text(text), "</system-out>\n  </testcase>\n");
    else tests += concat(">\n    <", element, " message=\"", xml_text(text), "\"/>\n  </testcase>\n");
  };
  for (const GatedResult& one : gated) {
    for (const GatedRun& run : one.runs)
      test(one.result, run.label, run.result_ms,
           fails(run, one.strict)                    ? "failure"
           : run.gate.verdict == GateVerdict::unsure ? "skipped"
                                                     : "",
           sentence_of(run));
    if (one.missing) test(one.result, "runs of the baseline", 0, one.strict ? "failure" : "skipped", missing_text(one));
  }
  return concat("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"temper gate\" tests=\"", count,
                "\" failures=\"", failures, "\" errors=\"0\" skipped=\"", skipped, "\">\n", tests, "</testsuite>\n");
}

std::string annotations_of(const GatedResult& gated, AnnotationStyle style) {
  std::string lines;
  const auto line = [&](bool error, const std::string& title, const std::string& text) {
    if (style == AnnotationStyle::github)
      lines += concat(error ? "::error" : "::warning", " title=", escaped(concat("temper gate: ", title), true),
                      "::", escaped(text, false), '\n');
    else
      lines += concat("##vso[task.logissue type=", error ? "error" : "warning", ']',
                      escaped(concat("temper gate: ", title, ": ", text), false), '\n');
  };
  for (const GatedRun& run : gated.runs)
    if (run.gate.verdict != GateVerdict::pass) line(fails(run, gated.strict), run.label, sentence_of(run));
  if (gated.missing) line(gated.strict, gated.result, missing_text(gated));
  return lines;
}

}  // namespace temper
