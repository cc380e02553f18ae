// SPDX-License-Identifier: Apache-2.0
#include "report/figures.h"

#include <set>

#include "base/error.h"
#include "base/quote.h"
#include "report/text.h"

namespace temper {

namespace figures {

constexpr size_t kCurveColors = 8;

std::string color(size_t index) { return concat("var(--c", index % kCurveColors + 1, ")"); }

namespace {

class Filler {
 public:
  explicit Filler(const Json& parameters) : parameters_(parameters) {}

  Json filled(const Json& spec) {
    if (spec.is_string()) {
      const std::string& text = spec.get_ref<const std::string&>();
      return text.starts_with('$') ? parameter(text.substr(1)) : spec;
    }
    if (!spec.is_structured()) return spec;
    Json out = spec.is_array() ? Json::array() : Json::object();
    for (const auto& item : spec.items()) {
      if (item.key() == kIf) continue;
      Json value = filled(item.value());
      if (spec.is_object()) out[item.key()] = std::move(value);
      else if (is_wanted(item.value())) out.push_back(std::move(value));
    }
    return out;
  }
  void check_all_used() const {
    for (const auto& item : parameters_.items())
      if (!used_.contains(item.key()))
        fail(ErrorKind::machine, "a picture's specification does not name its parameter '", item.key(), "'");
  }

 private:
  static constexpr const char* kIf = "$if";
  const Json& parameters_;
  std::set<std::string> used_;

  const Json& parameter(const std::string& name) {
    const auto found = parameters_.find(name);
    if (found == parameters_.end())
      fail(ErrorKind::machine, "a picture's specification names '", name, "', which it is not given");
    used_.insert(name);
    return *found;
  }
  bool is_wanted(const Json& item) {
    return !item.is_object() || !item.contains(kIf) || parameter(item.at(kIf).get<std::string>()).get<bool>();
  }
};

}  // namespace

std::string filled_spec(std::string_view spec, const Json& parameters) {
  Filler filler(parameters);
  const Json filled = filler.filled(Json::parse(spec));
  filler.check_all_used();
  return printable(filled.dump(-1, ' ', false, Json::error_handler_t::replace));
}

Json legend_of(size_t series) {
  if (series < 2) return nullptr;
  return {{"title", nullptr}, {"orient", "top"}, {"columns", 1}, {"symbolOpacity", 1}};
}

std::string rate_format(double most) { return most >= 20000 ? "~s" : ",~f"; }

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
  for (size_t i = 0; i < report.suites.size(); ++i)
    figures::add_suite(list, report.suites[i], suffix(i, report.suites.size()));
  return list;
}

}  // namespace temper
