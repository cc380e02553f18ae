// SPDX-License-Identifier: Apache-2.0
// Figures of studies: speed against accuracy of one model in several precisions, and speed beside FP32.
#include <algorithm>
#include <cmath>

#include "base/count_of.h"
#include "base/quote.h"
#include "report/figures.h"
#include "report/text.h"

namespace temper::figures {
namespace {

std::string ratio_interval(const StudyRow& row) {
  return row.ratio_ci99 ? concat(format_number(row.ratio_ci99->low), " to ", format_number(row.ratio_ci99->high))
                        : "n/a (too few turns)";
}

std::string verdict_text(const StudyRow& row) {
  return row.why.empty() ? row.verdict : concat(row.verdict, " (", row.why, ")");
}

Table study_table(const ReportedStudy& study) {
  Table table{{{"precision", false},
               {"median ms"},
               {"items/s"},
               {"beside fp32"},
               {"verdict", false},
               {"top-1"},
               {"95 % interval"},
               {"agreement with fp32"},
               {"95 % interval"},
               {"SNR"},
               {"McNemar p"},
               {concat("drop (", study.metric, ")")},
               {"budget", false},
               {"plan"},
               {"memory"}},
              {}};
  const auto share = [](const std::optional<StudyRow::Share>& s) {
    return s ? percent(s->rate, 4) : std::string("n/a");
  };
  const auto interval = [](const std::optional<StudyRow::Share>& s) {
    return s ? concat(percent(s->interval.low, 4), " to ", percent(s->interval.high, 4)) : std::string("n/a");
  };
  const auto bytes = [](const std::optional<int64_t>& b) { return b ? format_bytes(double(*b)) : std::string("n/a"); };
  for (const StudyRow& row : study.rows) {
    const bool reference = !row.ratio;
    table.rows.push_back({concat(row.precision, row.placeholder ? " (calibrated on noise)" : ""),
                          format_number(row.latency_ms), format_number(row.throughput_per_s),
                          row.ratio ? concat(format_number(*row.ratio), "x (", ratio_interval(row), ")") : "1 (itself)",
                          verdict_text(row), share(row.top1), interval(row.top1),
                          reference ? "itself" : share(row.agreement), reference ? "" : interval(row.agreement),
                          row.snr_db  ? concat(format_number(*row.snr_db, 3), " dB")
                          : reference ? "itself"
                                      : "n/a",
                          row.mcnemar_p ? format_number(*row.mcnemar_p, 3)
                          : reference   ? "itself"
                                        : "n/a",
                          row.drop    ? percent(*row.drop)
                          : reference ? "itself"
                                      : "n/a",
                          !row.drop || !study.max_drop   ? ""
                          : *row.drop <= *study.max_drop ? "within"
                                                         : "OVER",
                          bytes(row.plan_bytes), bytes(row.memory_bytes)});
  }
  return table;
}

// The quality that the figure holds up against speed: the truth where it is known, then FP32's own answers, then the
// noise beside them.
struct Quality {
  std::string name, axis;
  std::optional<double> (*value)(const StudyRow&);
  std::optional<Interval> (*interval)(const StudyRow&);
};
const Quality kQualities[] = {
    {"top-1 accuracy", "top-1 accuracy, %",
     [](const StudyRow& r) { return r.top1 ? std::optional(100 * r.top1->rate) : std::nullopt; },
     [](const StudyRow& r) {
       return r.top1 ? std::optional(Interval{100 * r.top1->interval.low, 100 * r.top1->interval.high}) : std::nullopt;
     }},
    {"agreement with FP32", "answers equal to those of FP32, %",
     [](const StudyRow& r) { return r.agreement ? std::optional(100 * r.agreement->rate) : std::nullopt; },
     [](const StudyRow& r) {
       return r.agreement ? std::optional(Interval{100 * r.agreement->interval.low, 100 * r.agreement->interval.high})
                          : std::nullopt;
     }},
    {"signal to noise beside FP32", "signal to noise beside FP32, dB", [](const StudyRow& r) { return r.snr_db; },
     [](const StudyRow&) { return std::optional<Interval>(); }},
};

Figure speed_against_accuracy(const ReportedStudy& study, const std::string& suffix) {
  const std::string model = file_name_of(study.model);
  const Quality* quality = nullptr;
  for (const Quality& q : kQualities)
    if (!quality && std::any_of(study.rows.begin(), study.rows.end(),
                                [&](const StudyRow& row) { return row.ratio && q.value(row); }))
      quality = &q;
  if (!quality && study.rows[0].top1) quality = &kQualities[0];  // FP32 alone
  Figure figure{concat("study", suffix),
                concat(printable(model), ": speed against ", quality ? quality->name : "accuracy"), "", "",
                study_table(study)};
  figure.text = concat(count_of(study.evaluation_samples, "sample"), " of ", study.data, " to evaluate, ",
                       count_of(study.calibration_samples, "other"), " to calibrate, batch ", study.batch,
                       ". Right and up is better.");
  if (!quality) {
    figure.text += " There is no picture: the study has no figure of accuracy.";
    return figure;
  }
  Json values = Json::array(), names = Json::array(), colors = Json::array();
  std::vector<std::string> missing;
  double fastest = 0;
  for (const StudyRow& row : study.rows) {
    const auto value = quality->value(row);
    if (!value) {
      missing.push_back(row.precision);
      continue;
    }
    fastest = std::max(fastest, row.throughput_per_s);
    const auto interval = quality->interval(row);
    const std::string name = concat(row.precision, row.placeholder ? " (noise)" : "");
    values.push_back({{"precision", name},
                      {"rate", row.throughput_per_s},
                      {"quality", *value},
                      {"low", interval ? Json(interval->low) : Json(nullptr)},
                      {"high", interval ? Json(interval->high) : Json(nullptr)}});
    names.push_back(name);
    colors.push_back(color(values.size() - 1));
  }
  if (!missing.empty()) {
    figure.text += " Not in the picture:";
    for (size_t i = 0; i < missing.size(); ++i) figure.text += concat(i ? ", " : " ", missing[i]);
    figure.text += concat(" (", quality == &kQualities[0] ? "no figure" : "compared with itself", ").");
  }
  const StudyRow& base = study.rows.front();
  const bool budget = study.max_drop && quality == &kQualities[0] && study.metric == "top1" && base.top1;
  const double limit = budget ? 100 * (base.top1->rate - *study.max_drop) : 0;
  if (budget) figure.text += concat(" Dashed: what the budget allows, ", format_number(limit), " %.");
  if (quality->interval(base)) figure.text += " The bars are 95 % intervals (Wilson).";
  // In it the shape says the same as the colour once more, for eyes that do not tell the colours apart.
  figure.spec = filled_spec(
      study_spec(), {{"values", values},
                     {"names", names},
                     {"colors", colors},
                     {"quality", quality->axis},
                     // The points have room around them, and no share is above 100 %.
                     {"label", quality == &kQualities[2] ? "datum.label" : "datum.value > 100 ? '' : datum.label"},
                     {"rate_format", rate_format(fastest)},
                     {"any_interval", quality->interval(study.rows.back()) || quality->interval(study.rows.front())},
                     {"budget", budget},
                     {"limit", limit}});
  return figure;
}

}  // namespace

void add_study(std::vector<Figure>& figures, const ReportedStudy& study, const std::string& suffix) {
  figures.push_back(speed_against_accuracy(study, suffix));
  Json values = Json::array();
  Figure figure{concat("speedup", suffix),
                concat(printable(file_name_of(study.model)), ": how many times as fast as FP32"),
                "",
                "",
                {{{"precision", false}, {"times as fast"}, {"99 % interval"}, {"verdict", false}}, {}}};
  for (const StudyRow& row : study.rows) {
    if (!row.ratio) continue;
    values.push_back({{"precision", row.precision},
                      {"ratio", *row.ratio},
                      {"low", row.ratio_ci99 ? Json(row.ratio_ci99->low) : Json(nullptr)},
                      {"high", row.ratio_ci99 ? Json(row.ratio_ci99->high) : Json(nullptr)},
                      {"verdict", row.verdict}});
    figure.table.rows.push_back(
        {row.precision, concat(format_number(*row.ratio), "x"), ratio_interval(row), verdict_text(row)});
  }
  if (values.empty()) return;
  figure.spec = filled_spec(speedup_spec(), {{"height", 44 * values.size()}, {"values", values}});
  figure.text =
      "Timed in turns with FP32 in one process; the bar is the 99 % interval of the ratio. Dashed: no difference.";
  figures.push_back(std::move(figure));
}

}  // namespace temper::figures
