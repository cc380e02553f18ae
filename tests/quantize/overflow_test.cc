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
      "const %w: f32[1,1,1,1] = [" +
      weight +
      "]\n"
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

UnfitForF16 unfit(const Graph& graph, std::initializer_list<std::pair<const char*, float>> values) {
  return unfit_for_f16(graph, largest_of(seen(values)), "in calibration");
}

TEST(UnfitForF16, NothingIsWhereAllStaysSmall) {
  const auto found = unfit(chain(), {{"x", 1}, {"a", 100}, {"b", 30000}, {"p", 100}, {"c", 5}, {"d", 3}});
  EXPECT_TRUE(found.values.empty() && found.products.empty());
}

TEST(UnfitForF16, ALargeValueIsStoredInF32AndWhatReadsItStaysThere) {
  const Graph graph = chain();
  const auto found = unfit(graph, {{"x", 1}, {"a", 10}, {"b", 70000}, {"p", 900}, {"c", 5}, {"d", 3}});
  EXPECT_EQ(names_of(found.values), std::vector<std::string>{"b"});
  EXPECT_NE(found.values.at("b").find("'b' reaches 70000 in calibration"), std::string::npos) << found.values.at("b");
  const Lowering lowering = lower_precision(graph, DType::f16, {.kept = found.products, .wide = found.values});
  for (int32_t v = 0; v < lowering.graph.value_count(); ++v)
    if (const Value& value = lowering.graph.value({v}); value.name == "b" || value.name == "a") {
      EXPECT_EQ(value.type.dtype, value.name == "b" ? DType::f32 : DType::f16) << print(lowering.graph);
    }
  EXPECT_EQ(lowering.lowered_products, 4) << "what makes it sums in f32 anyway, and behind the pool it is small";
}

TEST(UnfitForF16, AProductThatReadsALargeValueStaysInF32) {
  const auto found = unfit(chain(), {{"a", 70000}});
  const Lowering lowering = lower_precision(chain(), DType::f16, {.kept = found.products, .wide = found.values});
  EXPECT_EQ(lowering.lowered_products, 3);
  EXPECT_EQ(lowering.nodes.at(1).reason.substr(0, 30), "its operand 'a' reaches 70000 ") << lowering.nodes.at(1).reason;
}

TEST(UnfitForF16, AWeightThatBecomesInfiniteOrVanishesKeepsItsLayer) {
  EXPECT_EQ(names_of(unfit(chain("100000"), {{"a", 10}}).products), std::vector<std::string>{"first"});
  EXPECT_EQ(names_of(unfit(chain("1e-6"), {{"a", 10}}).products), std::vector<std::string>{"first"});
  EXPECT_TRUE(unfit(chain("0"), {{"a", 10}}).products.empty());
}

TEST(UnfitForF16, AValueThatIsTinyAltogetherIsStoredInF32) {
  EXPECT_EQ(names_of(unfit(chain(), {{"a", 1e-6f}}).values), std::vector<std::string>{});  // its other end is -1
  EXPECT_EQ(names_of(unfit_for_f16(chain(), {{"a", 1e-6}}, "on noise").values), std::vector<std::string>{"a"});
}

}  // namespace
}  // namespace temper
