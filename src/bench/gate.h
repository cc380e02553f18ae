// SPDX-License-Identifier: Apache-2.0
// Holds a result against its baseline for CI: what is slower beyond doubt fails. As a table, JSON, JUnit XML and the
// annotations of services that run CI.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/compare.h"
#include "bench/table.h"

namespace temper {

struct GatedRun {
  std::string label;                      // label_of() the result's run
  double baseline_ms = 0, result_ms = 0;  // medians
  Gate gate;
  std::optional<double> samples_needed;  // of the result, where more samples would decide
  std::string forced;                    // the differences that were overlooked by force; empty: none
};
struct GatedResult {
  std::string baseline, result;  // as the user calls them
  double max_slowdown = 0;       // a share
  std::vector<GatedRun> runs;
  size_t missing = 0;   // runs of the baseline that no run of the result is held against
  bool strict = false;  // an uncertain answer fails, too, and so does a missing run

  bool failed() const;
};
struct GateOptions {
  double max_slowdown = 0.03;
  bool strict = false, force = false;
};
// Every run of the result that has one in the baseline beside it. What is uncertain or missing is a warning. Throws
// Error{unsupported} where runs differ in more than what is compared, unless it is forced, and as matching_runs().
GatedResult gate_results(const std::string& baseline_name, const BenchResult& baseline, const std::string& result_name,
                         const BenchResult& result, const GateOptions& options);

std::string sentence_of(const GatedRun& run);  // "+4.1 % (+3.4 to +4.9 %), 2.31 ms after 2.22 ms: FAIL"
Table table_of(const GatedResult& gated);
nlohmann::ordered_json json_of(const GatedResult& gated);  // temper.gate/1
// One <testsuite>: a test for each run, with a <failure>, or <skipped> where the answer is uncertain and not strict.
std::string junit_of(const std::vector<GatedResult>& gated);

enum class AnnotationStyle { github, azure };
// One line for each run that did not pass, in the form that GitHub's and Azure's workflows read from the log.
std::string annotations_of(const GatedResult& gated, AnnotationStyle style);

}  // namespace temper
