// SPDX-License-Identifier: Apache-2.0
// Names that tell runs apart.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "report/report.h"

namespace temper {

struct RunOf {
  const ReportedResult* from;
  const BenchRun* run;
};
std::vector<RunOf> runs_of(const Report& report);  // in the order of results and runs

// In order of importance.
enum class Trait { model, precision, batch, streams, rate, device, program, threads, cpu, file };
constexpr int kTraits = 10;
std::string trait_of(Trait trait, const RunOf& run);  // "batch 8"; empty where it is unknown or goes without saying

// Which program measured an imported run: "TensorRT 8.6.1", "temper trtexec 0.1.0". `unknown`: in the place of a
// version.
std::string imported_from(const BenchRun& run, const std::string& unknown);

// A short name for each: the model, precision and load where they differ, the rest where two would have the same name.
// Traits in `without` are not looked at. Names may still be equal where nothing differs.
std::vector<std::string> names_of(const std::vector<RunOf>& runs, const std::set<Trait>& without = {});

// Runs that differ in `along` at most, each group in order of appearance; the group's name is that of its first run.
struct Series {
  std::string name;
  std::vector<size_t> runs;  // indices
};
std::vector<Series> series_along(Trait along, const std::vector<RunOf>& runs);

// Why no verdict may rest on the run, in two words; empty where one may. "contradicts itself", "drifts"
std::string mark_of(const BenchRun& run);

}  // namespace temper
