// SPDX-License-Identifier: Apache-2.0
// Items a second against the size of the batch.
#include <algorithm>
#include <map>
#include <set>

#include "report/figures.h"
#include "report/text.h"

namespace temper::figures {
namespace {

// What a line of the picture has in common: everything but the batch. The words are those that tell the lines apart.
std::vector<std::string> series_of(const std::vector<LabelledRun>& runs) {
  using Part = std::string (*)(const LabelledRun&);
  const Part parts[] = {
      [](const LabelledRun& r) { return file_name_of(r.run->model); },
      [](const LabelledRun& r) { return r.run->precision.value_or(""); },
      [](const LabelledRun& r) {
        return r.run->imported && r.run->imported->device_name ? *r.run->imported->device_name : r.run->device;
      },
      [](const LabelledRun& r) {
        return r.run->threads ? concat(*r.run->threads, *r.run->threads == 1 ? " thread" : " threads") : "";
      },
      [](const LabelledRun& r) {
        return r.run->imported ? concat("TensorRT ", r.run->imported->tensorrt_version.value_or("?"))
                               : "Temper " + r.from->result.environment.version;
      },
      [](const LabelledRun& r) { return file_name_of(r.from->file); },
  };
  std::vector<std::string> names(runs.size());
  for (const Part part : parts) {
    std::set<std::string> values;
    for (const LabelledRun& run : runs) values.insert(part(run));
    if (values.size() < 2 && part != parts[0]) continue;
    for (size_t i = 0; i < runs.size(); ++i)
      if (const std::string value = part(runs[i]); !value.empty())
        names[i] += concat(names[i].empty() ? "" : " · ", value);
  }
  return names;
}

}  // namespace

void add_throughput(std::vector<Figure>& figures, const std::vector<LabelledRun>& all) {
  std::vector<LabelledRun> known;
  for (const LabelledRun& run : all)
    if (run.run->batch && run.run->throughput_per_s && *run.run->throughput_per_s > 0) known.push_back(run);
  const std::vector<std::string> series = series_of(known);
  std::map<std::string, std::set<int64_t>> batches_of;
  for (size_t i = 0; i < known.size(); ++i) batches_of[series[i]].insert(*known[i].run->batch);
  // A single point is no curve.
  std::vector<std::string> drawn;
  for (const std::string& name : series)
    if (batches_of[name].size() > 1 && std::find(drawn.begin(), drawn.end(), name) == drawn.end())
      drawn.push_back(name);
  if (drawn.empty()) return;
  Figure figure{"throughput",
                "Throughput against batch size, in items per second",
                "",
                "",
                {{{"series", false},
                  {"batch"},
                  {"items/s"},
                  {"beside the smallest batch"},
                  {"median ms of one batch"},
                  {"ms per item"}},
                 {}}};
  Json values = Json::array(), colors = Json::array();
  std::set<int64_t> batches;
  double fastest = 0;
  for (size_t s = 0; s < drawn.size(); ++s) {
    colors.push_back(color(s));
    std::vector<const BenchRun*> runs;
    for (size_t i = 0; i < known.size(); ++i)
      if (series[i] == drawn[s]) runs.push_back(known[i].run);
    std::stable_sort(runs.begin(), runs.end(),
                     [](const BenchRun* a, const BenchRun* b) { return *a->batch < *b->batch; });
    for (const BenchRun* run : runs) {
      batches.insert(*run->batch);
      fastest = std::max(fastest, *run->throughput_per_s);
      values.push_back({{"series", drawn[s]}, {"batch", *run->batch}, {"rate", *run->throughput_per_s}});
      figure.table.rows.push_back(
          {drawn[s], concat(*run->batch), format_number(*run->throughput_per_s),
           concat(format_number(*run->throughput_per_s / *runs.front()->throughput_per_s, 3), "x"),
           shown(*run, run->latency.median, "latency_ms.median"),
           run->latency.median ? format_number(*run->latency.median / double(*run->batch)) : "n/a"});
    }
  }
  const bool logarithmic = *batches.rbegin() > 4 * *batches.begin();
  const Json scale =
      logarithmic ? Json{{"type", "log"}, {"base", 2}, {"nice", false}} : Json{{"zero", false}, {"nice", false}};
  Json ticks = Json::array();
  for (int64_t batch : batches) ticks.push_back(batch);
  const Json encoding{
      {"x",
       {{"field", "batch"},
        {"type", "quantitative"},
        {"scale", scale},
        {"axis",
         {{"title", logarithmic ? "batch size (logarithmic)" : "batch size"},
          {"values", ticks},
          {"format", "d"},
          {"labelOverlap", "greedy"}}}}},
      {"y",
       {{"field", "rate"},
        {"type", "quantitative"},
        {"scale", {{"zero", true}}},
        {"axis", {{"title", "items per second"}, {"format", rate_format(fastest)}}}}},
      {"color",
       {{"field", "series"},
        {"type", "nominal"},
        {"scale", {{"domain", drawn}, {"range", colors}}},
        {"legend", drawn.size() > 1 ? Json{{"title", nullptr}, {"orient", "top"}, {"columns", 1}, {"symbolOpacity", 1}}
                                    : Json(nullptr)}}},
      {"tooltip",
       {{{"field", "series"}, {"title", "series"}},
        {{"field", "batch"}, {"title", "batch"}},
        {{"field", "rate"}, {"title", "items/s"}, {"format", ".4~g"}}}}};
  figure.spec = spec_of({{"height", 260},
                         {"data", {{"values", values}}},
                         {"mark", {{"type", "line"}, {"point", {{"size", 50}}}, {"strokeWidth", 2}}},
                         {"encoding", encoding}});
  figure.text = "Items are batch × runs per second. Where the line goes flat, a larger batch only adds latency.";
  if (drawn.size() < batches_of.size()) figure.text += " Series with one batch size only are left out.";
  figures.push_back(std::move(figure));
}

}  // namespace temper::figures
