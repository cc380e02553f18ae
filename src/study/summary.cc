// SPDX-License-Identifier: Apache-2.0
#include "study/summary.h"

#include <nlohmann/json.hpp>

#include "data/agreement.h"

namespace temper {

using Json = nlohmann::ordered_json;

namespace {
std::string rate_text(const Json& answers, const char* field) {
  return answers.contains(field) ? percent_text(answers[field].at("rate")) : "n/a";
}

}  // namespace

Table study_table(const Json& study) {
  Table table{{{"precision", false},
               {"top-1", true, 7},
               {"95 % interval", true, 3},
               {"agreement", true, 5},
               {"SNR", true, 4},
               {"cosine", true, 1},
               {"latency", true, 9},
               {"items/s", true, 2},
               {"beside fp32", true, 9},
               {"verdict", false, 8},
               {"plan", true, 1},
               {"memory", true, 1},
               {"drop", true, 8},
               {"answers", false, 6}},
              {}};
  for (const Json& row : study.at("precisions")) {
    const Json &answers = row.at("answers"), &speed = row.at("speed");
    const Json interval = answers.contains("top1") ? answers["top1"].at("ci95") : Json(nullptr);
    const auto number = [](const Json& value) {
      return value.is_number() ? format_number(value.get<double>()) : std::string("n/a");
    };
    table.rows.push_back({row.at("precision"), rate_text(answers, "top1"),
                          interval.is_null() ? "n/a" : percent_text(interval[0]) + " to " + percent_text(interval[1]),
                          rate_text(answers, "agreement"), row.at("snr"),
                          row.at("cosine").is_null() ? "n/a" : format_number(row.at("cosine").get<double>(), 4),
                          number(row.at("latency_ms")) + " ms", number(row.at("throughput_per_s")),
                          speed.is_null() ? "1"
                                          : concat(number(speed.at("ratio")), "x (", number(speed.at("ci99")[0]),
                                                   " to ", number(speed.at("ci99")[1]), ")"),
                          speed.is_null() ? "" : speed.at("verdict").get<std::string>(),
                          format_bytes(row.at("plan_bytes").get<double>()),
                          row.at("memory_bytes").is_null() ? "n/a" : format_bytes(row.at("memory_bytes").get<double>()),
                          row.at("drop").is_null() ? "n/a" : row.at("drop_text").get<std::string>(),
                          !row.at("far").get<std::string>().empty() ? "FAR"
                          : row.at("over_budget").is_null()         ? ""
                          : row.at("over_budget").get<bool>()       ? "OVER"
                                                                    : "within"});
  }
  return table;
}

std::string study_verdict(const Json& study) {
  const Json& rows = study.at("precisions");
  const Json* best = &rows[0];
  std::string far;
  for (const Json& row : rows) {
    if (!row.at("far").get<std::string>().empty())
      far += concat("; ", row.at("precision").get<std::string>(),
                    " is far from fp32's answers: ", row.at("far").get<std::string>());
    if (!row.at("speed").is_null() && row["speed"].at("verdict") == "FASTER" && row.at("holds").get<bool>() &&
        row.at("latency_ms").get<double>() < best->at("latency_ms").get<double>())
      best = &row;
  }
  if (best == &rows[0])
    return (rows.size() > 1 ? "verdict: fp32; nothing else is faster and keeps its answers"
                            : "verdict: only fp32 was asked for") +
           far;
  return concat("verdict: ", best->at("precision").get<std::string>(), ", ",
                format_number(best->at("speed").at("ratio").get<double>()), "x as fast as fp32",
                best->at("drop").is_null()
                    ? ""
                    : concat(", drop by ", study.at("metric").get<std::string>(), " ",
                             best->at("drop_text").get<std::string>(), ", SNR ", best->at("snr").get<std::string>(),
                             ", cosine ", format_number(best->at("cosine").get<double>(), 4)),
                far);
}

}  // namespace temper
