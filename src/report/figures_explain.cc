// SPDX-License-Identifier: Apache-2.0
// Figures of explanations: in what precision engines spend their time, and what would change that.
#include <algorithm>

#include "base/quote.h"
#include "report/figures.h"
#include "report/text.h"

namespace temper::figures {
namespace {

// Precisions from the widest to the narrowest; those that are not listed come after.
const char* const kOrder[] = {"fp64", "fp32", "tf32", "bf16", "fp16", "int8", "fp8", "int4", "fp4", "conversions"};

// A precision keeps its colour from page to page.
constexpr std::pair<const char*, size_t> kPrecisionColors[] = {{"fp32", 0}, {"tf32", 4}, {"bf16", 3},
                                                               {"fp16", 5}, {"int8", 2}, {"conversions", 1}};

size_t place_of(const std::string& precision) {
  return size_t(std::find(std::begin(kOrder), std::end(kOrder), precision) - std::begin(kOrder));
}

Table findings_table(const ReportedExplanation& explanation) {
  Table table{{{"engine", false},
               {"found", false},
               {"evidence", false},
               {"change", false},
               {"gain of the layers' time"},
               {"ms of a run"}},
              {}};
  for (const ExplainedEngine& engine : explanation.engines)
    for (const ExplainedEngine::Finding& finding : engine.findings) {
      const char* bound = finding.at_most ? "at most " : "about ";
      table.rows.push_back(
          {engine.name, finding.what, finding.evidence, finding.change,
           finding.gain_share ? concat(bound, percent(*finding.gain_share)) : "n/a (nothing tells it)",
           finding.gain_ms ? concat(bound, format_number(*finding.gain_ms)) : "n/a (no time of a run)"});
    }
  return table;
}

}  // namespace

void add_explanation(std::vector<Figure>& figures, const ReportedExplanation& explanation, const std::string& suffix) {
  Figure figure{concat("precisions", suffix),
                "Time of the layers by what they work on, in milliseconds",
                "",
                "",
                {{{"engine", false}, {"asked for", false}}, {}}};
  std::vector<std::string> precisions;
  for (const ExplainedEngine& engine : explanation.engines)
    for (const auto& part : engine.precisions)
      if (std::find(precisions.begin(), precisions.end(), part.name) == precisions.end())
        precisions.push_back(part.name);
  std::stable_sort(precisions.begin(), precisions.end(),
                   [](const std::string& a, const std::string& b) { return place_of(a) < place_of(b); });
  for (const std::string& precision : precisions) figure.table.columns.push_back({precision});
  for (const char* name : {"layers, ms", "run, ms"}) figure.table.columns.push_back({name});
  figure.table.columns.push_back({"did it get the precision", false});

  Json values = Json::array(), names = Json::array();
  for (size_t e = 0; e < explanation.engines.size(); ++e) {
    const ExplainedEngine& engine = explanation.engines[e];
    const auto twin = [&](const ExplainedEngine& other) { return other.name == engine.name; };
    const bool twice = std::count_if(explanation.engines.begin(), explanation.engines.end(), twin) > 1;
    const std::string name =
        concat(shortened(printable(file_name_of(engine.name)), 34), twice ? concat(" (", e + 1, ")") : "");
    std::vector<std::string> row{engine.name, engine.asked.empty() ? "n/a" : engine.asked};
    for (size_t i = 0; i < precisions.size(); ++i) {
      double ms = 0, share = 0;
      for (const auto& part : engine.precisions)
        if (part.name == precisions[i]) ms += part.ms, share += part.share;
      row.push_back(ms > 0 ? concat(format_number(ms), " ms, ", percent(share)) : "");
      if (ms > 0)
        values.push_back(
            {{"engine", name}, {"precision", precisions[i]}, {"ms", ms}, {"share", percent(share)}, {"order", i}});
    }
    row.insert(row.end(), {format_number(engine.layers_ms),
                           engine.run_ms ? format_number(*engine.run_ms) : "n/a (not in the files)", engine.answer});
    figure.table.rows.push_back(std::move(row));
    names.push_back(name);
  }
  for (const std::string& answer : explanation.answers) figure.text += concat(figure.text.empty() ? "" : " ", answer);
  figure.text +=
      concat(figure.text.empty() ? "" : " ", "Layers are timed one by one, so their sum is not the time of a run.");
  if (values.empty()) {
    figure.text += " There is no picture: the files hold no times.";
  } else {
    Json colors = Json::array();
    for (size_t i = 0; i < precisions.size(); ++i) {
      const auto known = std::find_if(std::begin(kPrecisionColors), std::end(kPrecisionColors),
                                      [&](const auto& entry) { return precisions[i] == entry.first; });
      colors.push_back(color(known == std::end(kPrecisionColors) ? 6 + i % 2 : known->second));
    }
    figure.spec = filled_spec(precisions_spec(), {{"height", 40 * names.size()},
                                                  {"values", values},
                                                  {"names", names},
                                                  {"precisions", precisions},
                                                  {"colors", colors}});
  }
  figures.push_back(std::move(figure));
  Figure findings{concat("findings", suffix), "What to change, the most valuable first",
                  "Gains are estimates; they overlap and do not add up.", "", findings_table(explanation)};
  if (!findings.table.rows.empty()) figures.push_back(std::move(findings));
}

}  // namespace temper::figures
