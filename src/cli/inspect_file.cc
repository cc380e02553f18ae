// SPDX-License-Identifier: Apache-2.0
#include "cli/inspect_file.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/count_of.h"
#include "base/file.h"
#include "base/strict_json.h"
#include "bench/table.h"
#include "cli/json_text.h"
#include "cli/terminal.h"
#include "data/npy.h"
#include "quantize/cache.h"
#include "report/report.h"
#include "tune/cache.h"

namespace temper::cli {

namespace {

using Json = nlohmann::ordered_json;

// The same facts for people and for programs.
struct Facts {
  std::vector<std::pair<const char*, std::string>> lines;
  std::vector<Table> tables;
  Json json = Json::object();
};

constexpr size_t kShown = 5;  // of what is sorted by what matters

std::string day_of(int64_t when) {
  const std::time_t time = when;
  std::tm parts{};
  char text[32] = "";
  if (gmtime_r(&time, &parts)) std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

Facts of_ranges(const std::string& path) {
  const Ranges ranges = load_ranges(path);
  Facts facts;
  facts.lines = {{"model", concat("sha256 ", ranges.model_sha256)},
                 {"method", concat(ranges.method, ", observed in ", ranges.precision)},
                 {"samples", concat(ranges.samples, ranges.placeholder ? " of noise: meaningless for accuracy" : "",
                                    ", seed ", ranges.seed)},
                 {"tensors", concat(ranges.values.size())}};
  for (const std::string& note : ranges.notes) facts.lines.emplace_back("note", note);
  std::vector<std::pair<std::string, const TensorRange*>> clipped;
  int64_t unusable = 0;
  for (const auto& [name, range] : ranges.values) {
    if (range.clipped_share > 0) clipped.emplace_back(name, &range);
    unusable += !range.is_usable();
  }
  if (unusable) facts.lines.emplace_back("unusable", concat(unusable, " scales are zero, negative or not finite"));
  std::stable_sort(clipped.begin(), clipped.end(),
                   [](const auto& a, const auto& b) { return a.second->clipped_share > b.second->clipped_share; });
  Table table{{{"most clipped", false}, {"min"}, {"max"}, {"scale"}, {"method", false}, {"clipped"}}, {}};
  for (size_t i = 0; i < clipped.size() && i < kShown; ++i) {
    const TensorRange& range = *clipped[i].second;
    table.rows.push_back({clipped[i].first, format_number(range.min), format_number(range.max),
                          format_number(range.scale), range.method, percent(range.clipped_share)});
  }
  if (!table.rows.empty()) facts.tables.push_back(std::move(table));
  facts.json = {
      {"model_sha256", ranges.model_sha256}, {"method", ranges.method},     {"precision", ranges.precision},
      {"samples", ranges.samples},           {"seed", ranges.seed},         {"placeholder", ranges.placeholder},
      {"tensors", ranges.values.size()},     {"unusable_scales", unusable}, {"notes", ranges.notes}};
  return facts;
}

Facts of_timings(const std::string& path) {
  const TimingCache cache = with_context([&] { return path; }, [&] { return TimingCache::of_text(read_file(path)); });
  int64_t suspect = 0, first = 0, last = 0;
  for (const auto& [key, entry] : cache.entries()) {
    suspect += entry.suspect();
    if (!entry.when) continue;
    first = first ? std::min(first, entry.when) : entry.when;
    last = std::max(last, entry.when);
  }
  Facts facts;
  facts.lines = {{"times", concat(cache.size(), " of candidates alone, ", cache.in_plans.all().size(),
                                  " of candidates within plans")},
                 {"decisions", concat(cache.decisions.all().size(), " of problems in graphs")},
                 {"peaks", concat(cache.peaks.all().size(), " limits of machines")}};
  if (last)
    facts.lines.emplace_back(
        "taken", day_of(first) == day_of(last) ? day_of(first) : concat("from ", day_of(first), " to ", day_of(last)));
  if (suspect)
    facts.lines.emplace_back("suspect", concat(suspect,
                                               " were taken while other processes worked; builds on a quiet machine "
                                               "take them again"));
  facts.json = {{"times", cache.size()},
                {"times_in_plans", cache.in_plans.all().size()},
                {"decisions", cache.decisions.all().size()},
                {"peaks", cache.peaks.all().size()},
                {"suspect", suspect},
                {"first_day", first ? Json(day_of(first)) : Json(nullptr)},
                {"last_day", last ? Json(day_of(last)) : Json(nullptr)}};
  return facts;
}

Facts of_calibration_cache(const std::string& path) {
  std::vector<std::string> notes;
  const CalibrationCache cache = load_cache(path, &notes);
  Facts facts;
  facts.lines = {{"header", cache.header}, {"tensors", concat(cache.entries.size())}};
  for (const std::string& note : notes) facts.lines.emplace_back("note", note);
  facts.lines.emplace_back("next", "temper calibrate MODEL.onnx --lint FILE holds it against a model");
  facts.json = {{"header", cache.header}, {"tensors", cache.entries.size()}, {"notes", notes}};
  return facts;
}

Facts of_result(const ReportedResult& result) {
  const Environment& environment = result.result.environment;
  Facts facts;
  facts.lines = {
      {"taken", concat(environment.time, " by temper ", environment.version, " (", environment.revision, ")")},
      {"machine",
       concat(environment.cpu_model, ", ", environment.allowed_cores, " of ", environment.logical_cores, " cores")}};
  facts.tables.push_back(summary_of(result.result.runs));
  facts.json = {{"time", environment.time}, {"cpu", environment.cpu_model}, {"runs", Json::array()}};
  for (const BenchRun& run : result.result.runs)
    facts.json["runs"].push_back({{"model", run.model},
                                  {"device", run.device},
                                  {"median_ms", run.latency.median ? Json(*run.latency.median) : Json(nullptr)}});
  return facts;
}

Facts of_profile(const ReportedProfile& profile) {
  Facts facts;
  facts.lines = {{"plan", profile.plan},
                 {"device", concat(profile.device, ", ", profile.threads, profile.threads == 1 ? " thread" : " threads",
                                   ", ", profile.precision)},
                 {"time", concat(format_number(profile.run_ms), " ms a run; steps ", format_number(profile.steps_ms),
                                 " ms in all, ", profile.runs, " runs")}};
  std::vector<const ProfileRow*> rows;
  for (const ProfileRow& row : profile.rows) rows.push_back(&row);
  std::stable_sort(rows.begin(), rows.end(), [](const auto* a, const auto* b) { return a->ms > b->ms; });
  Table table{{{"longest steps", false}, {"op", false}, {"ms"}, {"share"}, {"tactic", false}}, {}};
  for (size_t i = 0; i < rows.size() && i < kShown; ++i)
    table.rows.push_back(
        {rows[i]->node, rows[i]->op, format_number(rows[i]->ms), percent(rows[i]->share), rows[i]->tactic});
  if (!table.rows.empty()) facts.tables.push_back(std::move(table));
  facts.json = {{"plan", profile.plan},         {"device", profile.device},    {"precision", profile.precision},
                {"threads", profile.threads},   {"runs", profile.runs},        {"run_ms", profile.run_ms},
                {"steps_ms", profile.steps_ms}, {"steps", profile.rows.size()}};
  return facts;
}

Facts of_explanation(const ReportedExplanation& explanation) {
  Facts facts;
  facts.json = {{"engines", Json::array()}};
  for (const ExplainedEngine& engine : explanation.engines) {
    facts.lines.emplace_back("engine",
                             concat(engine.name, engine.asked.empty() ? "" : concat(", asked for ", engine.asked)));
    facts.lines.emplace_back("", engine.answer);
    for (size_t i = 0; i < engine.findings.size() && i < kShown; ++i)
      facts.lines.emplace_back("finding", engine.findings[i].what);
    facts.json["engines"].push_back(
        {{"name", engine.name}, {"answer", engine.answer}, {"findings", engine.findings.size()}});
  }
  return facts;
}

Facts of_study(const ReportedStudy& study) {
  Facts facts;
  facts.lines = {{"model", study.model},
                 {"data", concat(study.data, "; calibrated on ", count_of(study.calibration_samples, "sample"),
                                 ", evaluated on ", study.evaluation_samples)}};
  Table table{{{"precision", false}, {"latency"}, {"items/s"}, {"beside fp32", false}, {study.metric}, {"drop"}}, {}};
  facts.json = {{"model", study.model}, {"data", study.data}, {"precisions", Json::array()}};
  for (const StudyRow& row : study.rows) {
    table.rows.push_back({row.precision, format_number(row.latency_ms) + " ms", format_number(row.throughput_per_s),
                          row.ratio ? concat(format_number(*row.ratio), "x ", row.verdict) : "",
                          row.top1 ? percent(row.top1->rate) : "n/a", row.drop ? percent(*row.drop) : "n/a"});
    facts.json["precisions"].push_back({{"precision", row.precision}, {"latency_ms", row.latency_ms}});
  }
  for (const std::string& note : study.notes) facts.lines.emplace_back("note", note);
  facts.tables.push_back(std::move(table));
  return facts;
}

Facts of_step(const std::string& path) {
  const strict::Json step = strict::parse(read_file(path), path);
  Facts facts;
  facts.lines = {{"holds", "what an interrupted study goes on from; study.json beside it has the outcome"}};
  facts.json = {{"schema", step.contains("schema") ? Json(step["schema"]) : Json(nullptr)}};
  return facts;
}

Facts of_graph(const std::string& path) {
  const Graph graph = with_context([&] { return path; }, [&] { return parse_graph(read_file(path)); });
  std::map<std::string, int64_t> ops;
  for (int32_t i = 0; i < graph.node_count(); ++i) ++ops[std::string(name_of(graph.node(NodeId{i}).op))];
  Facts facts;
  facts.lines = {{"graph", graph.name}};
  std::string text;
  int64_t nodes = 0;
  for (const auto& [op, count] : ops) {
    text += concat(text.empty() ? "" : ", ", count, " ", op);
    nodes += count;
  }
  facts.lines.emplace_back("nodes", concat(nodes, ": ", text));
  facts.json = {{"name", graph.name}, {"nodes", nodes}, {"ops", ops}};
  return facts;
}

Facts of_npy(const std::string& path) {
  const Tensor tensor = read_npy(path);
  const std::string type = TensorType{tensor.dtype(), {tensor.dims().begin(), tensor.dims().end()}}.text();
  return {{{"holds", type}}, {}, {{"type", type}}};
}

Facts facts_of(const std::string& path, FileKind kind) {
  const auto first = [&]<class T>(std::vector<T> Report::* list, Facts (*of)(const T&)) {
    const Report report = read_report({path});
    if ((report.*list).empty()) fail(ErrorKind::bad_file, path, ": it is empty");
    return of((report.*list)[0]);
  };
  switch (kind) {
    case FileKind::ranges: return of_ranges(path);
    case FileKind::timings: return of_timings(path);
    case FileKind::calibration_cache: return of_calibration_cache(path);
    case FileKind::result: return first(&Report::results, of_result);
    case FileKind::profile: return first(&Report::profiles, of_profile);
    case FileKind::explanation: return first(&Report::explanations, of_explanation);
    case FileKind::study: return first(&Report::studies, of_study);
    case FileKind::step: return of_step(path);
    case FileKind::graph: return of_graph(path);
    case FileKind::npy: return of_npy(path);
    default: return {};  // the kind says it all
  }
}

}  // namespace

bool knows_kind(FileKind kind) {
  switch (kind) {
    case FileKind::other:
    case FileKind::nothing:
    case FileKind::onnx:
    case FileKind::our_onnx:
    case FileKind::plan: return false;
    default: return true;
  }
}

void inspect_file(const std::string& path, FileKind kind, bool json) {
  const Facts facts = facts_of(path, kind);
  const auto bytes = int64_t(read_file(path).size());
  if (json) {
    Json out{{"schema", "temper.file/1"}, {"file", path}, {"kind", words_of(kind)}, {"bytes", bytes}};
    out.update(facts.json);
    print_json(out);
    return;
  }
  print_line("file", concat(path, ", ", words_of(kind), ", ", format_bytes(double(bytes))));
  for (const auto& [name, text] : facts.lines) print_line(name, text);
  for (const Table& table : facts.tables) print_table(table);
}

}  // namespace temper::cli
