// SPDX-License-Identifier: Apache-2.0
#include "optimize/layers_by_speed.h"

#include <gtest/gtest.h>

#include "base/concat.h"

namespace temper {
namespace {

const std::map<std::string, std::vector<std::string>> kLayers{{"a", {"x"}}, {"b", {"y"}}, {"c", {"y", "z"}}};

// A machine on which each layer takes so long in int8 and in f16, and every plan so much more than its steps.
struct Machine {
  std::map<std::string, std::pair<double, double>> ms;  // by step: in int8, in f16
  std::map<size_t, double> more;                        // by the number of layers in f16
  std::vector<KeptNodes> built, expected;

  LayerMix mix(DType half = DType::f16) {
    return layers_by_speed(
        kLayers, "int8", half,
        [&](const std::string&, const KeptNodes& keep) {
          built.push_back(keep);
          auto plan = std::make_shared<Plan>();
          plan->segments.emplace_back();
          for (const auto& step : ms) {
            const std::string& name = step.first;
            const auto& times = step.second;
            const bool in_half = std::ranges::any_of(keep, [&](const auto& kept) {
              return name.find(kept.first) != name.npos && name.find('/') == name.npos;
            });
            const double step_ms = in_half ? times.second : times.first;
            if (name.find('/') != name.npos && keep.size() == kLayers.size()) continue;  // nothing is quantized
            plan->segments[0].steps.emplace_back();
            plan->segments[0].steps.back().node = name;
            plan->segments[0].steps.back().ms = step_ms;
          }
          const auto extra = more.find(keep.size());
          plan->whole.ms = plan->steps_ms() + (extra == more.end() ? 0 : extra->second);
          return plan;
        },
        [](const Plan& plan, const Plan& other) { return plan.whole.ms < other.whole.ms; },
        [&](const KeptNodes& keep) {
          EXPECT_TRUE(built.empty());
          expected.push_back(keep);
        });
  }
};

TEST(LayersBySpeed, EachLayerIsInWhatItIsFasterIn) {
  Machine machine{{{"a", {1, 2}}, {"b", {3, 2}}, {"c", {4, 9}}}, {}, {}};
  const LayerMix mix = machine.mix();
  EXPECT_EQ(mix.keep, (KeptNodes{{"b", DType::f16}}));
  ASSERT_EQ(machine.built.size(), 3u);
  machine.built.pop_back();  // the third comes of the times of the first two
  EXPECT_EQ(machine.expected, machine.built);
  EXPECT_EQ(mix.text,
            "of 3 layers that may be in int8: all so 8 ms, all in fp16 13 ms, 1 in fp16 because they are faster so 7 "
            "ms; taken: 1 in fp16, 2 in int8");
  EXPECT_EQ(Machine{machine.ms}.mix(DType::bf16).keep, (KeptNodes{{"b", DType::bf16}}));
}

TEST(LayersBySpeed, TheMixIsNeverSlowerThanTheBetterOfBothWhateverTheStepsSay) {
  Machine changes{{{"a", {1, 2}}, {"b", {3, 2}}, {"c", {4, 9}}}, {{1, 2.0}}, {}};  // between the layers
  EXPECT_EQ(changes.mix().keep, KeptNodes());
  Machine floats{{{"a", {3, 2}}, {"b", {3, 2}}, {"c", {4, 4.5}}}, {{2, 5.0}}, {}};
  EXPECT_EQ(floats.mix().keep.size(), 3u);
  Machine integers{{{"a", {1, 2}}, {"b", {1, 2}}, {"c", {1, 2}}}, {}, {}};
  EXPECT_EQ(integers.mix().keep, KeptNodes());
  EXPECT_EQ(integers.built.size(), 2u) << "there is nothing to mix";
}

TEST(LayersBySpeed, QuantizingCountsForThoseThatReadTheResult) {
  for (const char* step : {"y/quantize", "y/largest", "y/least", "y/row_scales", "y/quantize_rows"}) {
    Machine machine{{{"a", {1, 2}}, {"b", {1.5, 2}}, {"c", {4, 9}}, {step, {1.2, 0}}}, {{1, -1.2}}, {}};
    // Half of it for each of b and c; a does not read it. It is gone where b is in f16.
    EXPECT_EQ(machine.mix().keep, (KeptNodes{{"b", DType::f16}})) << step;
  }
}

TEST(LayersBySpeed, LayersOfOneStepAreDecidedTogether) {
  Machine machine{{{"a+b", {3, 2}}, {"c", {1, 2}}}, {}, {}};
  EXPECT_EQ(machine.mix().keep, (KeptNodes{{"a", DType::f16}, {"b", DType::f16}}));
  Machine chain{{{"a", {1, 2}}, {"b + c", {5, 4}}}, {}, {}};
  EXPECT_EQ(chain.mix().keep, (KeptNodes{{"b", DType::f16}, {"c", DType::f16}}));
}

TEST(LayersBySpeed, WhatCannotBeMeasuredIsNotMixed) {
  const MixPlanner none = [](const std::string&, const KeptNodes&) { return nullptr; };
  const MixComparison never = [](const Plan&, const Plan&) -> bool {
    ADD_FAILURE();
    return false;
  };
  EXPECT_TRUE(layers_by_speed(kLayers, "int8", DType::f16, none, never).keep.empty());
  EXPECT_TRUE(layers_by_speed({}, "int8", DType::f16, none, never).text.empty());
}

}  // namespace
}  // namespace temper
