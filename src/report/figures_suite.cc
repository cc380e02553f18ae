// SPDX-License-Identifier: Apache-2.0
// Figures of suites: architectures beside torch.compile on one GPU, models beside ONNX Runtime and OpenVINO on one CPU.
#include <algorithm>
#include <cmath>
#include <map>

#include "base/bytes.h"
#include "base/count_of.h"
#include "base/quote.h"
#include "report/figures.h"
#include "report/text.h"

namespace temper::figures {
namespace {

std::string number_or_none(const std::optional<double>& value) {
  return value ? format_number(*value) : std::string("n/a (not measured)");
}
std::string number_or_none(const std::optional<int64_t>& value) {
  return value ? concat(*value) : std::string("n/a (not measured)");
}

struct Mean {  // geometric
  double logs = 0;
  int64_t count = 0, below = 0;
  void add(double ratio) { logs += std::log(ratio), ++count, below += ratio < 1; }
  std::string text() const { return format_number(std::exp(logs / double(count))); }
};

// Round numbers from below `low` to above `high`, for a logarithmic axis with 1 on it.
std::vector<double> ticks_of(double low, double high) {
  std::vector<double> ticks;
  for (double power = 1e-4; power < 1e5; power *= 10)
    for (double step : {1.0, 2.0, 5.0}) ticks.push_back(power * step);
  const auto above = std::find_if(ticks.begin(), ticks.end(), [&](double t) { return t >= high * 0.999; });
  ticks.erase(above == ticks.end() ? above : above + 1, ticks.end());
  const auto first = std::find_if(ticks.rbegin(), ticks.rend(), [&](double t) { return t <= low * 1.001; });
  if (first != ticks.rend()) ticks.erase(ticks.begin(), first.base() - 1);
  return ticks;
}

std::string bytes_or_none(const std::optional<int64_t>& value) {
  return value ? format_bytes(double(*value)) : std::string("n/a (not measured)");
}

std::string peer_text(const std::string& peer) {
  return peer == "onnxruntime" ? "ONNX Runtime" : peer == "openvino" ? "OpenVINO" : peer;
}

Table table_of(const ReportedSuite& suite) {
  Table table{{{suite.of_cpu ? "model" : "architecture", false}, {"kind", false}, {"batch"}, {"precision", false}}, {}};
  if (suite.of_cpu) table.columns.push_back({"threads"});
  table.columns.push_back({"Temper, ms"});
  for (const char* peer : suite.of_cpu ? std::vector<const char*>{"ONNX Runtime, ms", "OpenVINO, ms"}
                                       : std::vector<const char*>{"torch.compile, ms"})
    table.columns.push_back({peer});
  table.columns.push_back({"times as fast"});
  table.columns.push_back({"least to greatest", false});
  for (const char* name : {suite.of_cpu ? "difference from ONNX Runtime" : "difference from FP32", "build, s", "steps",
                           suite.of_cpu ? "on the reference" : "on the host"})
    table.columns.push_back({name});
  if (suite.of_cpu)
    for (const char* name : {"peak memory", "of ONNX Runtime"}) table.columns.push_back({name});
  for (const SuiteRow& row : suite.rows) {
    const std::string none = row.failure.empty() ? "n/a (not measured)" : concat("failed: ", row.failure);
    std::vector<std::string> cells{row.model, row.kind, concat(row.batch), row.precision};
    if (suite.of_cpu) cells.push_back(number_or_none(row.threads));
    cells.push_back(number_or_none(row.temper_ms));
    if (suite.of_cpu) cells.insert(cells.end(), {number_or_none(row.onnxruntime_ms), number_or_none(row.openvino_ms)});
    else cells.push_back(number_or_none(row.compile_ms));
    cells.insert(cells.end(),
                 {row.ratio ? format_number(row.ratio->median) : none,
                  row.ratio ? concat(format_number(row.ratio->min), " to ", format_number(row.ratio->max)) : "",
                  number_or_none(row.difference), number_or_none(row.build_s), number_or_none(row.steps),
                  number_or_none(suite.of_cpu ? row.reference_steps : row.host_steps)});
    if (suite.of_cpu)
      cells.insert(cells.end(), {bytes_or_none(row.temper_peak_bytes), bytes_or_none(row.onnxruntime_peak_bytes)});
    table.rows.push_back(std::move(cells));
  }
  return table;
}

}  // namespace

void add_suite(std::vector<Figure>& figures, const ReportedSuite& suite, const std::string& suffix) {
  const std::string peers = suite.of_cpu ? "the better of ONNX Runtime and OpenVINO" : "torch.compile";
  Figure figure{concat("suite", suffix),
                concat(suite.of_cpu ? "Models" : "Architectures", " beside ", peers, " on ", printable(suite.device),
                       ", times as fast"),
                "", "", table_of(suite)};
  std::map<std::string, Mean> by_kind;
  Mean mean;
  // What a colour stands for: of the CPU's many kinds of few models each, which peer is the better one.
  std::vector<std::string> groups;
  Json values = Json::array(), colors = Json::array(), names = Json::array();
  double low = 1, high = 1;
  int64_t failed = 0;
  const auto known = [](const std::optional<double>& ms) { return ms ? Json(*ms) : Json(nullptr); };
  for (const SuiteRow& row : suite.rows) {
    failed += !row.failure.empty();
    if (!row.ratio) continue;
    by_kind[row.kind].add(row.ratio->median);
    mean.add(row.ratio->median);
    const std::string group = suite.of_cpu ? concat("beside ", peer_text(row.better_peer)) : row.kind;
    if (std::find(groups.begin(), groups.end(), group) == groups.end()) groups.push_back(group);
    low = std::min({low, row.ratio->min, row.ratio->median});
    high = std::max({high, row.ratio->max, row.ratio->median});
    const std::string name = shortened(printable(row.model), 30);
    values.push_back({{"line", suite.of_cpu ? name : concat(name, "  ", row.batch)},
                      {"group", group},
                      {"kind", row.kind},
                      {"ratio", row.ratio->median},
                      {"low", row.ratio->min},
                      {"high", row.ratio->max},
                      {"temper", known(row.temper_ms)},
                      {"compile", known(row.compile_ms)},
                      {"onnxruntime", known(row.onnxruntime_ms)},
                      {"openvino", known(row.openvino_ms)}});
  }
  figure.text = concat(count_of(suite.rows.size(), "line"), ", measured on ", suite.date, " at revision ",
                       suite.revision, suite.of_cpu ? "." : ". The number behind a name is the batch.");
  if (mean.count > 0) {
    figure.text += concat(" Geometric mean ", mean.text(), " of ", mean.count, "; below 1: ", mean.below, ".");
    if (by_kind.size() > 1)
      for (const auto& [kind, its] : by_kind)
        figure.text += concat(" ", printable(kind), ": ", its.text(), " of ", its.count, ".");
  } else {
    figure.text += concat(" There is no picture: nothing was measured beside ", peers, ".");
  }
  if (failed > 0) figure.text += concat(" ", count_of(failed, "line"), " failed.");
  if (mean.count > 0) {
    for (size_t i = 0; i < groups.size(); ++i) names.push_back(groups[i]), colors.push_back(color(i));
    const std::vector<double> ticks = ticks_of(low, high);
    const Json legend{{"title", nullptr}, {"orient", "top"}};
    figure.spec = filled_spec(suite_spec(), {{"height", 22 * values.size()},
                                             {"values", values},
                                             {"domain", {ticks.front(), ticks.back()}},
                                             {"ticks", ticks},
                                             {"axis", concat("times as fast as ", peers)},
                                             {"line", suite.of_cpu ? "model" : "architecture and batch"},
                                             {"of_cpu", suite.of_cpu},
                                             {"of_gpu", !suite.of_cpu},
                                             {"groups", names},
                                             {"colors", colors},
                                             {"legend", groups.size() > 1 ? legend : Json(nullptr)}});
  }
  figures.push_back(std::move(figure));
}

}  // namespace temper::figures
