// SPDX-License-Identifier: Apache-2.0
#include "quantize/row_scales.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "graph/ops/matmul.h"
#include "graph/ops/reduce.h"
#include "graph/product.h"
#include "optimize/build_engine.h"
#include "optimize/precision.h"

namespace temper {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

// gelu(x w + b) + r, of which each part may be left out.
struct Case {
  Dims x;
  int64_t columns = 1;
  bool transposed = false, bias = false, gelu = false, residual = false;

  Dims out() const {
    Dims dims = x;
    dims.back() = columns;
    return dims;
  }
};

Tensor filled(std::mt19937& random, const Dims& dims, double size) {
  Tensor tensor(DType::f32, dims);
  for (int64_t i = 0; i < tensor.count(); ++i)
    tensor.data<float>()[i] = float((double(random()) / 2147483648.0 - 1) * size);
  return tensor;
}

struct Model {
  Graph graph;
  Tensor w, b;
};
Model model_of(const Case& c, std::mt19937& random) {
  Model model;
  const int64_t k = c.x.back();
  model.w = filled(random, c.transposed ? Dims{c.columns, k} : Dims{k, c.columns}, 0.5);
  model.b = filled(random, {c.columns}, 1);
  Graph& graph = model.graph;
  graph.name = "rows";
  ops::MatMul op;
  op.transpose_b = c.transposed;
  std::vector<ValueId> inputs{graph.add_input("x", {DType::f32, Shape(c.x.begin(), c.x.end())}),
                              graph.add_constant("w", model.w)};
  Program& epilogue = op.epilogue;
  epilogue.inputs = 1 + c.bias + c.residual;
  const auto step = [&](Scalar scalar, int a, int b = -1) { return epilogue.push({scalar, DType::f32, {a, b, -1}}); };
  const auto number = [&](double value) { return epilogue.push(constant_step(DType::f32, value)); };
  int y = 0;
  if (c.bias) {
    inputs.push_back(graph.add_constant("b", model.b));
    y = step(Scalar::add, y, 1);
  }
  if (c.gelu) {
    const int half = step(Scalar::mul, y, number(0.5));
    const int erf = step(Scalar::erf, step(Scalar::mul, y, number(std::sqrt(0.5))));
    y = step(Scalar::mul, half, step(Scalar::add, erf, number(1)));
  }
  if (c.residual) {
    const Dims out = c.out();
    inputs.push_back(graph.add_input("r", {DType::f32, Shape(out.begin(), out.end())}));
    y = step(Scalar::add, y, epilogue.inputs - 1);
  }
  graph.add_output("y", graph.add_single(op, inputs, "product"));
  return model;
}

// Plain loops, as the header says it.
std::vector<float> expected(const Case& c, const Model& model, const Tensor& x, const Tensor& r) {
  const int64_t k = c.x.back(), n = c.columns, rows = x.count() / k;
  const auto weight = [&](int64_t i, int64_t j) { return model.w.data<float>()[c.transposed ? j * k + i : i * n + j]; };
  std::vector<float> y;
  for (int64_t row = 0; row < rows; ++row) {
    const float* values = x.data<float>() + row * k;
    float largest = 0;
    for (int64_t i = 0; i < k; ++i)
      if (std::isnan(values[i]) || std::fabs(values[i]) > largest) largest = std::fabs(values[i]);
    for (int64_t i = 0; i < k; ++i)
      if (std::isnan(values[i])) largest = kNan;
    const float scale = largest < 127 * 0x1p-126f ? 0x1p-126f : largest / 127;
    for (int64_t j = 0; j < n; ++j) {
      float most = 0;
      for (int64_t i = 0; i < k; ++i) most = std::max(most, std::fabs(weight(i, j)));
      const float of_column = most == 0 ? 1.f / 127 : most / 127;
      int32_t sum = 0;
      for (int64_t i = 0; i < k; ++i) {
        const float step = std::nearbyint(values[i] * (1 / scale));
        const int32_t integer = std::isnan(step) ? 0 : int32_t(step);
        EXPECT_LE(std::abs(integer), 127);
        sum += integer * int32_t(std::nearbyint(weight(i, j) / of_column));
      }
      float value = float(sum) * of_column * scale;
      if (c.bias) value += model.b.data<float>()[j];
      if (c.gelu) value = value * 0.5f * (std::erf(value * std::sqrt(0.5f)) + 1);
      if (c.residual) value += r.data<float>()[row * n + j];
      y.push_back(value);
    }
  }
  return y;
}

void expect_equal(const Tensor& got, const std::vector<float>& wanted, const std::string& who) {
  ASSERT_EQ(got.count(), int64_t(wanted.size()));
  for (size_t i = 0; i < wanted.size(); ++i) {
    const float a = got.data<float>()[i], b = wanted[i];
    if (std::isnan(b)) ASSERT_TRUE(std::isnan(a)) << who << " at " << i << ": " << a;
    else ASSERT_NEAR(a, b, 2e-6 * (1 + std::fabs(b))) << who << " at " << i;
  }
}

const PlacementOptions kScaledByToken{.activation_scales = ActivationScales::token};

// By the reference and by a plan, both against the loops.
void check(const Case& c, const Model& model, const std::vector<Tensor>& inputs) {
  const std::vector<float> wanted = expected(c, model, inputs[0], inputs.back());
  const Placement placed = place_quantization(model.graph, {}, kScaledByToken);
  ASSERT_EQ(placed.integer_products, 1);
  ASSERT_NO_FATAL_FAILURE(expect_equal(run_reference(placed.graph, inputs).at(0), wanted, "reference"));
  BuildOptions options;
  options.threads = 2;
  options.measure = false;
  options.precision = "int8";
  options.placement = kScaledByToken;
  const auto engine = build_engine(model.graph, {}, options);
  EXPECT_EQ(engine->info().lowered_products, 1);
  ASSERT_NO_FATAL_FAILURE(expect_equal(Session(engine).run(inputs).at(0), wanted, "plan"));
}

TEST(RowScales, AProductIsThatOfTheIntegersOfEachRow) {
  std::mt19937 random(1);
  for (const Case& c : {Case{{7, 16}, 5}, Case{{1, 3}, 1}, Case{{2, 5, 33}, 20, true},
                        Case{{2, 3, 4, 8}, 6, false, true}, Case{{40, 64}, 48, false, true, true},
                        Case{{2, 9, 24}, 24, true, true, true, true}, Case{{3, 70}, 17, false, false, false, true}}) {
    SCOPED_TRACE(concat(c.x, " to ", c.columns));
    const Model model = model_of(c, random);
    std::vector<Tensor> inputs{filled(random, c.x, 3)};
    // Rows of very different sizes, which one scale would not hold.
    const int64_t k = c.x.back();
    for (int64_t i = 0; i < inputs[0].count(); ++i)
      inputs[0].data<float>()[i] *= float(std::pow(10.0, double(i / k % 7) - 3));
    if (c.residual) inputs.push_back(filled(random, c.out(), 1));
    ASSERT_NO_FATAL_FAILURE(check(c, model, inputs));
  }
}

TEST(RowScales, ARowOfZerosGivesTheBiasAndTinyOnesGiveNoNan) {
  std::mt19937 random(2);
  const Case c{{4, 8}, 3, false, true};
  const Model model = model_of(c, random);
  Tensor x = filled(random, c.x, 1);
  for (int64_t i = 0; i < 8; ++i) {
    x.data<float>()[8 + i] = i % 2 ? 0.f : -0.f;
    x.data<float>()[16 + i] = 1e-40f;              // below the smallest normal number
    x.data<float>()[24 + i] = i == 5 ? 3e38f : 1;  // the largest ones overflow nowhere
  }
  ASSERT_NO_FATAL_FAILURE(check(c, model, {x}));
  const Tensor y = run_reference(place_quantization(model.graph, {}, kScaledByToken).graph, {x}).at(0);
  for (int64_t j = 0; j < 3; ++j) {
    EXPECT_EQ(y.data<float>()[3 + j], model.b.data<float>()[j]);
    EXPECT_TRUE(std::isfinite(y.data<float>()[9 + j]));
  }
}

TEST(RowScales, ARowWithNanOrInfinityGivesNanAndLeavesTheOthersAlone) {
  std::mt19937 random(3);
  const Case c{{2, 3, 40}, 9, true, true};
  const Model model = model_of(c, random);
  for (const float bad : {kNan, -kNan, kInf, -kInf})
    for (const int64_t at : {int64_t(0), int64_t(17), int64_t(39)}) {
      Tensor x = filled(random, c.x, 1);
      x.data<float>()[40 + at] = bad;
      SCOPED_TRACE(concat(bad, " at ", at));
      ASSERT_NO_FATAL_FAILURE(check(c, model, {x}));
      const Tensor y = run_reference(place_quantization(model.graph, {}, kScaledByToken).graph, {x}).at(0);
      for (int64_t i = 0; i < y.count(); ++i) EXPECT_EQ(std::isnan(y.data<float>()[i]), i / 9 == 1) << i;
    }
}

// Two products, the second of which reads what the first one makes, by weights that are all positive.
const char* const kTwo =
    "graph \"two\"\ninput %x: f32[2,3,4]\nconst %w: f32[4,4] = [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]\n"
    "const %v: f32[4,2] = [1,2,3,4,5,6,7,8]\n%a: f32[2,3,4] = matmul(%x, %w) epilogue=\"(1) 1=relu.f32(0)\" @\"a\"\n"
    "%y: f32[2,3,2] = matmul(%a, %v) epilogue=\"(1)\" @\"y\"\noutput \"y\" = %y\n";

TEST(RowScales, BesideHalvesRowsAreReadInThemAndScalesStayInF32) {
  for (const auto& [precision, half] : {std::pair("int8+fp16", DType::f16), std::pair("int8+bf16", DType::bf16)}) {
    const Graph made = in_precision(parse_graph(kTwo), precision, {}, kScaledByToken, "cpu", {});
    const auto dtype = [&](const char* name) {
      EXPECT_TRUE(made.find(name).valid()) << name << '\n' << print(made);
      return made.type(made.find(name)).dtype;
    };
    EXPECT_EQ(dtype("a"), half);
    EXPECT_EQ(dtype("a/largest"), half);
    EXPECT_EQ(dtype("a/least"), half);
    EXPECT_EQ(dtype("a/row_scales"), DType::f32);
    EXPECT_EQ(dtype("a/row_quantized"), DType::i8);
    EXPECT_EQ(dtype("y"), DType::f32);
    // Nothing is cast but within programs.
    for (int32_t n = 0; n < made.node_count(); ++n)
      EXPECT_TRUE(is_product(made.node({n}).op) || made.node({n}).op.is<ops::Reduce>() ||
                  !epilogue_of(made.node({n}).op))
          << made.node({n}).name;
    EXPECT_EQ(made.node_count(), 2 * 5) << print(made);
  }
}

TEST(RowScales, HalvesGiveWhatTheScaleOfTheirOwnRowSays) {
  const Graph graph = parse_graph(kTwo), int8 = in_precision(graph, "int8", {}, kScaledByToken, "cpu", {}),
              made = in_precision(graph, "int8+fp16", {}, kScaledByToken, "cpu", {});
  std::mt19937 random(4);
  Tensor x = filled(random, {2, 3, 4}, 1);
  for (int64_t i = 0; i < 4; ++i) x.data<float>()[4 + i] = 1e-6f;  // a scale that f16 does not hold
  const Tensor wanted = run_reference(int8, {x}).at(0), got = run_reference(made, {x}).at(0);
  for (int64_t i = 0; i < wanted.count(); ++i)  // of what is not negative: nothing cancels
    EXPECT_NEAR(got.data<float>()[i], wanted.data<float>()[i], 0.02 * double(wanted.data<float>()[i])) << i;
  EXPECT_GT(wanted.data<float>()[2], 0);
}

// The convolution's input has one scale, by its range, into which the product's epilogue rounds once more.
TEST(RowScales, AConvolutionBehindSuchAProductReadsBytesThatItWrites) {
  const Graph graph = parse_graph(
      "graph \"both\"\ninput %x: f32[1,2,3,4]\nconst %w: f32[4,4] = [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]\n"
      "const %c: f32[2,2,1,1] = [1,-2,3,4]\n%a: f32[1,2,3,4] = matmul(%x, %w) epilogue=\"(1) 1=relu.f32(0)\" @\"a\"\n"
      "%y: f32[1,2,3,4] = conv(%a, %c) strides=[1,1] dilations=[1,1] pads=[0,0,0,0] @\"y\"\noutput \"y\" = %y\n");
  Ranges ranges;
  ranges.values["a"].scale = 0.25f;
  ranges.values["a"].max = 0.25f * 127;
  const Graph placed = place_quantization(graph, ranges, kScaledByToken).graph,
              folded = in_precision(graph, "int8", ranges, kScaledByToken, "cpu", {});
  EXPECT_EQ(folded.type(folded.find("a/quantized")).dtype, DType::i8) << print(folded);
  EXPECT_TRUE(is_product(folded.producer(folded.find("a/quantized"))->op)) << print(folded);
  std::mt19937 random(5);
  const Tensor x = filled(random, {1, 2, 3, 4}, 1), wanted = run_reference(placed, {x}).at(0),
               got = run_reference(folded, {x}).at(0);
  for (int64_t i = 0; i < wanted.count(); ++i) EXPECT_NEAR(got.data<float>()[i], wanted.data<float>()[i], 1e-4) << i;
}

}  // namespace
}  // namespace temper
