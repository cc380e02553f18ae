// SPDX-License-Identifier: Apache-2.0
// Models in two parts: together they answer as the whole does, and the cut lies where it was asked for.
#include "onnx/split.h"

#include <onnx/defs/parser.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <map>

#include "../plan/helpers.h"
#include "onnx/import.h"

namespace temper {
namespace {

std::string bytes_of(const std::string& graph) {
  onnx::ModelProto model;
  const std::string text = "<ir_version: 8, opset_import: [\"\" : 17]>\n" + graph;
  const auto status = onnx::OnnxParser::Parse(model, text.c_str());
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
  return model.SerializeAsString();
}

SplitModel split(const std::string& graph, const std::vector<std::string>& inputs) {
  return split_onnx(parse_onnx(bytes_of(graph), "."), inputs);
}

std::string refusal(const std::string& graph, const std::vector<std::string>& inputs) {
  try {
    split(graph, inputs);
  } catch (const Error& error) { return error.what(); }
  return "none";
}

Graph imported(const std::string& bytes) { return import_onnx_bytes(bytes, ".").graph; }

std::vector<std::string> inputs_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const ValueId id : graph.inputs()) names.push_back(graph.value(id).name);
  return names;
}
std::vector<std::string> outputs_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const GraphOutput& output : graph.outputs()) names.push_back(output.name);
  return names;
}

using Values = std::map<std::string, Tensor>;

Values run(const Graph& graph, const Values& values) {
  std::vector<Tensor> inputs;
  for (const std::string& name : inputs_of(graph)) inputs.push_back(values.at(name));
  const std::vector<Tensor> outputs = run_reference(graph, inputs);
  Values made;
  for (size_t i = 0; i < outputs.size(); ++i) made[graph.outputs()[i].name] = outputs[i];
  return made;
}

// All outputs of both parts, which must be those of the whole to the bit.
SplitModel expect_same(const std::string& graph, const std::vector<std::string>& inputs, Values values) {
  const SplitModel parts = split(graph, inputs);
  const Values whole = run(imported(bytes_of(graph)), values);
  Values made = run(imported(parts.first), values);
  for (const auto& [name, value] : made) values[name] = value;
  for (const auto& [name, value] : run(imported(parts.rest), values)) made[name] = value;
  for (const auto& [name, value] : whole) {
    EXPECT_TRUE(made.contains(name)) << name;
    if (made.contains(name)) { EXPECT_TRUE(made.at(name).same_bits(value)) << name; }
  }
  return parts;
}

using Names = std::vector<std::string>;

// Queries of x, keys and values of what is given once; heads are moved and keys are scaled behind their product.
std::string cross_attention() {
  std::string numbers;
  for (int i = 0; i < 64; ++i) numbers += concat(i ? "," : "", ((i * 37) % 17 - 8) / 16.0);
  const std::string weights =
      concat("float[8,8] wq = {", numbers, "}, float[8,8] wk = {", numbers, "}, float[8,8] wv = {", numbers,
             "}, float scale = {0.5}, ", "int64[4] heads = {0,0,2,4}, int64[3] whole = {0,0,8}");
  return concat("attend (float[1,4,8] x, float[2,5,8] states) => (float[2,4,8] y)\n<", weights, R"(>
{
  q0 = MatMul(x, wq)
  q1 = Reshape(q0, heads)
  q = Transpose<perm = [0,2,1,3]>(q1)
  k0 = MatMul(states, wk)
  k1 = Reshape(k0, heads)
  k2 = Transpose<perm = [0,2,3,1]>(k1)
  k = Mul(k2, scale)
  v0 = MatMul(states, wv)
  v1 = Reshape(v0, heads)
  v = Transpose<perm = [0,2,1,3]>(v1)
  s0 = MatMul(q, k)
  s = Softmax<axis = -1>(s0)
  o0 = MatMul(s, v)
  o1 = Transpose<perm = [0,2,1,3]>(o0)
  y = Reshape(o1, whole)
})");
}

TEST(SplitOnnx, CutsBehindTheProductsOfWhatIsGivenOnce) {
  const SplitModel parts =
      expect_same(cross_attention(), {"states"}, {{"x", noise({1, 4, 8}, 1)}, {"states", noise({2, 5, 8}, 2)}});
  Names between = parts.between;
  std::sort(between.begin(), between.end());
  EXPECT_EQ(between, (Names{"k0", "v0"}));
  EXPECT_EQ(inputs_of(imported(parts.first)), (Names{"states"}));
  EXPECT_EQ(inputs_of(imported(parts.rest)).front(), "x");
  EXPECT_EQ(inputs_of(imported(parts.rest)).size(), 3u);
  EXPECT_TRUE(parts.inputs_of_rest.empty());
  EXPECT_EQ(parts.first_nodes, 2);
  EXPECT_EQ(parts.rest_nodes, 13);
}

TEST(SplitOnnx, OutputsOfWhatIsGivenOnceAreOfTheFirstPart) {
  const SplitModel parts = expect_same(R"(
two (float[N,4] x, float[N,4] s) => (float[N,4] a, float[N,4] b)
{ a = Exp(s)
  b = Add(x, a) })",
                                       {"s"}, {{"x", noise({3, 4}, 1)}, {"s", noise({3, 4}, 2)}});
  EXPECT_EQ(outputs_of(imported(parts.first)), (Names{"a"}));
  EXPECT_EQ(outputs_of(imported(parts.rest)), (Names{"b"}));
  EXPECT_EQ(inputs_of(imported(parts.rest)), (Names{"x", "a"}));
}

TEST(SplitOnnx, ShapesStayKnownInTheRest) {
  const SplitModel parts = expect_same(R"(
shapes (float[N,4] x, float[M,4] s) => (float[K,4] y)
<int64[1] zero = {0}, int64[1] one = {1}, int64[1] four = {4}>
{ e = Exp(s)
  shape = Shape(s)
  rows = Slice(shape, zero, one)
  to = Concat<axis = 0>(rows, four)
  m = ReduceSum(x, zero)
  wide = Expand(m, to)
  y = Add(wide, e) })",
                                       {"s"}, {{"x", noise({3, 4}, 1)}, {"s", noise({5, 4}, 2)}});
  EXPECT_EQ(parts.between, (Names{"e"}));
  EXPECT_EQ(parts.inputs_of_rest, (Names{"s"}));
}

TEST(SplitOnnx, WhatABranchReadsIsCutToo) {
  const SplitModel parts = expect_same(
      R"(
branch (float[4] x, float[4] s, bool c) => (float[4] y)
{ e = Exp(s)
  y = If(c) <then_branch = g1 () => (float[4] t) { t = Add(x, e) },
             else_branch = g2 () => (float[4] u) { u = Sub(x, e) }> })",
      {"s"},
      {{"x", noise({4}, 1)}, {"s", noise({4}, 2)}, {"c", Tensor::of<uint8_t>({}, {1}).converted(DType::boolean)}});
  EXPECT_EQ(parts.between, (Names{"e"}));
}

TEST(SplitOnnx, RandomNumbersAreNotComputedOnce) {
  const SplitModel parts = split(R"(
random (float[4] x, float[4] s) => (float[4] y)
{ e = Exp(s)
  r = RandomNormalLike(e)
  z = Exp(r)
  y0 = Add(x, z)
  y = Add(y0, e) })",
                                 {"s"});
  EXPECT_EQ(parts.between, (Names{"e"}));
  EXPECT_EQ(parts.first_nodes, 1);
}

TEST(SplitOnnx, DropoutOfATrainingModelIsNotComputedOnce) {
  const SplitModel parts = split(R"(
random (float[4] x, float[4] s) => (float[4] y)
<float ratio = {0.5}, bool training = {1}>
{ e = Exp(s)
  r = Dropout(e, ratio, training)
  z = Exp(r)
  y = Add(x, z) })",
                                 {"s"});
  EXPECT_EQ(parts.between, (Names{"e"}));
}

TEST(SplitOnnx, RefusesWhereThereIsNothingToSplit) {
  const std::string model = R"(
g (float[4] x, float[4] s) => (float[4] y)
{ y = Add(x, s) })";
  EXPECT_NE(refusal(model, {"states"}).find("no input 'states'; it has 's', 'x'"), std::string::npos);
  EXPECT_NE(refusal(model, {"s"}).find("nothing to compute beforehand"), std::string::npos);
  EXPECT_NE(refusal(model, {"s", "x"}).find("all outputs follow"), std::string::npos);
  EXPECT_NE(refusal(model, {}).find("no input is named"), std::string::npos);
}

}  // namespace
}  // namespace temper
