// SPDX-License-Identifier: Apache-2.0
// The speed of engines that are at hand, timed in turns in this process.
#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/verb.h"
#include "measure/paired.h"
#include "runtime/engine.h"

namespace temper::cli {

// Times b beside a on the same seeded random inputs of these shapes. Throws Error{unsupported} where they take different
// inputs, are on different devices or use different numbers of threads, which would not be a comparison of plans.
Paired time_side_by_side(const std::shared_ptr<const Engine>& a, const std::shared_ptr<const Engine>& b, const std::vector<Dims>& shapes, double seconds, const std::string& what,
                         const Context& context);

// Bytes that running takes: constants (weights, packed) and activations of the plan for these shapes; 0 where one plan is
// not enough.
int64_t running_bytes(const Engine& engine, const std::vector<Dims>& shapes);

// "2.31x as fast, 95 % interval 2.28 to 2.34: FASTER"
std::string paired_text(const Paired& paired);
nlohmann::ordered_json json_of(const Paired& paired);

}  // namespace temper::cli
