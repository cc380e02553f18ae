// SPDX-License-Identifier: Apache-2.0
// Figures of latency: how long a run takes, by every sample, and how the samples came over time.
#include <algorithm>
#include <cmath>
#include <limits>

#include "report/figures.h"
#include "report/names.h"
#include "report/text.h"
#include "report/thin.h"

namespace temper::figures {
namespace {

constexpr size_t kMostRuns = 24;    // in the picture of distributions
constexpr size_t kMostSeries = 8;   // in that over time: as many as there are colours
constexpr double kLogarithmic = 8;  // from this ratio of the largest to the smallest value on

// Figures of a run that are drawn as lines, in the order of the legend.
const std::pair<const char*, std::optional<double> Latency::*> kStatistics[] = {{"median", &Latency::median},
                                                                                {"mean", &Latency::mean},
                                                                                {"p90", &Latency::p90},
                                                                                {"p95", &Latency::p95},
                                                                                {"p99", &Latency::p99}};

bool has_samples(const BenchRun& run) { return run.samples_ms && !run.samples_ms->empty(); }

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = 0;
  void add(const std::optional<double>& value) {
    if (value && *value > 0) low = std::min(low, *value), high = std::max(high, *value);
  }
  bool logarithmic() const { return high > kLogarithmic * low; }
};

Json scale_of(const Range& range) {
  if (range.logarithmic()) return {{"type", "log"}, {"nice", false}, {"domain", {range.low * 0.95, range.high * 1.05}}};
  return {{"zero", false}};
}

std::string marked(const LabelledRun& labelled) {
  return concat(labelled.label, mark_of(*labelled.run).empty() ? "" : " (not fit for a verdict)");
}

Table latency_table(const std::vector<LabelledRun>& runs) {
  Table table{{{"run", false},
               {"first (cold)"},
               {"min"},
               {"median"},
               {"95 % interval of the median"},
               {"mean"},
               {"p90"},
               {"p95"},
               {"p99"},
               {"max"},
               {"standard deviation"},
               {"stddev ÷ mean (CoV)"},
               {"outliers"},
               {"samples"}},
              {}};
  for (const LabelledRun& labelled : runs) {
    const BenchRun& run = *labelled.run;
    const Latency& l = run.latency;
    const auto number = [&](const std::optional<double>& value, const char* name) {
      return shown(run, value, concat("latency_ms.", name));
    };
    const bool spread = l.stddev && l.mean && *l.mean > 0;
    table.rows.push_back(
        {marked(labelled), shown(run, run.first_run_ms, "first_run_ms"), number(l.min, "min"),
         number(l.median, "median"),
         l.median_ci95 ? concat(format_number(l.median_ci95->low), " to ", format_number(l.median_ci95->high))
                       : number({}, "median_ci95"),
         number(l.mean, "mean"), number(l.p90, "p90"), number(l.p95, "p95"), number(l.p99, "p99"), number(l.max, "max"),
         number(l.stddev, "stddev"), spread ? percent(*l.stddev / *l.mean) : "n/a",
         run.outliers ? concat(*run.outliers) : shown(run, {}, "outliers"),
         run.samples ? concat(*run.samples) : shown(run, {}, "samples")});
  }
  return table;
}

Figure distribution(const std::vector<LabelledRun>& all) {
  Figure figure{"latency", "Latency of every run, in milliseconds", "", "", latency_table(all)};
  const std::vector<LabelledRun> runs(all.begin(), all.begin() + std::ptrdiff_t(std::min(all.size(), kMostRuns)));
  Range range;
  for (const LabelledRun& labelled : runs) {
    const BenchRun& run = *labelled.run;
    range.add(run.first_run_ms), range.add(run.latency.min), range.add(run.latency.max);
    for (const auto& [name, field] : kStatistics) range.add(run.latency.*field);
  }
  if (range.high == 0) {
    figure.text = "No file says how long a run took.";
    return figure;
  }
  const bool logarithmic = range.logarithmic();
  Json dots = Json::array(), lines = Json::array(), firsts = Json::array(), spans = Json::array(),
       names = Json::array();
  bool thinned = false, any_span = false;
  std::vector<std::string> kinds;
  const auto kind = [&](const char* name) {
    if (std::find(kinds.begin(), kinds.end(), name) == kinds.end()) kinds.push_back(name);
  };
  for (const LabelledRun& labelled : runs) {
    const BenchRun& run = *labelled.run;
    const Latency& l = run.latency;
    names.push_back({{"run", labelled.label}, {"shown", shortened_label(marked(labelled), 60)}});
    if (has_samples(run)) {
      const auto drawn = dots_of(*run.samples_ms, logarithmic);
      thinned = thinned || drawn.size() < run.samples_ms->size();
      for (const Dot& dot : drawn)
        if (!logarithmic || dot.value > 0)
          dots.push_back(
              {{"run", labelled.label}, {"ms", dot.value}, {"offset", std::round(1000 * dot.offset) / 1000}});
      kind("one run");
    } else if (l.min && l.max && (!logarithmic || *l.min > 0)) {
      spans.push_back({{"run", labelled.label}, {"low", *l.min}, {"high", *l.max}});
      any_span = true;
    }
  }
  for (const auto& [name, field] : kStatistics) {
    if (std::string_view(name) == "mean" || std::string_view(name) == "p95")
      continue;  // the table has them; the picture stays readable
    for (const LabelledRun& labelled : runs)
      if (const auto& value = labelled.run->latency.*field; value && *value > 0) {
        lines.push_back({{"run", labelled.label},
                         {"ms", *value},
                         {"what", name},
                         {"said", shown(*labelled.run, value, concat("latency_ms.", name))}});
        kind(name);
      }
  }
  for (const LabelledRun& labelled : runs)
    if (const auto& value = labelled.run->first_run_ms; value && *value > 0) {
      firsts.push_back({{"run", labelled.label}, {"ms", *value}});
      kind("first (cold)");
    }
  Json colors = Json::array();
  for (const std::string& name : kinds)
    colors.push_back(name == "one run"  ? color(0)
                     : name == "median" ? kInk
                     : name == "p90"    ? color(4)
                     : name == "p99"    ? color(1)
                                        : color(2));

  figure.spec = filled_spec(latency_spec(),
                            {{"height", 76 * runs.size()},
                             {"scale", scale_of(range)},
                             {"title", logarithmic ? "latency of one run, ms (logarithmic)" : "latency of one run, ms"},
                             {"names", names},
                             {"kinds", kinds},
                             {"colors", colors},
                             {"any_span", any_span},
                             {"spans", spans},
                             {"any_dot", !dots.empty()},
                             {"dots", dots},
                             {"any_line", !lines.empty()},
                             {"lines", lines},
                             {"any_first", !firsts.empty()},
                             {"firsts", firsts}});
  figure.text =
      "Each dot is one run; where many took about the same time the dots spread, so two modes are two bulges. The "
      "first (cold) run is apart from the samples and in none of the statistics.";
  if (thinned)
    figure.text +=
        " Of many samples some are drawn: evenly by rank, more densely towards both ends, the extremes always.";
  if (any_span) figure.text += " A line from minimum to maximum stands where a file has no samples.";
  if (runs.size() < all.size())
    figure.text += concat(" The picture shows the first ", runs.size(), " of ", all.size(), " runs, the table all.");
  return figure;
}

void add_over_time(std::vector<Figure>& figures, const std::vector<LabelledRun>& all) {
  std::vector<const LabelledRun*> runs;
  size_t possible = 0;
  bool open = false;
  for (const LabelledRun& labelled : all) {
    if (!has_samples(*labelled.run) || labelled.run->samples_ms->size() < 6 ||
        !(labelled.run->latency.median.value_or(0) > 0))
      continue;
    if (labelled.run->load != "closed") {  // what it would show is the queue, which comes and goes
      open = true;
      continue;
    }
    ++possible;
    if (runs.size() < kMostSeries) runs.push_back(&labelled);
  }
  if (runs.empty()) return;
  Figure figure{"order",
                "Latency over the measurement, beside the median of its run",
                "",
                "",
                {{{"run", false},
                  {"first tenth"},
                  {"last tenth"},
                  {"last ÷ first"},
                  {"drift of thirds"},
                  {"slowest ÷ median"},
                  {"samples"}},
                 {}}};
  Json values = Json::array(), names = Json::array(), colors = Json::array();
  size_t longest = 1;
  Range range;
  for (size_t i = 0; i < runs.size(); ++i) {
    const BenchRun& run = *runs[i]->run;
    const std::vector<double>& ms = *run.samples_ms;
    const double middle = *run.latency.median;
    names.push_back(runs[i]->label);
    colors.push_back(color(i));
    for (const Stretch& s : stretches_of(ms)) {
      values.push_back({{"run", runs[i]->label},
                        {"at", std::round(1e4 * s.place) / 100},
                        {"median", s.median / middle},
                        {"max", s.max / middle}});
      longest = std::max(longest, s.count);
      range.add(s.median / middle), range.add(s.max / middle);
    }
    const size_t tenth = std::max<size_t>(ms.size() / 10, 1);
    const double begin = median({ms.begin(), ms.begin() + std::ptrdiff_t(tenth)}),
                 end = median({ms.end() - std::ptrdiff_t(tenth), ms.end()});
    figure.table.rows.push_back(
        {runs[i]->label, concat(format_number(begin), " ms"), concat(format_number(end), " ms"),
         begin > 0 ? concat(format_number(end / begin), "x") : "n/a", run.drift ? percent(*run.drift) : "n/a",
         concat(format_number(*std::max_element(ms.begin(), ms.end()) / middle), "x"), concat(ms.size())});
  }
  figure.spec = filled_spec(order_spec(), {{"values", values},
                                           {"scale", scale_of(range)},
                                           {"names", names},
                                           {"colors", colors},
                                           {"legend", legend_of(runs.size())}});
  figure.text = longest > 1
                    ? concat("Line: the median of up to ", longest, " consecutive runs; dots: the slowest of them.")
                    : "Each dot is one run, in the order taken.";
  figure.text += " A line that rises or falls is drift; bursts of slow runs are disturbance by others.";
  if (open) figure.text += " Runs under an open load are not in it.";
  if (runs.size() < possible)
    figure.text += concat(" Shown are the first ", runs.size(), " of ", possible, " runs with samples.");
  figures.push_back(std::move(figure));
}

}  // namespace

void add_latency(std::vector<Figure>& figures, const std::vector<LabelledRun>& runs) {
  figures.push_back(distribution(runs));
  add_over_time(figures, runs);
}

}  // namespace temper::figures
