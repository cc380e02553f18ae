// SPDX-License-Identifier: Apache-2.0
#include "quantize/search.h"

#include <gtest/gtest.h>

#include <map>

namespace temper {
namespace {

// Losses that add up: what a layer loses in int8 does not depend on the others.
struct FakeModel {
  std::map<std::string, Loss> layers;
  double base = 0;     // lost with every layer in FP32
  double in_bf16 = 0;  // of what a layer loses in int8, what it loses there
  std::vector<KeptNodes> asked;

  LayerSearch search(double max_drop, bool bf16 = false) {
    std::vector<std::string> names;
    for (const auto& [name, loss] : layers) names.push_back(name);
    return search_layers(names, bf16 ? std::optional(DType::bf16) : std::nullopt, [&](const KeptNodes& keep) {
      asked.push_back(keep);
      Loss total{base};
      for (const auto& [name, loss] : layers)
        if (const auto it = keep.find(name); it == keep.end() || it->second == DType::bf16) {
          const double share = it == keep.end() ? 1 : in_bf16;
          total.drop += share * loss.drop, total.noise += share * loss.noise;
        }
      total.holds = total.drop <= max_drop;
      return total;
    });
  }
};

TEST(SearchLayers, NothingIsRaisedWhereInt8Holds) {
  FakeModel model{{{"a", {0.001, 0.1}}, {"b", {0.002, 0.2}}}};
  const LayerSearch found = model.search(0.005);
  EXPECT_TRUE(found.holds);
  EXPECT_TRUE(found.keep.empty());
  EXPECT_EQ(found.trials, 1);
  EXPECT_NEAR(found.loss.drop, 0.003, 1e-12);
}

TEST(SearchLayers, TheWorstAreRaisedAndNoMoreThanNeeded) {
  FakeModel model;
  for (int i = 0; i < 20; ++i) model.layers[std::string(1, char('a' + i))] = {0.001 * i, 0.01 * i};
  const LayerSearch found = model.search(0.1);  // 0.190 in all; t, s, r, q, p lose 0.085, and 0.105 without the last
  EXPECT_TRUE(found.holds);
  KeptNodes worst;
  for (const char* name : {"t", "s", "r", "q", "p", "o"}) worst[name] = DType::f32;
  EXPECT_EQ(found.keep, worst);
  EXPECT_LE(found.loss.drop, 0.1);
  EXPECT_EQ(found.layers.at(0).layer, "t");
  EXPECT_EQ(found.layers.at(5).decision, DType::f32);
  EXPECT_EQ(found.layers.at(6).decision, DType::i8);
  EXPECT_LE(found.trials, 1 + 20 + 1 + 5);
  EXPECT_EQ(found.trials, int(model.asked.size()));
}

TEST(SearchLayers, NoiseOrdersLayersThatTheMetricDoesNotTellApart) {
  FakeModel model{{{"a", {0.01, 0.1}}, {"b", {0.01, 0.3}}, {"c", {0.01, 0.2}}}};
  const LayerSearch found = model.search(0.025);
  EXPECT_EQ(found.keep, (KeptNodes{{"b", DType::f32}}));
  EXPECT_EQ(found.layers.at(1).layer, "c");
  EXPECT_EQ(found.layers.at(2).layer, "a");
}

TEST(SearchLayers, WhatIsRaisedGoesToBf16WhereThatHoldsToo) {
  FakeModel model{{{"a", {0.01, 0.1}}, {"b", {0.01, 0.3}}, {"c", {0.01, 0.2}}}};
  model.in_bf16 = 0.1;
  EXPECT_EQ(model.search(0.025, true).keep, (KeptNodes{{"b", DType::bf16}}));
  EXPECT_EQ(model.search(0.025, false).keep, (KeptNodes{{"b", DType::f32}}));
}

TEST(SearchLayers, OfWhatIsRaisedTheWorstGoToFp32WhereBf16LosesTooMuch) {
  FakeModel model;
  for (int i = 0; i < 20; ++i) model.layers[std::string(1, char('a' + i))] = {0.001 * i, 0.01 * i};
  model.in_bf16 = 0.5;
  const LayerSearch found = model.search(0.1, true);
  EXPECT_TRUE(found.holds);
  EXPECT_LE(found.loss.drop, 0.1);
  ASSERT_EQ(found.keep.size(),
            6u);  // 0.091 without those six, which lose 0.0495 in bf16; o in bf16 is 0.098, p too 0.1055
  EXPECT_EQ(found.keep.at("o"), DType::bf16);
  for (const char* name : {"t", "s", "r", "q", "p"}) EXPECT_EQ(found.keep.at(name), DType::f32) << name;
  EXPECT_EQ(found.layers.at(5).decision, DType::bf16);
  EXPECT_EQ(found.layers.at(4).decision, DType::f32);
}

TEST(SearchLayers, ABudgetThatNothingHoldsIsSaid) {
  FakeModel model{{{"a", {0.01, 0.1}}, {"b", {0.01, 0.3}}}};
  model.base = 0.02;
  const LayerSearch found = model.search(0.01);
  EXPECT_FALSE(found.holds);
  EXPECT_EQ(found.keep.size(), 2u);
  EXPECT_NEAR(found.loss.drop, 0.02, 1e-12);
}

TEST(SearchLayers, AModelWithoutLayersIsTriedOnce) {
  FakeModel model;
  model.base = 0.5;
  EXPECT_FALSE(model.search(0.1).holds);
  EXPECT_TRUE(FakeModel{}.search(0).holds);
}

}  // namespace
}  // namespace temper
