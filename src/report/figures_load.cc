// SPDX-License-Identifier: Apache-2.0
// Figures of load: items a second against batch and streams, latency against the rate of requests.
#include <algorithm>
#include <set>

#include "report/figures.h"
#include "report/names.h"
#include "report/text.h"

namespace temper::figures {
namespace {

// The series along a trait that have more than one point; a single point is no curve.
std::vector<Series> curves_along(Trait along, const std::vector<RunOf>& runs, double (*at)(const BenchRun&),
                                 bool& single) {
  std::vector<Series> curves;
  for (Series& series : series_along(along, runs)) {
    std::stable_sort(series.runs.begin(), series.runs.end(),
                     [&](size_t a, size_t b) { return at(*runs[a].run) < at(*runs[b].run); });
    if (at(*runs[series.runs.front()].run) < at(*runs[series.runs.back()].run)) curves.push_back(std::move(series));
    else single = true;
  }
  return curves;
}

// Adds the names of the curves, their colours and the legend.
void add_series(Json& parameters, const std::vector<Series>& curves) {
  Json names = Json::array(), colors = Json::array();
  for (size_t i = 0; i < curves.size(); ++i) names.push_back(curves[i].name), colors.push_back(color(i));
  parameters.update({{"names", names}, {"colors", colors}, {"legend", legend_of(curves.size())}});
}

void add_throughput(std::vector<Figure>& figures, const std::vector<LabelledRun>& all, Trait along) {
  const bool batch = along == Trait::batch;
  const auto at = batch ? [](const BenchRun& run) { return double(*run.batch); }
                        : [](const BenchRun& run) { return double(*run.streams); };
  std::vector<RunOf> runs;
  for (const LabelledRun& run : all)
    if (run.run->batch && run.run->streams && run.run->load == "closed" && run.run->throughput_per_s.value_or(0) > 0)
      runs.push_back({run.from, run.run});
  bool single = false;
  const std::vector<Series> curves = curves_along(along, runs, at, single);
  if (curves.empty()) return;
  Figure figure{batch ? "throughput" : "streams",
                concat("Throughput against ", batch ? "batch size" : "streams", ", in items per second"),
                "",
                "",
                {{{"series", false},
                  {batch ? "batch" : "streams"},
                  {"items/s"},
                  {batch ? "beside the smallest batch" : "beside the fewest streams"},
                  {"median ms of one batch"},
                  {"ms per item"}},
                 {}}};
  Json values = Json::array();
  std::set<int64_t> places;
  double fastest = 0;
  for (const Series& curve : curves) {
    const double first = *runs[curve.runs.front()].run->throughput_per_s;
    for (size_t i : curve.runs) {
      const BenchRun& run = *runs[i].run;
      const double rate = *run.throughput_per_s;
      places.insert(int64_t(at(run)));
      fastest = std::max(fastest, rate);
      values.push_back({{"series", curve.name}, {"at", at(run)}, {"rate", rate}});
      figure.table.rows.push_back({curve.name, concat(int64_t(at(run))), format_number(rate),
                                   concat(format_number(rate / first, 3), "x"),
                                   shown(run, run.latency.median, "latency_ms.median"), format_number(1e3 / rate)});
    }
  }
  const bool logarithmic = *places.rbegin() > 4 * *places.begin();
  const Json scale =
      logarithmic ? Json{{"type", "log"}, {"base", 2}, {"nice", false}} : Json{{"zero", false}, {"nice", false}};
  const std::string name = batch ? "batch size" : "streams";
  Json parameters{{"values", values},
                  {"scale", scale},
                  {"title", logarithmic ? concat(name, " (logarithmic)") : name},
                  {"along", name},
                  {"places", std::vector<int64_t>(places.begin(), places.end())},
                  {"rate_format", rate_format(fastest)}};
  add_series(parameters, curves);
  figure.spec = filled_spec(throughput_spec(), parameters);
  figure.text = batch ? "Items are batch × runs per second. Where the line goes flat, a larger batch only adds latency."
                      : "Items are batch × runs per second, of all streams. Streams share the cores: latency grows.";
  if (single) figure.text += concat(" Runs with no other ", name, " to compare with are left out.");
  figures.push_back(std::move(figure));
}

// Latency of an open load: requests come at a rate, whether or not the machine is ready.
void add_rates(std::vector<Figure>& figures, const std::vector<LabelledRun>& all) {
  std::vector<RunOf> runs;
  for (const LabelledRun& run : all)
    if (run.run->request_rate_per_s && run.run->latency.median) runs.push_back({run.from, run.run});
  bool single = false;
  const auto at = [](const BenchRun& run) { return *run.request_rate_per_s; };
  const std::vector<Series> curves = curves_along(Trait::rate, runs, at, single);
  if (curves.empty()) return;
  Figure figure{"rate",
                "Latency against request rate (open loop), in milliseconds",
                "",
                "",
                {{{"series", false},
                  {"requests/s asked"},
                  {"items/s served"},
                  {"median"},
                  {"p90"},
                  {"p99"},
                  {"max"},
                  {"samples"},
                  {"remark", false}},
                 {}}};
  Json values = Json::array();
  double low = 1e300, high = 0;
  std::set<std::string> drawn;
  for (const Series& curve : curves)
    for (size_t i : curve.runs) {
      const BenchRun& run = *runs[i].run;
      const Latency& l = run.latency;
      for (const auto& [name, value] : {std::pair{"median", l.median}, {"p90", l.p90}, {"p99", l.p99}})
        if (value && *value > 0) {
          values.push_back({{"series", curve.name}, {"rate", at(run)}, {"what", name}, {"ms", *value}});
          low = std::min(low, *value), high = std::max(high, *value);
          drawn.insert(name);
        }
      const auto note = run.notes.find("throughput_per_s");
      figure.table.rows.push_back({curve.name, whole(at(run)), shown(run, run.throughput_per_s, "throughput_per_s"),
                                   shown(run, l.median, "latency_ms.median"), shown(run, l.p90, "latency_ms.p90"),
                                   shown(run, l.p99, "latency_ms.p99"), shown(run, l.max, "latency_ms.max"),
                                   run.samples ? concat(*run.samples) : "n/a",
                                   note == run.notes.end() ? "" : note->second});
    }
  const bool logarithmic = high > 8 * low;
  const Json scale = logarithmic ? Json{{"type", "log"}, {"nice", false}} : Json{{"zero", true}};
  Json whats = Json::array(), dashes = Json::array();
  for (const auto& [name, dash] : {std::pair{"median", Json{1, 0}}, {"p90", Json{6, 3}}, {"p99", Json{2, 3}}})
    if (drawn.contains(name)) whats.push_back(name), dashes.push_back(dash);
  Json parameters{{"values", values},
                  {"scale", scale},
                  {"title", logarithmic ? "latency, ms (logarithmic)" : "latency, ms"},
                  {"whats", whats},
                  {"dashes", dashes}};
  add_series(parameters, curves);
  figure.spec = filled_spec(rate_spec(), parameters);
  figure.text =
      "Requests come by chance at this rate, ready or not, and their latency counts from the moment they were meant to "
      "be sent, so "
      "waiting is in it. Where the line turns up, the machine cannot keep up. Percentiles without enough samples are "
      "left out.";
  figures.push_back(std::move(figure));
}

}  // namespace

void add_load(std::vector<Figure>& figures, const std::vector<LabelledRun>& runs) {
  add_throughput(figures, runs, Trait::batch);
  add_throughput(figures, runs, Trait::streams);
  add_rates(figures, runs);
}

}  // namespace temper::figures
