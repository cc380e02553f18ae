// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "graph/graph.h"
#include "onnx/import.h"
#include "onnx/write.h"

namespace temper {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<double> run(const ops::Attention& op, const std::vector<Tensor>& inputs) {
  return run_node(op, inputs, "attention")[0].to_doubles();
}

// One head of one element: the scores are q * k, the values 1, 10, 100, ...
std::vector<Tensor> simple(int64_t queries, int64_t keys) {
  Tensor q(DType::f32, {1, queries, 1}), k(DType::f32, {1, keys, 1}), v(DType::f32, {1, keys, 1});
  for (int64_t j = 0; j < keys; ++j) v.data<float>()[j] = std::pow(10.f, float(j));
  return {q, k, v};
}

TEST(Attention, OfEqualScoresIsTheMeanOfTheKeysThatTakePart) {
  EXPECT_EQ(run({}, simple(1, 3)), (std::vector<double>{37}));
  EXPECT_EQ(run({.right = 0}, simple(3, 3)), (std::vector<double>{1, 5.5, 37}));
  EXPECT_EQ(run({.right = 0}, simple(2, 3)), (std::vector<double>{1, 5.5}));
  EXPECT_EQ(run({.right = 0, .from_end = true}, simple(2, 3)), (std::vector<double>{5.5, 37}));
  EXPECT_EQ(run({.left = 0, .right = 0}, simple(3, 3)), (std::vector<double>{1, 10, 100}));
  EXPECT_EQ(run({.left = 1, .right = 0}, simple(3, 3)), (std::vector<double>{1, 5.5, 55}));
  EXPECT_EQ(run({.left = 0, .right = 1}, simple(3, 3)), (std::vector<double>{5.5, 55, 100}));
}

TEST(Attention, CountsPositionsFromTheEndOfEachRowsLength) {
  auto inputs = simple(1, 3);
  inputs.push_back({});
  inputs.push_back(Tensor::of<int64_t>({1}, {2}));
  EXPECT_EQ(run({}, inputs), (std::vector<double>{5.5}));
  EXPECT_EQ(run({.left = 0}, inputs), (std::vector<double>{5.5}));
  EXPECT_EQ(run({.left = 0, .from_end = true}, inputs), (std::vector<double>{10}));
}

TEST(Attention, OfAQueryWithoutKeysIsNanOrZero) {
  auto inputs = simple(1, 2);
  inputs.push_back(Tensor::of<bool>({1, 2}, {false, false}));
  EXPECT_TRUE(std::isnan(run({}, inputs)[0]));
  EXPECT_EQ(run({.zero_nan = true}, inputs), (std::vector<double>{0}));
  inputs[3] = Tensor::of<double>({2}, {-kInfinity, -kInfinity}).converted(DType::f32);
  EXPECT_TRUE(std::isnan(run({}, inputs)[0]));
  EXPECT_EQ(run({.zero_nan = true}, inputs), (std::vector<double>{0}));
  inputs[3] = Tensor::of<double>({2}, {-kInfinity, 0}).converted(DType::f32);
  EXPECT_EQ(run({}, inputs), (std::vector<double>{10}));
  EXPECT_EQ(run({}, simple(1, 0)), (std::vector<double>{0}));
}

TEST(Attention, AddsItsMaskBehindTheSoftcap) {
  auto inputs = simple(1, 2);
  inputs[0].data<float>()[0] = 1;
  inputs[1].data<float>()[1] = 3;
  inputs.push_back(Tensor::of<double>({2}, {0.5, 0}).converted(DType::f32));
  const double a = std::exp(0.5), b = std::exp(2 * std::tanh(3 * 0.25 / 2));
  EXPECT_NEAR(run({.scale = 0.25, .softcap = 2}, inputs)[0], (a + 10 * b) / (a + b), 1e-6);
}

TEST(Attention, SharesHeadsOfKeysAndReadsTheMaskOverAndOver) {
  // Heads 0 and 1 of the queries read head 0 of the keys, 2 and 3 head 1. Batches 0 and 2 read row 0 of the mask.
  const Tensor q(DType::f32, {4, 1, 4}), k(DType::f32, {4, 2, 2});
  Tensor v(DType::f32, {4, 2, 2});
  for (int64_t i = 0; i < v.count(); ++i) v.data<float>()[i] = float(i);
  const Tensor mask = Tensor::of<bool>({2, 1, 1, 2}, {true, false, false, true});
  EXPECT_EQ(run({.heads = 4, .kv_heads = 2}, {q, k, v, mask}),
            (std::vector<double>{0, 0, 1, 1, 6, 6, 7, 7, 8, 8, 9, 9, 14, 14, 15, 15}));
}

TEST(Attention, RefusesShapesThatDoNotFit) {
  const char* bad[] = {"attention(%q, %q, %q) heads=3",
                       "attention(%q, %q, %q) heads=4 kv_heads=3",
                       "attention(%q, %k, %q) heads=4 kv_heads=4",
                       "attention(%q, %q, %k) heads=4 kv_heads=4",
                       "attention(%q, %h, %h) heads=4 kv_heads=4",
                       "attention(%q, %q, %q, %m) heads=4 kv_heads=4",
                       "attention(%q, %q, %q, %l) heads=4 kv_heads=4",
                       "attention(%q, %q, %q, _, %m) heads=4 kv_heads=4",
                       "attention(%q, %q, %q) left=-2",
                       "attention(%q, %q, %q) softcap=-1",
                       "attention(%q, %q) heads=4",
                       "attention(%q, %q, %q) heads=0"};
  const std::string inputs =
      "input %q: f32[2,5,8]\ninput %k: f32[2,6,8]\ninput %h: f16[2,5,8]\ninput %m: f32[5,4]\ninput %l: i64[2]\n";
  for (const char* text : bad) {
    try {
      parse_graph(concat(inputs, "%y: f32[2,5,8] = ", text, " @\"a\"\noutput \"y\" = %y\n"));
      ADD_FAILURE() << text << " was accepted";
    } catch (const Error& error) { EXPECT_EQ(error.kind(), ErrorKind::bad_file) << error.what(); }
  }
}

std::string attention_text(std::string_view call, std::string_view dtype = "f32") {
  return concat("input %q: ", dtype, "[2,5,16]\ninput %k: ", dtype, "[2,7,8]\ninput %v: ", dtype,
                "[2,7,4]\ninput %m: f32[5,7]\ninput %b: bool[2,1,1,7]\ninput %l: i64[2]\n%y: ", dtype,
                "[2,5,8] = attention(", call, " @\"a\"\noutput \"y\" = %y\n");
}

TEST(Attention, IsWrittenAsOnnxWithItsMeaning) {
  for (const auto& [call, dtype] : std::vector<std::pair<const char*, const char*>>{
           {"%q, %k, %v) heads=4 kv_heads=2 scale=0.5", "f32"},
           {"%q, %k, %v) heads=4 kv_heads=2 scale=0.25 right=0", "f32"},
           {"%q, %k, %v) heads=4 kv_heads=2 scale=0.25 left=2 right=1", "f32"},
           {"%q, %k, %v) heads=4 kv_heads=2 scale=0.25 right=0 from_end=true", "f32"},
           {"%q, %k, %v, %m) heads=4 kv_heads=2 scale=0.25 softcap=3", "f32"},
           {"%q, %k, %v, %b) heads=4 kv_heads=2 scale=0.25 right=0", "f32"},
           {"%q, %k, %v, _, %l) heads=4 kv_heads=2 scale=0.25", "f32"},
           {"%q, %k, %v, %m) heads=4 kv_heads=2 scale=0.25", "f16"},
           {"%q, %k, %v) heads=4 kv_heads=2 scale=0.25 right=0", "bf16"}}) {
    SCOPED_TRACE(concat(call, " of ", dtype));
    const Graph graph = parse_graph(attention_text(call, dtype));
    const Graph again = import_onnx_bytes(onnx_bytes(graph), "").graph;
    std::vector<Tensor> inputs;
    for (ValueId id : graph.inputs()) {
      Tensor tensor(DType::f64, graph.type(id).dims());
      for (int64_t i = 0; i < tensor.count(); ++i)
        tensor.data<double>()[i] = graph.type(id).dtype == DType::i64       ? double(4 + i)
                                   : graph.type(id).dtype == DType::boolean ? double(i % 3 != 1)
                                                                            : double(i * 7 % 11) / 4 - 1;
      inputs.push_back(tensor.converted(graph.type(id).dtype));
    }
    const auto want = run_reference(graph, inputs)[0].to_doubles(), got = run_reference(again, inputs)[0].to_doubles();
    ASSERT_EQ(got.size(), want.size());
    const double error = std::string_view(dtype) == "f32" ? 1e-6 : 1e-2;
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_TRUE(std::abs(got[i] - want[i]) <= error || (std::isnan(got[i]) && std::isnan(want[i]))) << i;
  }
}

TEST(Attention, IsRefusedWhereOnnxDoesNotSayTheSame) {
  for (const char* call :
       {"%q, %k, %v) heads=4 kv_heads=2 zero_nan=true", "%q, %k, %v, %m) heads=4 kv_heads=2 left=2",
        "%q, %k, %v) heads=4 kv_heads=2 scale=0.1", "%q, %k, %v, _, %l) heads=4 kv_heads=2 right=0 from_end=true"}) {
    try {
      onnx_bytes(parse_graph(attention_text(call)));
      ADD_FAILURE() << call << " was written";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unsupported);
      EXPECT_NE(std::string(error.what()).find("attention"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace temper
