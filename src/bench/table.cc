// SPDX-License-Identifier: Apache-2.0
#include "bench/table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/concat.h"
#include "base/log.h"
#include "base/quote.h"
#include "bench/results_fields.h"
#include "bench/table_fit.h"

namespace temper {

namespace {

std::string padded(const std::string& text, size_t width, bool right) {
  const std::string space(width - std::min(width, width_of(text)), ' ');
  return right ? space + text : text + space;
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

std::string terminal_table(const Table& given, size_t width) {
  FittedTable fit{given, {}, {}};
  for (auto& row : fit.table.rows)
    for (std::string& cell : row) cell = with_short_words(printable(cell), kLongestWord);
  if (width) fit = fitted(fit.table, width);
  const Table& table = fit.table;
  const std::vector<size_t> widths = widths_of(table);
  std::string out;
  for (const std::string& text : fit.above) out += wrapped(text, 0, "", width);
  auto line = [&](auto cell) {
    std::string text;
    for (size_t c = 0; c < widths.size(); ++c)
      text += (c ? "  " : "") + padded(cell(c), widths[c], table.columns[c].right);
    out += text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  };
  if (std::any_of(table.columns.begin(), table.columns.end(), [](const auto& column) { return !column.name.empty(); }))
    line([&](size_t c) { return table.columns[c].name; });
  for (const auto& row : table.rows) line([&](size_t c) { return row[c]; });
  for (const std::string& text : fit.below) out += wrapped(text, 0, "", width);
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
               {"precision", false, 7},
               {"batch", true, 7},
               {"threads", true, 6},
               {"median ms", true, 9},
               {"95 % interval", true, 8},
               {"p90", true, 3},
               {"p99", true, 4},
               {"items/s", true, 8},
               {"first ms", true, 1},
               {"samples", true, 2},
               {"peak memory", true, 2}},
              {}};
  const bool loads = std::any_of(runs.begin(), runs.end(), [](const BenchRun& run) {
    return run.streams.value_or(1) > 1 || run.load != "closed";
  });
  if (loads) table.columns.insert(table.columns.begin() + 5, {"load", false, 7});
  const bool energies =
      std::any_of(runs.begin(), runs.end(), [](const BenchRun& run) { return joules_per_item(run).has_value(); });
  if (energies) table.columns.push_back({"energy/item", true, 3});
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
    if (energies) table.rows.back().push_back(energy_text(run));
    if (loads)
      table.rows.back().insert(
          table.rows.back().begin() + 5,
          concat(known(run.streams), run.streams == 1 ? " stream" : " streams",
                 run.request_rate_per_s ? concat(", ", format_number(*run.request_rate_per_s), "/s") : ""));
  }
  return table;
}

namespace {

// Visits the fields of a run: each scalar is a cell, and a column under its name.
struct Cells {
  std::string prefix;
  std::vector<Table::Column> columns;
  std::vector<std::string> row;

  void put(std::string_view name, std::string text) {
    columns.push_back({concat(prefix, name)});
    row.push_back(std::move(text));
  }
  template <class T>
  void field(std::string_view name, const T& value) {
    put(name, concat(value));
  }
  template <class T>
  void field(std::string_view name, const std::optional<T>& value) {
    put(name, value ? concat(*value) : std::string());
  }
  void field(std::string_view name, const std::optional<Interval>& interval) {
    put(concat(name, ".low"), interval ? concat(interval->low) : "");
    put(concat(name, ".high"), interval ? concat(interval->high) : "");
  }
  void field(std::string_view name, const Latency& latency) {
    prefix = concat(name, ".");
    json_fields(*this, latency);
    prefix.clear();
  }
  void field(std::string_view name, const std::optional<Latency>& part) {
    field(concat(name, ".median"), part ? part->median : std::nullopt);
    field(concat(name, ".mean"), part ? part->mean : std::nullopt);
  }
  void field(std::string_view, const std::optional<std::vector<double>>&) {}  // the samples
  void field(std::string_view name, const std::map<std::string, std::vector<int64_t>>& shapes) {
    std::string text;
    for (const auto& [input, dims] : shapes) {
      text += concat(text.empty() ? "" : " ", input, "=");
      for (size_t i = 0; i < dims.size(); ++i) text += concat(i ? "x" : "", dims[i]);
    }
    put(name, std::move(text));
  }
  void field(std::string_view name, const std::map<std::string, std::string>& notes) {
    std::string text;
    for (const auto& [of, note] : notes) text += concat(text.empty() ? "" : "; ", of, ": ", note);
    put(name, std::move(text));
  }
  void field(std::string_view name, const std::vector<std::string>& warnings) {
    std::string text;
    for (const std::string& warning : warnings) text += concat(text.empty() ? "" : "; ", warning);
    put(name, std::move(text));
  }
  template <class Part>
  bool has_part(const char*, const std::optional<Part>& part) const {
    return part.has_value();
  }
  // A part of one field is a column of all, empty where it is absent.
  bool has_part(const char* name, const std::optional<double>& value) {
    field(name, value);
    return false;
  }
};

}  // namespace

Table fields_of(const std::vector<BenchRun>& runs) {
  Table table;
  // A part that one run has is columns of all.
  const auto any = [&](auto part) {
    return std::any_of(runs.begin(), runs.end(), [&](const BenchRun& run) { return (run.*part).has_value(); });
  };
  const bool any_gpu = any(&BenchRun::gpu), any_imported = any(&BenchRun::imported);
  for (BenchRun run : runs) {
    if (any_gpu && !run.gpu) run.gpu.emplace();
    if (any_imported && !run.imported) run.imported.emplace();
    Cells cells{{}, {}, {}};
    json_fields(cells, std::as_const(run));
    if (table.columns.empty()) table.columns = std::move(cells.columns);
    table.rows.push_back(std::move(cells.row));
  }
  return table;
}

}  // namespace temper
