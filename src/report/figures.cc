// SPDX-License-Identifier: Apache-2.0
#include "report/figures.h"

#include "base/quote.h"
#include "report/text.h"

namespace temper {

namespace figures {

constexpr size_t kColors = 8;

std::string color(size_t index) { return concat("var(--c", index % kColors + 1, ")"); }

std::string spec_of(Json picture) {
  Json spec{{"$schema", "https://vega.github.io/schema/vega-lite/v6.json"}, {"width", "container"}};
  spec.update(picture);
  return printable(spec.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::string rate_format(double most) { return most >= 20000 ? "~s" : ",~f"; }

Json axis(const std::string& title) { return {{"title", title}}; }

}  // namespace figures

std::vector<Figure> figures_of(const Report& report) {
  std::vector<figures::LabelledRun> runs;
  const std::vector<std::string> labels = labels_of(report);
  for (const ReportedResult& result : report.results)
    for (const BenchRun& run : result.result.runs) runs.push_back({&result, &run, labels[runs.size()]});
  const auto suffix = [](size_t i, size_t count) { return count > 1 ? concat("-", i + 1) : std::string(); };
  std::vector<Figure> list;
  for (size_t i = 0; i < report.studies.size(); ++i)
    figures::add_study(list, report.studies[i], suffix(i, report.studies.size()));
  if (!runs.empty()) figures::add_latency(list, runs);
  figures::add_load(list, runs);
  for (size_t i = 0; i < report.profiles.size(); ++i)
    figures::add_profile(list, report.profiles[i], suffix(i, report.profiles.size()));
  for (size_t i = 0; i < report.explanations.size(); ++i)
    figures::add_explanation(list, report.explanations[i], suffix(i, report.explanations.size()));
  return list;
}

}  // namespace temper
