// SPDX-License-Identifier: Apache-2.0
#include "report/names.h"

#include <algorithm>
#include <map>

#include "base/concat.h"
#include "base/count_of.h"
#include "base/quote.h"
#include "report/text.h"

namespace temper {

std::vector<RunOf> runs_of(const Report& report) {
  std::vector<RunOf> runs;
  for (const ReportedResult& result : report.results)
    for (const BenchRun& run : result.result.runs) runs.push_back({&result, &run});
  return runs;
}

std::string imported_from(const BenchRun& run, const std::string& unknown) {
  const ImportedRun& from = *run.imported;
  if (run.backend != "tensorrt") return from.source.substr(0, from.source.find(" log "));
  return concat("TensorRT ", from.tensorrt_version.value_or(unknown));
}

std::string trait_of(Trait trait, const RunOf& of) {
  const BenchRun& run = *of.run;
  const auto counted = [](const auto& count, const char* one) { return count ? count_of(*count, one) : std::string(); };
  switch (trait) {
    case Trait::model: return file_name_of(run.model);
    case Trait::precision: return run.precision.value_or("");
    case Trait::batch: return run.batch ? concat("batch ", *run.batch) : "";
    case Trait::streams: return counted(run.streams, "stream");
    case Trait::rate: return run.request_rate_per_s ? concat(whole(*run.request_rate_per_s), " requests/s") : "";
    case Trait::device: return run.imported && run.imported->device_name ? *run.imported->device_name : run.device;
    case Trait::program:
      return run.imported ? imported_from(run, "of unknown version")
                          : concat("Temper ", of.from->result.environment.version);
    case Trait::threads: return counted(run.threads, "thread");
    case Trait::cpu: return of.from->result.environment.cpu_model;
    case Trait::file: return file_name_of(of.from->file);
  }
  return "";
}

std::vector<std::string> names_of(const std::vector<RunOf>& runs, const std::set<Trait>& without) {
  std::vector<std::string> names(runs.size());
  for (int t = 0; t < kTraits; ++t) {
    const Trait trait = Trait(t);
    if (without.contains(trait)) continue;
    std::set<std::string> values;
    for (const RunOf& run : runs) values.insert(trait_of(trait, run));
    std::map<std::string, int> count;
    for (const std::string& name : names) ++count[name];
    for (size_t i = 0; i < runs.size(); ++i) {
      const std::string value = trait_of(trait, runs[i]);
      const bool wanted =
          trait == Trait::model || (values.size() > 1 && (trait <= Trait::rate || count.at(names[i]) > 1));
      if (!value.empty() && wanted) names[i] += concat(names[i].empty() ? "" : " · ", value);
    }
  }
  for (std::string& name : names) name = printable(name);
  return names;
}

std::vector<Series> series_along(Trait along, const std::vector<RunOf>& runs) {
  std::vector<Series> series;
  std::vector<std::vector<std::string>> keys;
  std::vector<RunOf> firsts;
  for (size_t i = 0; i < runs.size(); ++i) {
    std::vector<std::string> key{runs[i].run->model, runs[i].run->load};
    for (int t = 0; t < kTraits; ++t)
      if (Trait(t) != along) key.push_back(trait_of(Trait(t), runs[i]));
    const size_t at = size_t(std::find(keys.begin(), keys.end(), key) - keys.begin());
    if (at == keys.size()) keys.push_back(key), series.emplace_back(), firsts.push_back(runs[i]);
    series[at].runs.push_back(i);
  }
  const std::vector<std::string> names = names_of(firsts, {along});
  std::map<std::string, int> seen;
  for (size_t i = 0; i < series.size(); ++i) {
    const int before = seen[names[i]]++;
    series[i].name = before ? concat(names[i], " · ", before + 1) : names[i];
  }
  return series;
}

std::string mark_of(const BenchRun& run) {
  if (unfit_for_verdict(run).empty()) return "";
  return run.imported && run.imported->consistent == false ? "contradicts itself" : "drifts";
}

}  // namespace temper
