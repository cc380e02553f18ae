// SPDX-License-Identifier: Apache-2.0
// Says in a sentence or two what a report shows, for people who read no further.
#include <algorithm>

#include "base/concat.h"
#include "report/names.h"
#include "report/report.h"
#include "report/text.h"

namespace temper {

namespace {

std::string span_of(const std::optional<Interval>& interval, const char* unit, const char* what) {
  return interval ? concat(" (", what, format_number(interval->low), " to ", format_number(interval->high), unit, ")")
                  : "";
}

std::string of_run(const BenchRun& run) {
  return concat("a median of ", format_number(*run.latency.median), " ms a run",
                span_of(run.latency.median_ci95, " ms", "95 % interval "),
                run.throughput_per_s ? concat(", ", format_number(*run.throughput_per_s), " items a second") : "");
}

std::string of_results(const Report& report) {
  const std::vector<RunOf> runs = runs_of(report);
  const std::vector<std::string> labels = labels_of(report);
  std::vector<size_t> fit;
  for (size_t i = 0; i < runs.size(); ++i)
    if (unfit_for_verdict(*runs[i].run).empty() && runs[i].run->latency.median) fit.push_back(i);
  if (fit.empty()) return runs.empty() ? "" : "No run is fit for a verdict; the reasons stand below.";
  if (fit.size() == 1) return concat(labels[fit[0]], " takes ", of_run(*runs[fit[0]].run), ".");
  const auto rate = [&](size_t i) { return runs[i].run->throughput_per_s.value_or(0); };
  const auto median = [&](size_t i) { return *runs[i].run->latency.median; };
  const auto by_rate = [&](size_t a, size_t b) { return rate(a) < rate(b); };
  const size_t most = *std::max_element(fit.begin(), fit.end(), by_rate);
  const size_t least = *std::min_element(fit.begin(), fit.end(), by_rate);
  const size_t soonest =
      *std::min_element(fit.begin(), fit.end(), [&](size_t a, size_t b) { return median(a) < median(b); });
  if (rate(least) <= 0) return concat(labels[soonest], " answers soonest, with ", of_run(*runs[soonest].run), ".");
  std::string text = concat(labels[most], " does the most, with ", of_run(*runs[most].run), ": ",
                            format_number(rate(most) / rate(least)), " times as many as ", labels[least], ".");
  if (soonest != most) text += concat(" ", labels[soonest], " answers soonest, with ", of_run(*runs[soonest].run), ".");
  return text;
}

std::string of_study(const ReportedStudy& study) {
  const StudyRow* best = nullptr;
  for (const StudyRow& row : study.rows) {
    const bool keeps = !study.max_drop || !row.drop || *row.drop <= *study.max_drop;
    if (row.verdict == "FASTER" && row.ratio && keeps && !row.placeholder && (!best || *row.ratio > *best->ratio))
      best = &row;
  }
  const std::string model = file_name_of(study.model);
  if (!best)
    return concat(
        model, ": fp32",
        study.rows.empty() ? "" : concat(", with a median of ", format_number(study.rows[0].latency_ms), " ms"),
        study.rows.size() > 1 ? "; nothing else is faster beyond doubt and keeps its answers." : " alone.");
  std::string text = concat(model, ": ", best->precision, " is ", format_number(*best->ratio), " times as fast as fp32",
                            span_of(best->ratio_ci99, "", "99 % interval "));
  const auto fp32 = std::find_if(study.rows.begin(), study.rows.end(), [](const StudyRow& row) { return !row.ratio; });
  text += concat(", with a median of ", format_number(best->latency_ms), " ms",
                 fp32 == study.rows.end() ? "" : concat(" where fp32 takes ", format_number(fp32->latency_ms), " ms"));
  if (best->drop)
    text += concat(", and loses ", percent(*best->drop), " by ", study.metric,
                   study.max_drop ? concat(", within the ", percent(*study.max_drop), " that are allowed") : "");
  return text + ".";
}

}  // namespace

std::string verdict_of(const Report& report) {
  if (!report.verdict.empty()) return report.verdict;
  std::string text;
  const auto add = [&](const std::string& sentence) {
    if (!sentence.empty()) text += concat(text.empty() ? "" : " ", sentence);
  };
  for (const ReportedStudy& study : report.studies) add(of_study(study));
  if (report.studies.empty()) add(of_results(report));
  if (!text.empty()) return text;
  for (const ReportedProfile& profile : report.profiles) {
    const auto longest = std::max_element(profile.rows.begin(), profile.rows.end(),
                                          [](const ProfileRow& a, const ProfileRow& b) { return a.ms < b.ms; });
    if (longest != profile.rows.end())
      add(concat(file_name_of(profile.plan), " takes ", format_number(profile.run_ms), " ms a run, ",
                 percent(longest->share), " of it in ", longest->node, "."));
  }
  if (!text.empty()) return text;
  for (const ReportedExplanation& explanation : report.explanations) {
    for (const std::string& answer : explanation.answers) add(answer);
    if (explanation.answers.empty() && !explanation.engines.empty()) add(explanation.engines.front().answer);
  }
  return text;
}

}  // namespace temper
