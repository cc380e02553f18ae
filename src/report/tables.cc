// SPDX-License-Identifier: Apache-2.0
// The parts of a report that need no figure: names of runs, the log table, environments, warnings, commands.
#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "report/names.h"
#include "report/report.h"
#include "report/text.h"

namespace temper {
namespace {

std::string versions_of(const RunOf& named) {
  const BenchRun& run = *named.run;
  if (run.imported) return imported_from(run, "n/a (its log does not say)");
  const Environment& e = named.from->result.environment;
  return concat("Temper ", e.version, e.revision.empty() ? "" : concat(" (", e.revision, ")"),
                e.onednn_version.empty() ? "" : concat(", oneDNN ", e.onednn_version));
}

std::string device_of(const RunOf& named) {
  const BenchRun& run = *named.run;
  if (run.imported)
    return run.imported->device_name ? concat(run.device, " (", *run.imported->device_name, ")") : run.device;
  if (run.gpu) {
    const auto mhz = [](const std::optional<double>& clock) { return clock ? whole(*clock) : std::string("n/a"); };
    return concat(run.device, " (", run.gpu->name, ", ", mhz(run.gpu->clock_mhz_median), " of ",
                  mhz(run.gpu->highest_clock_mhz), " MHz)");
  }
  const Environment& e = named.from->result.environment;
  return run.device == "cpu" && !e.cpu_model.empty() ? concat("cpu (", e.cpu_model, ")") : run.device;
}

std::string known(const BenchRun& run, const auto& value, const char* field) {
  if (value) return concat(*value);
  return shown(run, std::nullopt, field);
}

std::string remedied(const Warning& warning) {
  return warning.remedy.empty() ? warning.cause : concat(warning.cause, ". Remedy: ", warning.remedy);
}

std::string memory_of(const BenchRun& run) {
  if (run.peak_device_bytes) return concat(format_bytes(double(*run.peak_device_bytes)), " on the device");
  return shown_bytes(run, run.peak_host_bytes, "peak_host_bytes");
}

}  // namespace

std::vector<std::string> labels_of(const Report& report) {
  std::vector<std::string> labels = names_of(runs_of(report));
  // Still the same name twice: the place tells them apart.
  std::map<std::string, int> count;
  for (const std::string& label : labels) ++count[label];
  for (size_t i = 0; i < labels.size(); ++i)
    if (const std::string before = labels[i]; count.at(before) > 1) labels[i] += concat(" · run ", i + 1);
  return labels;
}

Table log_of(const Report& report) {
  // What people look for comes first.
  Table table{{{"model", false},
               {"precision", false},
               {"batch"},
               {"p50 ms"},
               {"95 % interval"},
               {"throughput items/s"},
               {"remarks", false},
               {"mean ms"},
               {"p90 ms"},
               {"p95 ms"},
               {"p99 ms"},
               {"memory"},
               {"energy per item"},
               {"device", false},
               {"threads"},
               {"workspace"},
               {"warm-up"},
               {"iterations"},
               {"versions", false}},
              {}};
  const std::vector<RunOf> runs = runs_of(report);
  // Alone and back to back goes without saying.
  const bool loads = std::any_of(runs.begin(), runs.end(), [](const RunOf& of) {
    return of.run->streams.value_or(1) > 1 || of.run->load != "closed";
  });
  constexpr int kLoad = 7;  // its column
  const bool energies =
      std::any_of(runs.begin(), runs.end(), [](const RunOf& of) { return joules_per_item(*of.run).has_value(); });
  if (loads) table.columns.insert(table.columns.begin() + kLoad, {"load", false});
  for (const RunOf& named : runs) {
    const BenchRun& run = *named.run;
    const Latency& l = run.latency;
    const std::string mark = mark_of(run);
    table.rows.push_back(
        {file_name_of(run.model), known(run, run.precision, "precision"), known(run, run.batch, "batch"),
         shown(run, l.median, "latency_ms.median"),
         l.median_ci95 ? concat(format_number(l.median_ci95->low), " to ", format_number(l.median_ci95->high))
                       : shown(run, {}, "latency_ms.median_ci95"),
         shown(run, run.throughput_per_s, "throughput_per_s"),
         mark.empty() ? "" : concat(mark, ": not fit for a verdict"), shown(run, l.mean, "latency_ms.mean"),
         shown(run, l.p90, "latency_ms.p90"), shown(run, l.p95, "latency_ms.p95"), shown(run, l.p99, "latency_ms.p99"),
         memory_of(run), energy_text(run), device_of(named), known(run, run.threads, "threads"),
         shown_bytes(run, run.workspace_bytes, "workspace_bytes"), known(run, run.warmup_runs, "warmup_runs"),
         known(run, run.samples, "samples"), versions_of(named)});
    if (loads)
      table.rows.back().insert(table.rows.back().begin() + kLoad,
                               concat(run.load, " loop, ", trait_of(Trait::streams, named),
                                      run.request_rate_per_s ? concat(", ", trait_of(Trait::rate, named)) : ""));
  }
  if (!energies) {  // nobody measured any
    const auto energy = std::find_if(table.columns.begin(), table.columns.end(),
                                     [](const auto& column) { return column.name == "energy per item"; });
    const auto place = energy - table.columns.begin();
    table.columns.erase(energy);
    for (auto& row : table.rows) row.erase(row.begin() + place);
  }
  // Several programs on one model are told apart at once.
  std::set<std::string> programs;
  for (const RunOf& named : runs) programs.insert(trait_of(Trait::program, named));
  if (programs.size() > 1) {
    table.columns.insert(table.columns.begin() + 1, {"program", false});
    for (size_t i = 0; i < runs.size(); ++i)
      table.rows[i].insert(table.rows[i].begin() + 1, trait_of(Trait::program, runs[i]));
  }
  return table;
}

Table environment_of(const Report& report) {
  Table table{{{"", false}}, {}};
  for (const ReportedResult& result : report.results) table.columns.push_back({file_name_of(result.file), false});
  const auto row = [&](const char* name, auto&& value) {
    std::vector<std::string> cells{name};
    bool any = false;
    for (const ReportedResult& result : report.results) {
      const std::string text = value(result.result.environment);
      any = any || !text.empty();
      cells.push_back(text.empty() ? "n/a" : text);
    }
    if (any) table.rows.push_back(cells);
  };
  const auto bytes = [](const std::optional<int64_t>& value) {
    return value ? format_bytes(double(*value)) : std::string();
  };
  const auto number = [](const auto& value, const char* unit) {
    return value ? concat(format_number(double(*value)), unit) : std::string();
  };
  const auto count = [](int value) { return value > 0 ? concat(value) : std::string(); };
  using E = const Environment&;
  row("measured or imported at (UTC)", [](E e) { return e.time; });
  row("Temper", [](E e) { return e.revision.empty() ? e.version : concat(e.version, " (", e.revision, ")"); });
  row("compiler", [](E e) { return e.compiler; });
  row("oneDNN",
      [](E e) { return e.onednn_isa.empty() ? e.onednn_version : concat(e.onednn_version, ", ", e.onednn_isa); });
  row("operating system", [](E e) { return e.os; });
  row("kernel", [](E e) { return e.kernel; });
  row("CPU", [](E e) { return e.cpu_model; });
  row("vector and matrix extensions", [](E e) {
    std::string text;
    for (const std::string& feature : e.cpu_features) text += concat(text.empty() ? "" : " ", feature);
    return text;
  });
  row("logical cores", [&](E e) { return count(e.logical_cores); });
  row("cores allowed", [&](E e) { return count(e.allowed_cores); });
  row("physical cores among them", [](E e) { return e.physical_cores ? concat(*e.physical_cores) : ""; });
  row("core quota of the container", [&](E e) { return number(e.cgroup_cores, ""); });
  row("threads used", [&](E e) { return count(e.threads); });
  row("L2 cache", [&](E e) { return bytes(e.l2_bytes); });
  row("L3 cache", [&](E e) { return bytes(e.l3_bytes); });
  row("memory", [&](E e) { return bytes(e.memory_bytes); });
  row("memory available", [&](E e) { return bytes(e.memory_available_bytes); });
  row("memory limit of the container", [&](E e) { return bytes(e.cgroup_memory_bytes); });
  row("frequency governor", [](E e) { return e.governor; });
  row("core clock before", [&](E e) { return number(e.clock_mhz_before, " MHz"); });
  row("core clock after", [&](E e) { return number(e.clock_mhz_after, " MHz"); });
  row("temperature before", [&](E e) { return number(e.temperature_before_c, " °C"); });
  row("temperature after", [&](E e) { return number(e.temperature_after_c, " °C"); });
  row("throttle events", [](E e) { return e.throttle_events ? concat(*e.throttle_events) : ""; });
  row("cores that others used, mean", [&](E e) { return number(e.load_by_others, ""); });
  return table;
}

std::vector<Warned> warnings_of(const Report& report) {
  std::vector<Warned> warnings;
  const std::vector<std::string> labels = labels_of(report);
  const std::vector<RunOf> runs = runs_of(report);
  for (size_t i = 0; i < runs.size(); ++i) {
    const BenchRun& run = *runs[i].run;
    const std::string unfit = unfit_for_verdict(run);
    if (!unfit.empty()) warnings.push_back({labels[i], concat("Not fit for a verdict: ", unfit), true});
    for (const Warning& warning : warnings_of(run, runs[i].from->result.environment))
      if (warning.cause != unfit) warnings.push_back({labels[i], remedied(warning)});
  }
  for (const ReportedResult& result : report.results)
    for (const Warning& warning : warnings_of(result.result.environment))
      warnings.push_back({file_name_of(result.file), remedied(warning)});
  for (const ReportedStudy& study : report.studies) {
    for (const std::string& note : study.notes) warnings.push_back({file_name_of(study.model), note});
    for (const StudyRow& row : study.rows)
      if (row.placeholder)
        warnings.push_back({concat(file_name_of(study.model), " ", row.precision),
                            "calibrated on noise: its speed counts, its answers do not"});
  }
  for (const ReportedExplanation& explanation : report.explanations)
    for (const ExplainedEngine& engine : explanation.engines)
      for (const std::string& note : engine.notes) warnings.push_back({engine.name, note});
  return warnings;
}

std::vector<Warned> notes_of(const Report& report) {
  std::vector<Warned> notes;
  const std::vector<std::string> labels = labels_of(report);
  const std::vector<RunOf> runs = runs_of(report);
  for (size_t i = 0; i < runs.size(); ++i)
    for (const auto& [field, note] : runs[i].run->notes) notes.push_back({labels[i], concat(field, ": ", note)});
  return notes;
}

std::vector<Warned> commands_of(const Report& report) {
  std::vector<Warned> commands;
  const std::vector<std::string> labels = labels_of(report);
  const std::vector<RunOf> runs = runs_of(report);
  // A sweep is one command of many runs.
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::string& command = runs[i].run->command.value_or("");
    if (command.empty()) continue;
    const auto same = [&](size_t k) { return runs[k].from == runs[i].from && runs[k].run->command == command; };
    if (i > 0 && same(i - 1)) continue;
    size_t end = i + 1;
    while (end < runs.size() && same(end)) ++end;
    commands.push_back({end == i + 1 ? labels[i] : concat(labels[i], " and the ", end - i - 1, " after it"), command});
  }
  for (const ReportedStudy& study : report.studies)
    if (!study.command.empty()) commands.push_back({file_name_of(study.file), study.command});
  return commands;
}

std::string report_csv(const Report& report) {
  std::vector<BenchRun> runs;
  for (const RunOf& named : runs_of(report)) runs.push_back(*named.run);
  if (runs.empty()) fail(ErrorKind::usage, "a CSV holds runs, and none of the files is a temper.result/1");
  return csv_table(fields_of(runs));
}

}  // namespace temper
