// SPDX-License-Identifier: Apache-2.0
// INT8 or FP8 with 16 bits: which layers compute in 16 bits although they could in 8, because they are faster so.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "quantize/placement.h"

namespace temper {

// Builds and measures the plan with these layers in 16 bits.
using MixPlanner = std::function<std::shared_ptr<const Plan>(const std::string& what, const KeptNodes& keep)>;
// The faster of two such plans, by timing both in turns.
using MixComparison = std::function<bool(const Plan& plan, const Plan& other)>;
// Told of each plan that is built whatever comes of the others, before the first of them.
using MixExpectation = std::function<void(const KeptNodes& keep)>;

struct LayerMix {
  KeptNodes keep;                    // in 16 bits
  std::string text;                  // for people: what the plans took
  std::shared_ptr<const Plan> plan;  // that has them so; null where none was built
};

// `layers`: those that are in 8 bits otherwise, each with the names of the values that it reads quantized; `bytes` is
// the word for them, "int8" or "fp8". Three plans are built: all of these layers in 8 bits, all in 16, and each layer
// in what it is faster in. The time of a layer is that of its step, where one step computes several layers that of all,
// and a change to 8 bits or from them that is a step of its own counts for the layers in 8 bits that read its result.
// The fastest of the three plans, in turns, is the answer: so it is never slower than the better of the first two,
// whatever the sum of steps says. With no layers nothing is built.
LayerMix layers_by_speed(const std::map<std::string, std::vector<std::string>>& layers, const std::string& bytes,
                         DType half, const MixPlanner& build, const MixComparison& is_faster,
                         const MixExpectation& expect = nullptr);

}  // namespace temper
