// SPDX-License-Identifier: Apache-2.0
// Times loaded engines in turns in this process.
#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/progress.h"
#include "measure/paired.h"
#include "runtime/engine.h"

namespace temper {

// Throws Error{unsupported} with the differences of `a` and `b`, names as the user gave them, unless there are none or
// the comparison is forced: then what it returns marks the answer.
std::string refuse_unlike(const std::vector<std::string>& differences, const std::string& a, const std::string& b,
                          bool force);

struct SideBySide {
  double seconds = 6;
  std::string what;  // for the progress
  double burn = 0;   // the last engine is slowed by this fraction of each run's time, to test verdicts
  Progress progress;
};
// Times every engine beside the first on the same seeded random inputs of these shapes.
// Throws Error{unsupported} where they take different inputs.
Turns time_side_by_side(const std::vector<std::shared_ptr<const Engine>>& engines, const std::vector<Dims>& shapes,
                        const SideBySide& options);

// By engine, the median of its runs in ms.
std::vector<double> medians_of(const Turns& turns);

// Bytes that running takes: constants (weights, packed) and activations of the plan for these shapes; 0 where one plan
// is not enough.
int64_t running_bytes(const Engine& engine, const std::vector<Dims>& shapes);

// "2.31x as fast, 99 % interval 2.28 to 2.34 (40 rounds of turns): FASTER"
std::string paired_text(const Paired& paired);
// Says what would decide, where that is known: "; about 400 rounds would decide: --duration 60s"
std::string remedy_text(const Paired& paired);
nlohmann::ordered_json json_of(const Paired& paired);

}  // namespace temper
