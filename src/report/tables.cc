// SPDX-License-Identifier: Apache-2.0
// What is told without a picture: names of runs, the log table, environments, warnings, commands.
#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "base/error.h"
#include "report/report.h"
#include "report/text.h"

namespace temper {
namespace {

struct Named {
  const ReportedResult* from;
  const BenchRun* run;
};

std::vector<Named> runs_of(const Report& report) {
  std::vector<Named> runs;
  for (const ReportedResult& result : report.results)
    for (const BenchRun& run : result.result.runs) runs.push_back({&result, &run});
  return runs;
}

std::string versions_of(const Named& named) {
  const BenchRun& run = *named.run;
  if (run.imported) return concat("TensorRT ", run.imported->tensorrt_version.value_or("n/a (its log does not say)"));
  const Environment& e = named.from->result.environment;
  return concat("Temper ", e.version, e.revision.empty() ? "" : concat(" (", e.revision, ")"),
                e.onednn_version.empty() ? "" : concat(", oneDNN ", e.onednn_version));
}

std::string device_of(const Named& named) {
  const BenchRun& run = *named.run;
  if (run.imported)
    return run.imported->device_name ? concat(run.device, " (", *run.imported->device_name, ")") : run.device;
  const Environment& e = named.from->result.environment;
  return run.device == "cpu" && !e.cpu_model.empty() ? concat("cpu (", e.cpu_model, ")") : run.device;
}

std::string known(const BenchRun& run, const auto& value, const char* field) {
  if (value) return concat(*value);
  return shown(run, std::nullopt, field);
}

std::string memory_of(const BenchRun& run) {
  if (run.peak_device_bytes) return concat(format_bytes(double(*run.peak_device_bytes)), " on the device");
  return shown_bytes(run, run.peak_host_bytes, "peak_host_bytes");
}

}  // namespace

std::vector<std::string> labels_of(const Report& report) {
  const std::vector<Named> runs = runs_of(report);
  using Part = std::function<std::string(const Named&)>;
  const auto optional = [](const auto& value, const char* before, const char* after) {
    return value ? concat(before, *value, after) : std::string();
  };
  // The first always appears; the others where they differ.
  const Part parts[] = {
      [](const Named& n) { return file_name_of(n.run->model); },
      [&](const Named& n) { return optional(n.run->precision, "", ""); },
      [&](const Named& n) { return optional(n.run->batch, "batch ", ""); },
      [](const Named& n) {
        return n.run->imported && n.run->imported->device_name ? *n.run->imported->device_name : n.run->device;
      },
      [](const Named& n) {
        return n.run->imported ? concat("TensorRT ", n.run->imported->tensorrt_version.value_or("?"))
                               : "Temper " + n.from->result.environment.version;
      },
      [&](const Named& n) { return optional(n.run->threads, "", n.run->threads == 1 ? " thread" : " threads"); },
      [](const Named& n) { return n.from->result.environment.cpu_model; },
  };
  std::vector<std::string> labels(runs.size());
  const auto count_labels = [&] {
    std::map<std::string, int> count;
    for (const std::string& label : labels) ++count[label];
    return count;
  };
  for (size_t p = 0; p < std::size(parts); ++p) {
    std::set<std::string> values;
    for (const Named& named : runs) values.insert(parts[p](named));
    const auto count = count_labels();
    // Precision and batch are said wherever they differ; the rest only where two runs would have the same name.
    for (size_t i = 0; i < runs.size(); ++i) {
      const std::string value = parts[p](runs[i]), before = labels[i];
      if (!value.empty() && (p == 0 || (values.size() > 1 && (p <= 2 || count.at(before) > 1))))
        labels[i] += concat(before.empty() ? "" : " · ", value);
    }
  }
  // Still the same name twice: the file tells them apart, and then the place.
  const auto more = [&](auto&& addition) {
    const auto count = count_labels();
    for (size_t i = 0; i < labels.size(); ++i)
      if (const std::string before = labels[i]; count.at(before) > 1) labels[i] += concat(" · ", addition(i));
  };
  more([&](size_t i) { return file_name_of(runs[i].from->file); });
  more([&](size_t i) { return concat("run ", i + 1); });
  for (std::string& label : labels) label = clean_text(label);
  return labels;
}

Table log_of(const Report& report) {
  Table table{{{"model", false},
               {"device", false},
               {"precision", false},
               {"batch"},
               {"threads"},
               {"workspace"},
               {"warm-up"},
               {"iterations"},
               {"versions", false},
               {"mean ms"},
               {"p50 ms"},
               {"p90 ms"},
               {"p95 ms"},
               {"p99 ms"},
               {"throughput items/s"},
               {"memory"},
               {"remarks", false}},
              {}};
  for (const Named& named : runs_of(report)) {
    const BenchRun& run = *named.run;
    const Latency& l = run.latency;
    const std::string unfit = unfit_for_verdict(run);
    table.rows.push_back({run.model, device_of(named), known(run, run.precision, "precision"),
                          known(run, run.batch, "batch"), known(run, run.threads, "threads"), "n/a",
                          known(run, run.warmup_runs, "warmup_runs"), known(run, run.samples, "samples"),
                          versions_of(named), shown(run, l.mean, "latency_ms.mean"),
                          shown(run, l.median, "latency_ms.median"), shown(run, l.p90, "latency_ms.p90"),
                          shown(run, l.p95, "latency_ms.p95"), shown(run, l.p99, "latency_ms.p99"),
                          shown(run, run.throughput_per_s, "throughput_per_s"), memory_of(run),
                          unfit.empty() ? "" : "CONTRADICTS ITSELF: not for a verdict"});
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
  const std::vector<Named> runs = runs_of(report);
  for (size_t i = 0; i < runs.size(); ++i) {
    const BenchRun& run = *runs[i].run;
    if (const std::string unfit = unfit_for_verdict(run); !unfit.empty())
      warnings.push_back({labels[i], concat("Contradicts itself, so no verdict may rest on it: ", unfit)});
    if (run.imported)
      for (const std::string& warning : run.imported->warnings) warnings.push_back({labels[i], warning});
  }
  for (const ReportedStudy& study : report.studies) {
    for (const std::string& note : study.notes) warnings.push_back({file_name_of(study.model), note});
    for (const StudyRow& row : study.rows)
      if (row.placeholder)
        warnings.push_back({concat(file_name_of(study.model), " ", row.precision),
                            "calibrated on noise: its speed counts, its answers do not"});
  }
  return warnings;
}

std::vector<Warned> notes_of(const Report& report) {
  std::vector<Warned> notes;
  const std::vector<std::string> labels = labels_of(report);
  const std::vector<Named> runs = runs_of(report);
  for (size_t i = 0; i < runs.size(); ++i)
    for (const auto& [field, note] : runs[i].run->notes) notes.push_back({labels[i], concat(field, ": ", note)});
  return notes;
}

std::vector<Warned> commands_of(const Report& report) {
  std::vector<Warned> commands;
  const std::vector<std::string> labels = labels_of(report);
  const std::vector<Named> runs = runs_of(report);
  for (size_t i = 0; i < runs.size(); ++i)
    if (const auto& from = runs[i].run->imported; from && from->command)
      commands.push_back({labels[i], *from->command});
  for (const ReportedStudy& study : report.studies)
    if (!study.command.empty()) commands.push_back({file_name_of(study.file), study.command});
  return commands;
}

std::string report_csv(const Report& report) {
  std::vector<BenchRun> runs;
  for (const Named& named : runs_of(report)) runs.push_back(*named.run);
  if (runs.empty()) fail(ErrorKind::usage, "a CSV holds runs, and none of the files is a temper.result/1");
  return csv_table(fields_of(runs));
}

}  // namespace temper
