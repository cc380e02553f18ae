// SPDX-License-Identifier: Apache-2.0
// Figures of suites: architectures beside torch.compile on one GPU.
#include <algorithm>
#include <cmath>
#include <map>

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

}  // namespace

void add_suite(std::vector<Figure>& figures, const ReportedSuite& suite, const std::string& suffix) {
  Figure figure{concat("suite", suffix),
                concat("Architectures beside torch.compile on ", printable(suite.device), ", times as fast"),
                "",
                "",
                {{{"architecture", false},
                  {"kind", false},
                  {"batch"},
                  {"precision", false},
                  {"Temper, ms"},
                  {"torch.compile, ms"},
                  {"times as fast"},
                  {"least to greatest", false},
                  {"difference from FP32"},
                  {"build, s"},
                  {"steps"},
                  {"on the host"}},
                 {}}};
  std::map<std::string, Mean> by_kind;
  Mean mean;
  std::vector<std::string> kinds;
  Json values = Json::array(), colors = Json::array(), names = Json::array();
  double low = 1, high = 1;
  int64_t failed = 0;
  for (const SuiteRow& row : suite.rows) {
    failed += !row.failure.empty();
    const std::string none = row.failure.empty() ? "n/a (not measured)" : concat("failed: ", row.failure);
    figure.table.rows.push_back(
        {row.model, row.kind, concat(row.batch), row.precision, number_or_none(row.temper_ms),
         number_or_none(row.compile_ms), row.ratio ? format_number(row.ratio->median) : none,
         row.ratio ? concat(format_number(row.ratio->min), " to ", format_number(row.ratio->max)) : "",
         number_or_none(row.difference), number_or_none(row.build_s), number_or_none(row.steps),
         number_or_none(row.host_steps)});
    if (!row.ratio) continue;
    by_kind[row.kind].add(row.ratio->median);
    mean.add(row.ratio->median);
    if (std::find(kinds.begin(), kinds.end(), row.kind) == kinds.end()) kinds.push_back(row.kind);
    low = std::min({low, row.ratio->min, row.ratio->median});
    high = std::max({high, row.ratio->max, row.ratio->median});
    values.push_back({{"line", concat(shortened(printable(row.model), 30), "  ", row.batch)},
                      {"kind", row.kind},
                      {"ratio", row.ratio->median},
                      {"low", row.ratio->min},
                      {"high", row.ratio->max},
                      {"temper", row.temper_ms ? Json(*row.temper_ms) : Json(nullptr)},
                      {"compile", row.compile_ms ? Json(*row.compile_ms) : Json(nullptr)}});
  }
  figure.text = concat(suite.rows.size(), suite.rows.size() == 1 ? " line" : " lines", ", measured on ", suite.date,
                       " at revision ", suite.revision, ". The number behind a name is the batch.");
  if (mean.count > 0) {
    figure.text += concat(" Geometric mean ", mean.text(), " of ", mean.count, "; below 1: ", mean.below, ".");
    if (by_kind.size() > 1)
      for (const auto& [kind, its] : by_kind)
        figure.text += concat(" ", printable(kind), ": ", its.text(), " of ", its.count, ".");
  } else {
    figure.text += " There is no picture: nothing was measured beside torch.compile.";
  }
  if (failed > 0) figure.text += concat(" ", failed, failed == 1 ? " line failed." : " lines failed.");
  if (mean.count > 0) {
    for (size_t i = 0; i < kinds.size(); ++i) names.push_back(kinds[i]), colors.push_back(color(i));
    const std::vector<double> ticks = ticks_of(low, high);
    const Json legend{{"title", nullptr}, {"orient", "top"}};
    figure.spec = filled_spec(suite_spec(), {{"height", 22 * values.size()},
                                             {"values", values},
                                             {"domain", {ticks.front(), ticks.back()}},
                                             {"ticks", ticks},
                                             {"kinds", names},
                                             {"colors", colors},
                                             {"legend", kinds.size() > 1 ? legend : Json(nullptr)}});
  }
  figures.push_back(std::move(figure));
}

}  // namespace temper::figures
