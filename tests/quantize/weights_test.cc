// SPDX-License-Identifier: Apache-2.0
#include "quantize/weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "graph/graph.h"
#include "graph/ops/dequantize_blocks.h"
#include "graph/ops/matmul.h"
#include "graph/random.h"
#include "onnx/import.h"
#include "onnx/write.h"

namespace temper {
namespace {

// Products of x f32[n,40]: by a matrix, by the transpose of a table that is read by rows, too, and of activations.
Graph model() {
  return parse_graph(
      "graph \"g\"\n"
      "input %x: f32[n,40]\n"
      "const %w: f32[40,24] = #0\n"
      "const %table: f32[40,24] = #1\n"
      "const %id: i64[1] = [3]\n"
      "%a: f32[n,24] = matmul(%x, %w) @\"first\"\n"
      "%t: f32[24,40] = transpose(%table) perm=[1,0]\n"
      "%b: f32[n,40] = matmul(%a, %t) @\"second\"\n"
      "%row: f32[1,24] = gather(%table, %id)\n"
      "%c: f32[n,n] = matmul(%b, %b) transpose_b=true @\"scores\"\n"
      "output \"b\" = %b\n"
      "output \"row\" = %row\n"
      "output \"c\" = %c\n",
      std::vector<Tensor>{random_tensor(DType::f32, {40, 24}, 1), random_tensor(DType::f32, {40, 24}, 2)});
}

std::vector<const Node*> weights_of(const Graph& graph) {
  std::vector<const Node*> all;
  for (int32_t n = 0; n < graph.node_count(); ++n)
    if (graph.node({n}).op.is<ops::DequantizeBlocks>()) all.push_back(&graph.node({n}));
  return all;
}

// The largest |float - integer * scale| over the scale, and whether all integers are within `most`.
double error_in_steps(const Graph& graph, const Node& node, const Tensor& floats, int most) {
  const auto& op = node.op.get<ops::DequantizeBlocks>();
  const ops::BlockedMatrix matrix{
      *graph.constant(node.inputs[0]), *graph.constant(node.inputs[1]), {}, op.block_rows, op.block_columns};
  const Tensor back = ops::floats_of(matrix);
  double largest = 0;
  for (int64_t r = 0; r < matrix.rows(); ++r)
    for (int64_t c = 0; c < matrix.columns(); ++c) {
      EXPECT_LE(std::abs(matrix.integer(r, c)), most);
      const int64_t at = r * matrix.columns() + c;
      largest = std::max(largest, std::abs(double(floats.data<float>()[at]) - double(back.data<float>()[at])) /
                                      double(matrix.scale_of(r, c)));
    }
  return largest;
}

TEST(QuantizeWeights, OfProductsAloneAndAlongTheirSums) {
  Graph graph = model();
  const WeightReport report = quantize_weights(graph, {8, 16});
  verify(graph);
  EXPECT_EQ(report.products, 3);
  EXPECT_EQ(report.quantized, 2);
  ASSERT_EQ(report.left.size(), 1u);
  EXPECT_NE(report.left[0].find("scores: "), std::string::npos);
  const auto nodes = weights_of(graph);
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(nodes[0]->op, Op(ops::DequantizeBlocks{.block_rows = 16}));
  EXPECT_EQ(nodes[1]->op, Op(ops::DequantizeBlocks{.block_columns = 16}));  // of the table as it is stored
  EXPECT_EQ(report.floats, 2 * 40 * 24 * 4);
  EXPECT_EQ(report.integers, 2 * 40 * 24 + 4 * (3 * 24 + 40 * 2));
  EXPECT_LE(error_in_steps(graph, *nodes[0], random_tensor(DType::f32, {40, 24}, 1), 127), 0.501);
  EXPECT_LE(error_in_steps(graph, *nodes[1], random_tensor(DType::f32, {40, 24}, 2), 127), 0.501);
}

TEST(QuantizeWeights, FourBitsTakeTheScaleOfTheLeastSquaredError) {
  // One large weight among small ones: scaled by it alone, all others would be zero.
  Tensor w(DType::f32, {32, 1});
  for (int64_t i = 0; i < 32; ++i) w.data<float>()[i] = i % 2 ? 0.29f : -0.29f;
  w.data<float>()[5] = 4.0f;
  const auto text = "input %x: f32[n,32]\nconst %w: f32[32,1] = #0\n%y: f32[n,1] = matmul(%x, %w)\noutput \"y\" = %y\n";
  Graph graph = parse_graph(text, std::vector<Tensor>{w});
  EXPECT_EQ(quantize_weights(graph, {4, 32}).quantized, 1);
  const Node& node = *weights_of(graph).at(0);
  const float scale = graph.constant(node.inputs[1])->data<float>()[0];
  EXPECT_LT(scale, 4.0f / 7);
  const auto squared = [&](float s) {
    double sum = 0;
    for (int64_t i = 0; i < 32; ++i) {
      const float x = w.data<float>()[i];
      sum += std::pow(x - std::clamp(std::nearbyint(x / s), -7.f, 7.f) * s, 2);
    }
    return sum;
  };
  EXPECT_LE(squared(scale), squared(4.0f / 7));
}

TEST(QuantizeWeights, AColumnMayBeOneBlockAndZerosStayZeros) {
  Tensor w(DType::f32, {24, 2});
  for (int64_t i = 0; i < 24; ++i) w.data<float>()[2 * i] = float(i) / 23;
  const auto text = "input %x: f32[n,24]\nconst %w: f32[24,2] = #0\n%y: f32[n,2] = matmul(%x, %w)\noutput \"y\" = %y\n";
  for (const int bits : {8, 4}) {
    Graph graph = parse_graph(text, std::vector<Tensor>{w});
    quantize_weights(graph, {bits, 0});
    const Node& node = *weights_of(graph).at(0);
    EXPECT_EQ(node.op, Op(ops::DequantizeBlocks{.block_rows = 24}));
    EXPECT_EQ(graph.constant(node.inputs[1])->data<float>()[1], 1);
    for (int64_t i = 0; i < 24; ++i) EXPECT_EQ(graph.constant(node.inputs[0])->data<int8_t>()[2 * i + 1], 0);
  }
}

TEST(QuantizeWeights, LeavesWhatIsNamedOrNotFinite) {
  Graph graph = model();
  EXPECT_EQ(quantize_weights(graph, {}, {"first"}).quantized, 1);
  Graph again = model();
  EXPECT_THROW(quantize_weights(again, {}, {"third"}), Error);
  Tensor w(DType::f32, {8, 1});
  w.data<float>()[3] = INFINITY;
  Graph infinite =
      parse_graph("input %x: f32[n,8]\nconst %w: f32[8,1] = #0\n%y: f32[n,1] = matmul(%x, %w)\noutput \"y\" = %y\n",
                  std::vector<Tensor>{w});
  EXPECT_EQ(quantize_weights(infinite, {}).quantized, 0);
}

TEST(QuantizeWeights, RefusesOtherFormats) {
  Graph graph = model();
  for (const WeightFormat& format : {WeightFormat{2, 32}, WeightFormat{8, 12}, WeightFormat{8, -8}})
    EXPECT_THROW(quantize_weights(graph, format), Error);
}

TEST(QuantizeWeights, AreTheSameBehindAnOnnxFile) {
  for (const WeightFormat& format : {WeightFormat{8, 16}, WeightFormat{4, 8}, WeightFormat{8, 0}, WeightFormat{4, 0}}) {
    Graph graph = model();
    quantize_weights(graph, format);
    const std::string bytes = onnx_bytes(graph);
    const Graph read = import_onnx_bytes(bytes, "").graph;
    const std::vector<Tensor> x{random_tensor(DType::f32, {3, 40}, 7)};
    const auto want = run_reference(graph, x), got = run_reference(read, x);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(got[i].same_bits(want[i])) << format.bits << ' ' << i;
  }
}

}  // namespace
}  // namespace temper
