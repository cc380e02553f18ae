// SPDX-License-Identifier: Apache-2.0
#include "bench/table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/concat.h"
#include "base/log.h"
#include "base/quote.h"
#include "bench/results.h"

namespace temper {

namespace {

size_t width_of(const std::string& text) {  // code points
  return size_t(std::count_if(text.begin(), text.end(), [](char c) { return (uint8_t(c) & 0xc0) != 0x80; }));
}

std::string padded(const std::string& text, size_t width, bool right) {
  const std::string space(width - std::min(width, width_of(text)), ' ');
  return right ? space + text : text + space;
}

std::vector<size_t> widths_of(const Table& table) {
  std::vector<size_t> widths;
  for (size_t c = 0; c < table.columns.size(); ++c) {
    size_t width = width_of(table.columns[c].name);
    for (const auto& row : table.rows) width = std::max(width, width_of(row[c]));
    widths.push_back(width);
  }
  return widths;
}

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  return concat("\"", replaced(text, "\"", "\"\""), "\"");
}

}  // namespace

std::string terminal_table(const Table& given) {
  Table table = given;
  for (auto& row : table.rows)
    for (std::string& cell : row) cell = with_short_words(printable(cell), kLongestWord);
  const std::vector<size_t> widths = widths_of(table);
  std::string out;
  auto line = [&](auto cell) {
    std::string text;
    for (size_t c = 0; c < widths.size(); ++c)
      text += (c ? "  " : "") + padded(cell(c), widths[c], table.columns[c].right);
    out += text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  };
  line([&](size_t c) { return table.columns[c].name; });
  for (const auto& row : table.rows) line([&](size_t c) { return row[c]; });
  return out;
}

std::string markdown_table(const Table& table) {
  std::string out;
  auto line = [&](auto cell) {
    out += "|";
    for (size_t c = 0; c < table.columns.size(); ++c)
      out += concat(" ", replaced(replaced(cell(c), "|", "\\|"), "\n", " "), " |");
    out += "\n";
  };
  line([&](size_t c) { return table.columns[c].name; });
  line([&](size_t c) { return std::string(table.columns[c].right ? "---:" : "---"); });
  for (const auto& row : table.rows) line([&](size_t c) { return row[c]; });
  return out;
}

std::string csv_table(const Table& table) {
  std::string out;
  for (size_t c = 0; c < table.columns.size(); ++c) out += (c ? "," : "") + csv_cell(table.columns[c].name);
  out += "\n";
  for (const auto& row : table.rows) {
    for (size_t c = 0; c < row.size(); ++c) out += (c ? "," : "") + csv_cell(row[c]);
    out += "\n";
  }
  return out;
}

std::string format_number(double value, int digits) {
  if (!std::isfinite(value)) return "n/a";
  const int magnitude = value == 0 ? 0 : int(std::floor(std::log10(std::abs(value))));
  char text[400];
  if (magnitude < -8) {  // "0.000000000000" would say nothing
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    return text;
  }
  std::snprintf(text, sizeof text, "%.*f", std::clamp(digits - 1 - magnitude, 0, 12), value);
  return text;
}

std::string percent(double share, int digits) { return concat(format_number(100 * share, digits), " %"); }

Table summary_of(const std::vector<BenchRun>& runs) {
  Table table{{{"model", false},
               {"device", false},
               {"precision", false},
               {"batch"},
               {"threads"},
               {"median ms"},
               {"95 % interval"},
               {"p90"},
               {"p99"},
               {"items/s"},
               {"first ms"},
               {"samples"},
               {"peak memory"}},
              {}};
  const bool loads = std::any_of(runs.begin(), runs.end(), [](const BenchRun& run) {
    return run.streams.value_or(1) > 1 || run.load != "closed";
  });
  if (loads) table.columns.insert(table.columns.begin() + 5, {"load", false});
  for (const BenchRun& run : runs) {
    auto number = [&](const std::optional<double>& value, const char* name) {
      const auto note = run.notes.find(name);
      // An imported percentile of too few samples stays as its log has it, marked.
      const bool marked = run.imported && note != run.notes.end() && std::string_view(name).starts_with("latency_ms.p");
      if (value) return concat(format_number(*value), marked ? concat(" (", note->second, ")") : "");
      if (run.imported)
        return std::string("n/a");  // most of a log is missing by its nature; the result has the reasons
      return note == run.notes.end()           ? std::string("n/a")
             : note->second.starts_with("n/a") ? note->second
                                               : "n/a: " + note->second;
    };
    const Latency& l = run.latency;
    auto known = [](const auto& value) { return value ? concat(*value) : std::string("n/a"); };
    table.rows.push_back(
        {run.model, run.device,
         concat(known(run.precision), !run.imported && run.notes.contains("precision") ? " (calibrated on noise)" : ""),
         known(run.batch), known(run.threads), number(l.median, "latency_ms.median"),
         l.median_ci95 ? concat(format_number(l.median_ci95->low), "–", format_number(l.median_ci95->high)) : "n/a",
         number(l.p90, "latency_ms.p90"), number(l.p99, "latency_ms.p99"),
         number(run.throughput_per_s, "throughput_per_s"), number(run.first_run_ms, "first_run_ms"), known(run.samples),
         run.peak_host_bytes ? format_bytes(double(*run.peak_host_bytes)) : "n/a"});
    if (loads)
      table.rows.back().insert(
          table.rows.back().begin() + 5,
          concat(known(run.streams), run.streams == 1 ? " stream" : " streams",
                 run.request_rate_per_s ? concat(", ", format_number(*run.request_rate_per_s), " requests/s") : ""));
  }
  return table;
}

Table fields_of(const std::vector<BenchRun>& runs) {
  Table table;
  const bool any_imported =
      std::any_of(runs.begin(), runs.end(), [](const BenchRun& run) { return run.imported.has_value(); });
  for (const BenchRun& run : runs) {
    std::vector<std::string> row;
    std::vector<Table::Column> columns;
    auto put = [&](const char* name, std::string text) {
      columns.push_back({name});
      row.push_back(std::move(text));
    };
    auto put_optional = [&](const char* name, const auto& value) { put(name, value ? concat(*value) : std::string()); };
    std::string shapes, notes;
    for (const auto& [name, dims] : run.shapes) {
      shapes += concat(shapes.empty() ? "" : " ", name, "=");
      for (size_t i = 0; i < dims.size(); ++i) shapes += concat(i ? "x" : "", dims[i]);
    }
    for (const auto& [name, note] : run.notes) notes += concat(notes.empty() ? "" : "; ", name, ": ", note);
    const Latency& l = run.latency;
    put("model", run.model);
    put_optional("model_sha256", run.model_sha256);
    put_optional("source_sha256", run.source_sha256);
    put_optional("command", run.command);
    put("device", run.device);
    put("backend", run.backend);
    put_optional("precision", run.precision);
    put_optional("batch", run.batch);
    put("shapes", shapes);
    put_optional("threads", run.threads);
    put_optional("streams", run.streams);
    put("load", run.load);
    put_optional("request_rate_per_s", run.request_rate_per_s);
    put_optional("samples", run.samples);
    put_optional("warmup_runs", run.warmup_runs);
    put_optional("transfers", run.transfers);
    put_optional("cuda_graph", run.cuda_graph);
    put_optional("first_run_ms", run.first_run_ms);
    put_optional("latency_ms.median", l.median);
    put_optional("latency_ms.mean", l.mean);
    put_optional("latency_ms.min", l.min);
    put_optional("latency_ms.max", l.max);
    put_optional("latency_ms.stddev", l.stddev);
    put_optional("latency_ms.p90", l.p90);
    put_optional("latency_ms.p95", l.p95);
    put_optional("latency_ms.p99", l.p99);
    for (const auto& [name, interval] : {std::pair{"median", &l.median_ci95},
                                         {"mean", &l.mean_ci95},
                                         {"p90", &l.p90_ci95},
                                         {"p95", &l.p95_ci95},
                                         {"p99", &l.p99_ci95}}) {
      put(concat("latency_ms.", name, "_ci95.low").c_str(), *interval ? concat((*interval)->low) : "");
      put(concat("latency_ms.", name, "_ci95.high").c_str(), *interval ? concat((*interval)->high) : "");
    }
    put_optional("outliers", run.outliers);
    put_optional("drift", run.drift);
    put_optional("throughput_per_s", run.throughput_per_s);
    put_optional("load_by_others", run.load_by_others);
    put_optional("workspace_bytes", run.workspace_bytes);
    put_optional("peak_host_bytes", run.peak_host_bytes);
    put_optional("peak_device_bytes", run.peak_device_bytes);
    put_optional("plan_bytes", run.plan_bytes);
    put_optional("build_s", run.build_s);
    put("notes", notes);
    if (any_imported) {
      const ImportedRun from = run.imported.value_or(ImportedRun{});
      put("source", from.source);
      put_optional("tensorrt_version", from.tensorrt_version);
      put_optional("device_name", from.device_name);
      put_optional("throughput_qps", from.throughput_qps);
      put_optional("walltime_s", from.walltime_s);
      const std::pair<const char*, const std::optional<Latency>*> parts[] = {{"gpu_ms", &from.gpu},
                                                                             {"h2d_ms", &from.h2d},
                                                                             {"d2h_ms", &from.d2h},
                                                                             {"enqueue_ms", &from.enqueue},
                                                                             {"end_to_end_ms", &from.end_to_end}};
      for (const auto& [name, part] : parts) {
        put_optional(concat(name, ".median").c_str(), *part ? (*part)->median : std::nullopt);
        put_optional(concat(name, ".mean").c_str(), *part ? (*part)->mean : std::nullopt);
      }
      put_optional("spin_wait", from.spin_wait);
      put_optional("consistent", from.consistent);
      std::string warnings;
      for (const std::string& warning : from.warnings) warnings += concat(warnings.empty() ? "" : "; ", warning);
      put("warnings", warnings);
    }
    if (table.columns.empty()) table.columns = columns;
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace temper
