// SPDX-License-Identifier: Apache-2.0
// Types of single layers, as programs for TensorRT set them.
#include "optimize/layer_types.h"

#include <gtest/gtest.h>

#include "graph/graph.h"
#include "graph/product.h"
#include "optimize/precision.h"
#include "runtime/engine.h"

namespace temper {
namespace {

// A convolution, a pool, a second convolution, a root of what it gives, and a third one.
Graph net() {
  return parse_graph(
      "graph \"net\"\ninput %x: f32[1,1,8,8]\nconst %w: f32[1,1,1,1] = [2]\n"
      "%a: f32[1,1,8,8] = conv(%x, %w) strides=[1,1] dilations=[1,1] pads=[0,0,0,0] @\"first\"\n"
      "%p: f32[1,1,4,4] = pool(%a) kernel=[2,2] strides=[2,2] dilations=[1,1] pads=[0,0,0,0] @\"pool\"\n"
      "%b: f32[1,1,4,4] = conv(%p, %w) strides=[1,1] dilations=[1,1] pads=[0,0,0,0] @\"second\"\n"
      "%s: f32[1,1,4,4] = pointwise(%b) program=\"(1) 1=sigmoid.f32(0)\" @\"gate\"\n"
      "%c: f32[1,1,4,4] = conv(%s, %w) strides=[1,1] dilations=[1,1] pads=[0,0,0,0] @\"third\"\noutput \"c\" = %c\n");
}

struct PlacedLayers {
  PlacementOptions kept;
  std::vector<std::string> without_effect;
};
PlacedLayers placed(std::map<std::string, DType> of, const std::string& precision, const Graph& optimised = net()) {
  LayerTypes types{.of = std::move(of)};
  look_up(types, net());
  PlacedLayers outcome;
  outcome.kept = placement_with(types, optimised, parts_of(precision).value(), {}, outcome.without_effect);
  return outcome;
}

Ranges ranges() {
  Ranges made;
  for (const char* name : {"x", "a", "p", "b", "s"}) made.values[name] = {-1, 1, 1 / 127.0F, "minmax", 0, {}, {}};
  return made;
}
// The dtype in which each product multiplies, and in which each value of the net is stored, where it still is.
std::map<std::string, DType> dtypes_in(const std::string& precision, const std::map<std::string, DType>& of) {
  const Graph made = in_precision(net(), precision, ranges(), placed(of, precision).kept, "cpu", {});
  std::map<std::string, DType> dtypes;
  for (int32_t n = 0; n < made.node_count(); ++n)
    if (const Node& node = made.node({n}); is_product(node.op)) dtypes[node.name] = made.type(node.inputs[0]).dtype;
  for (const char* name : {"s", "p"})
    for (int32_t v = 0; v < made.value_count(); ++v)
      if (made.value({v}).name == name) dtypes[name] = made.value({v}).type.dtype;
  return dtypes;
}

TEST(LayerTypes, ALayerBetweenProductsOf16BitsGivesF32WhereItIsAsked) {
  auto dtypes = dtypes_in("fp16", {});
  EXPECT_EQ(dtypes.at("s"), DType::f16);
  EXPECT_EQ(dtypes.at("third"), DType::f16);
  dtypes = dtypes_in("fp16", {{"gate", DType::f32}});
  EXPECT_EQ(dtypes.at("s"), DType::f32);
  EXPECT_EQ(dtypes.at("third"), DType::f16) << "what reads it has its own type";
}

TEST(LayerTypes, AProductOfEachTypeBesideEightBits) {
  auto dtypes = dtypes_in("int8+fp16", {{"first", DType::f32}, {"third", DType::f16}, {"second", DType::i8}});
  EXPECT_EQ(dtypes.at("first"), DType::f32);
  EXPECT_EQ(dtypes.at("second"), DType::i8);
  EXPECT_EQ(dtypes.at("third"), DType::f16);
  dtypes = dtypes_in("int8+fp16", {{"*", DType::i8}, {"first", DType::f16}});
  EXPECT_EQ(dtypes.at("first"), DType::f16);
  EXPECT_EQ(dtypes.at("third"), DType::i8);
}

TEST(LayerTypes, APoolOfFloatsMovesNoBytes) {
  const auto stored = [](const std::map<std::string, DType>& of) {
    const Placement placement = placement_of(net(), ranges(), placed(of, "int8").kept, {});
    for (const PlacedNode& node : placement.nodes)
      if (node.node == "pool") return node.integer;
    return false;
  };
  EXPECT_TRUE(stored({}));
  EXPECT_FALSE(stored({{"pool", DType::f32}}));
}

TEST(LayerTypes, WhatHasNoEffectIsSaidByItsName) {
  const auto said = [](std::map<std::string, DType> of, const std::string& precision, const Graph& graph = net()) {
    const PlacedLayers outcome = placed(std::move(of), precision, graph);
    return outcome.without_effect.empty() ? std::string() : outcome.without_effect.at(0);
  };
  EXPECT_EQ(said({{"nobody", DType::f32}}, "fp16"), "'nobody' is not in the model");
  EXPECT_EQ(said({{"first", DType::f16}}, "bf16"), "'first' in f16, which this build does not compute in");
  EXPECT_EQ(said({{"first", DType::i8}}, "fp16"), "'first' in int8, which this build does not compute in");
  EXPECT_EQ(said({{"first", DType::f32}, {"gate", DType::f32}}, "fp32"), "");
  const Graph folded = parse_graph("graph \"net\"\ninput %x: f32[1]\noutput \"c\" = %x\n");
  EXPECT_EQ(said({{"first", DType::f32}}, "fp16", folded), "'first' is folded or merged into other layers");
  EXPECT_EQ(said({{"gate", DType::f32}}, "fp16", folded), "") << "what is fused computes in f32";
}

TEST(LayerTypes, OrdersEndTheBuildWhereWishesAreNoted) {
  LayerTypes types{.of = {{"gate", DType::i8}}};
  look_up(types, net());
  std::vector<std::string> without_effect;
  check_in_bytes(types, place_quantization(net(), ranges()).nodes, without_effect);
  ASSERT_EQ(without_effect.size(), 1u);
  EngineInfo info;
  report(types, without_effect, info);
  ASSERT_EQ(info.notes.size(), 1u);
  EXPECT_NE(info.notes[0].find("'gate' in int8: computes in fp32, between 8-bit values"), std::string::npos)
      << info.notes[0];
  types.obeyed = true;
  EXPECT_THROW(report(types, without_effect, info), Error);
}

TEST(LayerTypes, TheProductOfARecurrentNetHasTheTypeOfItsLayer) {
  const Graph graph = parse_graph(
      "graph \"net\"\ninput %x: f32[3,1,2]\nconst %w: f32[1,1,2] = [1,1]\nconst %r: f32[1,1,1] = [1]\n"
      "%y: f32[3,1,1,1], %h: f32[1,1,1] = recurrent(%x, %w, %r) kind=rnn f=tanh @\"net\"\noutput \"y\" = %y\n");
  LayerTypes types{.of = {{"net", DType::f32}}};
  look_up(types, graph);
  std::vector<std::string> without_effect;
  const PlacementOptions kept = placement_with(types, graph, parts_of("bf16").value(), {}, without_effect);
  EXPECT_TRUE(without_effect.empty());
  EXPECT_EQ(kept.keep_nodes, (KeptNodes{{"net.inputs", DType::f32}}));
}

}  // namespace
}  // namespace temper
