// SPDX-License-Identifier: Apache-2.0
#include "quantize/search.h"

#include <gtest/gtest.h>

#include <map>

namespace temper {
namespace {

// Losses that add up: what a layer loses in int8 does not depend on the others.
struct Model {
  std::map<std::string, Loss> layers;
  double base = 0;  // lost with every layer in FP32
  std::vector<std::set<std::string>> asked;

  LayerSearch search(double max_drop) {
    std::vector<std::string> names;
    for (const auto& [name, loss] : layers) names.push_back(name);
    return search_layers(names, max_drop, [&](const std::set<std::string>& keep) {
      asked.push_back(keep);
      Loss total{base, 0};
      for (const auto& [name, loss] : layers)
        if (!keep.contains(name)) total.drop += loss.drop, total.noise += loss.noise;
      return total;
    });
  }
};

TEST(SearchLayers, NothingIsRaisedWhereInt8Holds) {
  Model model{{{"a", {0.001, 0.1}}, {"b", {0.002, 0.2}}}};
  const LayerSearch found = model.search(0.005);
  EXPECT_TRUE(found.holds);
  EXPECT_TRUE(found.keep.empty());
  EXPECT_EQ(found.trials, 1);
  EXPECT_NEAR(found.loss.drop, 0.003, 1e-12);
}

TEST(SearchLayers, TheWorstAreRaisedAndNoMoreThanNeeded) {
  Model model;
  for (int i = 0; i < 20; ++i) model.layers[std::string(1, char('a' + i))] = {0.001 * i, 0.01 * i};
  const LayerSearch found = model.search(0.1);  // 0.190 in all; t, s, r, q, p lose 0.085, and 0.105 without the last
  EXPECT_TRUE(found.holds);
  EXPECT_EQ(found.keep, (std::set<std::string>{"t", "s", "r", "q", "p", "o"}));
  EXPECT_LE(found.loss.drop, 0.1);
  EXPECT_EQ(found.layers.at(0).layer, "t");
  EXPECT_TRUE(found.layers.at(5).raised);
  EXPECT_FALSE(found.layers.at(6).raised);
  EXPECT_LE(found.trials, 1 + 20 + 1 + 5);
  EXPECT_EQ(found.trials, int(model.asked.size()));
}

TEST(SearchLayers, NoiseOrdersLayersThatTheMetricDoesNotTellApart) {
  Model model{{{"a", {0.01, 0.1}}, {"b", {0.01, 0.3}}, {"c", {0.01, 0.2}}}};
  const LayerSearch found = model.search(0.025);
  EXPECT_EQ(found.keep, std::set<std::string>{"b"});
  EXPECT_EQ(found.layers.at(1).layer, "c");
  EXPECT_EQ(found.layers.at(2).layer, "a");
}

TEST(SearchLayers, ABudgetThatNothingHoldsIsSaid) {
  Model model{{{"a", {0.01, 0.1}}, {"b", {0.01, 0.3}}}};
  model.base = 0.02;
  const LayerSearch found = model.search(0.01);
  EXPECT_FALSE(found.holds);
  EXPECT_EQ(found.keep.size(), 2u);
  EXPECT_NEAR(found.loss.drop, 0.02, 1e-12);
}

TEST(SearchLayers, AModelWithoutLayersIsTriedOnce) {
  Model model;
  model.base = 0.5;
  EXPECT_FALSE(model.search(0.1).holds);
  EXPECT_TRUE(Model{}.search(0).holds);
}

}  // namespace
}  // namespace temper
