// SPDX-License-Identifier: Apache-2.0
#include "quantize/overflow.h"

#include <gtest/gtest.h>

#include "passes/lower_precision.h"

namespace temper {
namespace {

// Three products in a row, a pool between the last two.
Graph chain(const std::string& weight = "1") {
  return parse_graph(
      "graph \"chain\"\n"
      "input %x: f32[1,1,4,4]\n"
      "const %w: f32[1,1,1,1] = [" + weight + "]\n"
      "const %v: f32[1,1,1,1] = [2]\n"
      "%a: f32[1,1,4,4] = conv(%x, %w) strides=[1,1] dilations=[1,1] pads=[0,0,0,0] @\"first\"\n"
      "%b: f32[1,1,4,4] = conv(%a, %v) strides=[1,1] dilations=[1,1] pads=[0,0,0,0] @\"second\"\n"
      "%p: f32[1,1,2,2] = pool(%b) kernel=[2,2] strides=[2,2] dilations=[1,1] pads=[0,0,0,0] @\"pool\"\n"
      "%c: f32[1,1,2,2] = conv(%p, %v) strides=[1,1] dilations=[1,1] pads=[0,0,0,0] @\"third\"\n"
      "%d: f32[1,1,2,2] = conv(%c, %v) strides=[1,1] dilations=[1,1] pads=[0,0,0,0] @\"fourth\"\n"
      "output \"d\" = %d\n");
}

Ranges seen(std::initializer_list<std::pair<const char*, float>> values) {
  Ranges ranges;
  for (const auto& [name, largest] : values) {
    TensorRange range;
    range.min = -1;
    range.max = largest;
    ranges.values[name] = range;
  }
  return ranges;
}

std::vector<std::string> names_of(const std::map<std::string, std::string>& kept) {
  std::vector<std::string> names;
  for (const auto& [name, reason] : kept) names.push_back(name);
  return names;
}

TEST(OverflowOfF16, NothingIsKeptWhereAllStaysSmall) {
  EXPECT_TRUE(overflows_of_f16(chain(), seen({{"x", 1}, {"a", 100}, {"b", 30000}, {"p", 100}, {"c", 5}, {"d", 3}})).empty());
}

TEST(OverflowOfF16, WhatWritesAndWhatReadsALargeValueIsKeptAlsoBehindAPool) {
  const auto kept = overflows_of_f16(chain(), seen({{"x", 1}, {"a", 10}, {"b", 70000}, {"p", 900}, {"c", 5}, {"d", 3}}));
  EXPECT_EQ(names_of(kept), (std::vector<std::string>{"second", "third"}));
  EXPECT_NE(kept.at("third").find("'b', which reached 70000"), std::string::npos) << kept.at("third");
}

TEST(OverflowOfF16, AWeightThatBecomesInfiniteKeepsItsLayer) {
  EXPECT_EQ(names_of(overflows_of_f16(chain("100000"), seen({{"a", 10}}))), std::vector<std::string>{"first"});
}

// Without what is kept no value is stored in f16 that was seen beyond it.
TEST(OverflowOfF16, TheLoweredGraphHoldsNoLargeValueInF16) {
  const Graph graph = chain();
  const auto kept = overflows_of_f16(graph, seen({{"b", 70000}, {"p", 70000}}));
  const Graph narrow = lower_precision(graph, DType::f16, {.kept = &kept}).graph;
  for (int32_t v = 0; v < narrow.value_count(); ++v)
    if (const Value& value = narrow.value({v}); value.name == "b" || value.name == "p")
      EXPECT_EQ(value.type.dtype, DType::f32) << print(narrow);
}

}  // namespace
}  // namespace temper
