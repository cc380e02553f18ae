// SPDX-License-Identifier: Apache-2.0
#include "quantize/placement.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "graph/ops/quantize.h"
#include "onnx/import.h"
#include "passes/pass.h"
#include "zoo/zoo.h"

namespace temper {
namespace {

Ranges ranges_of(const std::vector<std::pair<std::string, float>>& scales) {
  Ranges ranges;
  for (const auto& [name, scale] : scales) {
    TensorRange& range = ranges.values[name];
    range.scale = scale;
    range.max = scale * 127;
    range.min = -range.max;
  }
  return ranges;
}

std::string placed(std::string_view text, const Ranges& ranges, const PlacementOptions& options = {}) {
  const Placement placement = place_quantization(parse_graph(text), ranges, options);
  verify(placement.graph);
  return print(placement.graph);
}

constexpr std::string_view kConv = "strides=[1,1] dilations=[1,1] pads=[0,0,0,0]";

TEST(Placement, InFloat8MatrixProductsAloneGetPairsByTheLargestThatWasSeen) {
  PlacementOptions options;
  options.dtype = DType::f8e4m3fn;
  Ranges ranges = ranges_of({{"x", 1.0f}, {"c", 1.0f}, {"m", 3.0f}});
  ranges.values["m"].min = -448;  // clipped by its scale
  ranges.values["m"].max = 224;
  const std::string text = concat(
      "graph \"g\"\ninput %x: f32[1,1,2,2]\nconst %w: f32[2,1,1,1] = [1,2]\n%c: f32[1,2,2,2] = conv(%x, %w) ", kConv,
      " @\"conv\"\n%m: f32[1,2,4] = reshape(%c) shape=[1,2,4]\nconst %v: f32[4,2] = [448,0,0,0,-896,0,0,0]\n"
      "%y: f32[1,2,2] = matmul(%m, %v, %m2) epilogue=\"(2) 2=add.f32(0,1)\" @\"product\"\noutput \"y\" = %y\n");
  std::string with_residual = text;
  with_residual.replace(with_residual.find("%y:"), 0, "const %m2: f32[2] = [1,2]\n");
  const Placement placement = place_quantization(parse_graph(with_residual), ranges, options);
  verify(placement.graph);
  const std::string printed = print(placement.graph);
  for (const char* line : {
           "%c: f32[1,2,2,2] = conv(%x, %w)",
           "const %c/scale: f32[] = [1]",
           "f8e4m3fn[1,2,4] = quantize(%m, %c/scale) dtype=f8e4m3fn",
           "const %v/quantized: f8e4m3fn[4,2] = [118,0,0,0,254,0,0,0]",
           "const %v/scale: f32[2] = [2,1]",
       })
    EXPECT_NE(printed.find(line), std::string::npos) << line << "\n" << printed;
  EXPECT_EQ(placement.integer_products, 1);
  EXPECT_EQ(placement.products, 2);
  EXPECT_EQ(placement.nodes[0].reason, "a convolution has no form in 8-bit floats");
}

TEST(Placement, AConvolutionGetsPairsForItsInputAndResidualAndWeightsPerChannel) {
  EXPECT_EQ(placed(concat("graph \"g\"\n"
                          "input %x: f32[1,1,2,2]\n"
                          "const %w: f32[2,1,1,1] = [127,-254]\n"
                          "const %b: f32[2,1,1] = [1,2]\n"
                          "%a: f32[1,2,2,2] = conv(%x, %w, %b) ",
                          kConv,
                          " epilogue=\"(2) 2=add.f32(0,1)\" @\"first\"\n"
                          "const %v: f32[2,2,1,1] = [1,2,0,0]\n"
                          "%y: f32[1,2,2,2] = conv(%a, %v, %a) ",
                          kConv,
                          " epilogue=\"(2) 2=add.f32(0,1) 3=relu.f32(2)\" @\"second\"\n"
                          "output \"y\" = %y\n"),
                   ranges_of({{"x", 0.5f}, {"a", 2.0f}, {"y", 3.0f}})),
            concat("graph \"g\"\n"
                   "input %x: f32[1,1,2,2]\n"
                   "const %x/scale: f32[] = [0.5]\n"
                   "%x/quantized: i8[1,1,2,2] = quantize(%x, %x/scale) @\"x/quantize\"\n"
                   "%x/dequantized: f32[1,1,2,2] = dequantize(%x/quantized, %x/scale) @\"x/dequantize\"\n"
                   "const %w/quantized: i8[2,1,1,1] = [127,-127]\n"
                   "const %w/scale: f32[2] = [1,2]\n"
                   "%w/dequantized: f32[2,1,1,1] = dequantize(%w/quantized, %w/scale) @\"w/dequantize\"\n"
                   "const %b: f32[2,1,1] = [1,2]\n"
                   "%a: f32[1,2,2,2] = conv(%x/dequantized, %w/dequantized, %b) ",
                   kConv,
                   " epilogue=\"(2) 2=add.f32(0,1)\" @\"first\"\n"
                   "const %a/scale: f32[] = [2]\n"
                   "%a/quantized: i8[1,2,2,2] = quantize(%a, %a/scale) @\"a/quantize\"\n"
                   "%a/dequantized: f32[1,2,2,2] = dequantize(%a/quantized, %a/scale) @\"a/dequantize\"\n"
                   "const %v/quantized: i8[2,2,1,1] = [64,127,0,0]\n"
                   "const %v/scale: f32[2] = [0.015748031,0.007874016]\n"
                   "%v/dequantized: f32[2,2,1,1] = dequantize(%v/quantized, %v/scale) @\"v/dequantize\"\n"
                   "%y: f32[1,2,2,2] = conv(%a/dequantized, %v/dequantized, %a/dequantized) ",
                   kConv,
                   " epilogue=\"(2) 2=add.f32(0,1) 3=relu.f32(2)\" @\"second\"\n"
                   "output \"y\" = %y\n"));
}

// A pool, a concat and a reshape between two layers: everything has the widest scale.
const std::string kMovers = concat(
    "input %x: f32[2,1,4,4]\n"
    "const %w: f32[1,1,1,1] = [1]\n"
    "%a: f32[2,1,4,4] = conv(%x, %w) ",
    kConv,
    " epilogue=\"(1)\" @\"a\"\n"
    "%p: f32[2,1,2,2] = pool(%a) kernel=[2,2] strides=[2,2] dilations=[1,1] pads=[0,0,0,0] @\"p\"\n"
    "%s: f32[2,1,2,2] = slice(%x) starts=[0,0,0,0] sizes=[2,1,2,2] steps=[1,1,1,1] @\"s\"\n"
    "%c: f32[2,2,2,2] = concat(%p, %s) axis=1 @\"c\"\n"
    "%r: f32[2,8] = reshape(%c) shape=[2,8] @\"r\"\n"
    "const %m: f32[8,1] = [1,2,3,4,5,6,7,8]\n"
    "%f: f32[2,1] = matmul(%r, %m) epilogue=\"(1)\" @\"f\"\n"
    "%y: f32[2,1] = softmax(%f) axis=1 @\"softmax\"\n"
    "output \"y\" = %y\n");

TEST(Placement, OpsThatLeaveValuesAsTheyAreShareTheWidestScale) {
  const Graph graph = parse_graph(kMovers);
  const Placement placement = place_quantization(
      graph, ranges_of({{"x", 1}, {"a", 4}, {"p", 3}, {"s", 1}, {"c", 3}, {"r", 3}, {"f", 9}, {"y", 1}}));
  int pairs = 0;
  for (int32_t n = 0; n < placement.graph.node_count(); ++n) {
    const Node& node = placement.graph.node({n});
    if (!node.op.is<ops::Quantize>()) continue;
    ++pairs;
    EXPECT_EQ(placement.graph.constant(node.inputs[1])->to_doubles(), std::vector<double>{4}) << node.name;
  }
  EXPECT_EQ(pairs, 6);  // x, a, p, s, c, r
  EXPECT_EQ(placement.products, 2);
  EXPECT_EQ(placement.integer_products, 2);
  ASSERT_EQ(placement.nodes.size(), 7u);
  EXPECT_FALSE(placement.nodes[6].integer);
  EXPECT_EQ(placement.nodes[6].reason, "softmax has no integer form");
  for (size_t i = 0; i < 6; ++i)
    EXPECT_TRUE(placement.nodes[i].integer) << placement.nodes[i].node << ": " << placement.nodes[i].reason;
}

std::string reason(const Placement& placement, std::string_view node) {
  for (const PlacedNode& row : placement.nodes)
    if (row.node == node) return row.integer ? "integer" : row.reason;
  return "no such node";
}

TEST(Placement, FirstLastAndNamedLayersStayInFloatWhenAsked) {
  const Graph graph = parse_graph(kMovers);
  const Ranges ranges = ranges_of({{"x", 1}, {"a", 4}, {"p", 3}, {"s", 1}, {"c", 3}, {"r", 3}});
  PlacementOptions options;
  options.keep_first = true;
  EXPECT_EQ(reason(place_quantization(graph, ranges, options), "a"), "kept out of int8: a first layer");
  EXPECT_EQ(reason(place_quantization(graph, ranges, options), "f"), "integer");
  options = {};
  options.keep_last = true;
  const Placement last = place_quantization(graph, ranges, options);
  EXPECT_EQ(reason(last, "f"), "kept out of int8: a last layer");
  EXPECT_EQ(reason(last, "r"), "no quantized layer follows");
  EXPECT_EQ(reason(last, "a"), "integer");
  options = {};
  options.keep_nodes = {{"a", DType::f32}};
  EXPECT_EQ(reason(place_quantization(graph, ranges, options), "a"), "kept in fp32 as asked");
  options.keep_nodes = {{"r", DType::f32}};
  EXPECT_EQ(reason(place_quantization(graph, ranges, options), "r"), "kept in fp32 as asked");
  options.keep_nodes = {{"nobody", DType::f32}};
  EXPECT_THROW(place_quantization(graph, ranges, options), Error);
}

TEST(Placement, AValueThatWasOnlyReshapedNeedsNoRangeOfItsOwn) {
  const Graph graph = parse_graph(kMovers);
  const auto scales = {std::pair<std::string, float>{"x", 1}, {"a", 4}, {"p", 3}, {"s", 1}, {"c", 3}};
  const Placement placement = place_quantization(graph, ranges_of(scales));
  EXPECT_EQ(reason(placement, "f"), "integer");
  EXPECT_TRUE(placement.warnings.empty());
}

TEST(Placement, AValueWithoutAUsableRangeKeepsItsLayerInFloatAndSaysSo) {
  const Graph graph = parse_graph(kMovers);
  const std::vector<std::pair<std::string, float>> all{{"x", 1}, {"a", 4}, {"p", 3}, {"s", 1}, {"c", 3}, {"r", 3}};
  for (const float bad : {0.0f, -1.0f, std::numeric_limits<float>::infinity()}) {
    auto scales = all;
    scales[5].second = bad;
    const Placement placement = place_quantization(graph, ranges_of(scales));
    EXPECT_EQ(placement.integer_products, 1);
    ASSERT_EQ(placement.warnings.size(), 1u);
    EXPECT_NE(placement.warnings[0].find("'r' has the unusable scale"), std::string::npos) << placement.warnings[0];
  }
  auto scales = all;
  scales.erase(scales.begin());
  const Placement placement = place_quantization(graph, ranges_of(scales));
  EXPECT_EQ(reason(placement, "a"), "'x' has no range");
  ASSERT_EQ(placement.warnings.size(), 1u);
  EXPECT_THROW(place_quantization(graph, ranges_of({{"stranger", 1}})), Error);
  EXPECT_THROW(place_quantization(graph, Ranges{}), Error);
}

TEST(Placement, ProductsOfActivationsAndWeightsThatAreNoNumbersStayInFloat) {
  const Placement placement =
      place_quantization(parse_graph("input %x: f32[2,2]\n"
                                     "const %bad: f32[2,2] = [1,2,3,inf]\n"
                                     "%a: f32[2,2] = matmul(%x, %x) epilogue=\"(1)\" @\"both\"\n"
                                     "%y: f32[2,2] = matmul(%a, %bad) epilogue=\"(1)\" @\"infinite\"\n"
                                     "output \"y\" = %y\n"),
                         ranges_of({{"x", 1}, {"a", 1}}));
  EXPECT_EQ(reason(placement, "both"), "a product of two activations");
  EXPECT_EQ(reason(placement, "infinite"), "its weights hold NaN or infinity");
  ASSERT_EQ(placement.warnings.size(), 1u);
  EXPECT_NE(placement.warnings[0].find("'bad'"), std::string::npos);
}

// Every value of an optimised model observed on the spot; the quantized graph must answer alike.
TEST(Placement, ATrainedModelAnswersAlikeAfterwards) {
  Graph graph = import_onnx_bytes(zoo_model("digits_cnn"), ".").graph;
  run_passes(graph);
  Tensor image(DType::f32, {6, 1, 8, 8});
  uint32_t state = 5;
  for (int64_t i = 0; i < image.count(); ++i)
    image.data<float>()[i] = float((state = state * 1664525u + 1013904223u) >> 28) / 16;
  std::vector<std::string> names;
  Graph observed = graph;  // with every value an output
  for (int32_t v = 0; v < graph.value_count(); ++v)
    if (const Value& value = graph.value({v}); !value.constant && value.type.dtype == DType::f32) {
      observed.add_output(concat("observed ", v), {v});
      names.push_back(value.name);
    }
  const std::vector<Tensor> outputs = run_reference(observed, {image});
  std::vector<std::pair<std::string, float>> scales;
  for (size_t i = 0; i < names.size(); ++i) {
    float amax = 0;
    for (double x : outputs[outputs.size() - names.size() + i].to_doubles()) amax = std::max(amax, float(std::fabs(x)));
    scales.emplace_back(names[i], amax / 127);
  }
  const Placement placement = place_quantization(graph, ranges_of(scales));
  EXPECT_EQ(placement.integer_products, placement.products);
  EXPECT_GT(placement.products, 2);
  EXPECT_TRUE(placement.warnings.empty());
  const auto wanted = run_reference(graph, {image})[0].to_doubles(),
             got = run_reference(placement.graph, {image})[0].to_doubles();
  double signal = 0, noise = 0;
  for (size_t i = 0; i < wanted.size(); ++i)
    signal += wanted[i] * wanted[i], noise += (wanted[i] - got[i]) * (wanted[i] - got[i]);
  EXPECT_GT(noise, 0);
  EXPECT_GT(10 * std::log10(signal / noise), 20) << "dB";
}

// What two products and a softmax read, one of them moved; the last one adds what it reads.
constexpr std::string_view kTokens =
    "graph \"g\"\n"
    "input %x: f32[2,2,2]\n"
    "const %w: f32[2,2] = [127,0,-254,0]\n"
    "%q: f32[2,2,2] = matmul(%x, %w) epilogue=\"(1)\" @\"q\"\n"
    "const %v: f32[2,2] = [1,2,3,4]\n"
    "%k: f32[2,2,2] = matmul(%x, %v, %x) transpose_b=true epilogue=\"(2) 2=relu.f32(0) 3=add.f32(2,1)\" @\"k\"\n"
    "%y: f32[2,2,2] = matmul(%q, %k) transpose_b=true epilogue=\"(1)\" @\"scores\"\n"
    "output \"y\" = %y\n";

PlacementOptions by_token() {
  PlacementOptions options;
  options.activation_scales = ActivationScales::token;
  return options;
}

TEST(Placement, ByTokenProductsOfOneValueShareItsRowsAndAreFolded) {
  EXPECT_EQ(
      placed(kTokens, {}, by_token()),
      "graph \"g\"\n"
      "input %x: f32[2,2,2]\n"
      "%x/largest: f32[2,2,1] = reduce(%x) kind=max axes=[2]\n"
      "%x/least: f32[2,2,1] = reduce(%x) kind=min axes=[2]\n"
      "%x/row_scales: f32[2,2,1] = pointwise(%x/largest, %x/least) program=\"(2) 2=neg.f32(1) 3=max.f32(0,2) "
      "4=constant.f32[127] 5=div.f32(3,4) 6=constant.f32[1.1754943508222875e-38] 7=max.f32(5,6)\"\n"
      "%x/row_quantized: i8[2,2,2] = pointwise(%x, %x/row_scales) program=\"(2) 2=reciprocal.f32(1) 3=mul.f32(0,2) "
      "4=round.f32(3) 5=cast.i8(4)\" @\"x/quantize_rows\"\n"
      "const %w/quantized: i8[2,2] = [64,0,-127,0]\n"
      "const %w/scale: f32[2] = [2,0.007874016]\n"
      "%q: f32[2,2,2] = matmul(%x/row_quantized, %w/quantized, %w/scale, %x/row_scales) epilogue=\"(3) 3=cast.f32(0) "
      "4=mul.f32(3,1) 5=mul.f32(4,2)\"\n"
      "const %v/quantized: i8[2,2] = [64,127,95,127]\n"
      "const %v/scale: f32[2] = [0.015748031,0.031496063]\n"
      "%k: f32[2,2,2] = matmul(%x/row_quantized, %v/quantized, %v/scale, %x/row_scales, %x) transpose_b=true "
      "epilogue=\"(4) 4=cast.f32(0) 5=mul.f32(4,1) 6=mul.f32(5,2) 7=relu.f32(6) 8=add.f32(7,3)\"\n"
      "%y: f32[2,2,2] = matmul(%q, %k) transpose_b=true @\"scores\"\n"
      "output \"y\" = %y\n");
}

TEST(Placement, ByTokenOtherProductsStayWhatTheyAreAndSayWhy) {
  const Placement placement = place_quantization(parse_graph(kTokens), {}, by_token());
  EXPECT_EQ(placement.products, 3);
  EXPECT_EQ(placement.integer_products, 2);
  EXPECT_EQ(reason(placement, "q"), "integer");
  EXPECT_EQ(reason(placement, "scores"), "a product of two activations");
  EXPECT_EQ(placement.row_scales, std::set<std::string>{"x/row_scales"});
  EXPECT_EQ(placement.warnings, std::vector<std::string>());
  PlacementOptions kept = by_token();
  kept.keep_nodes = {{"q", DType::f32}, {"k", DType::f32}};
  EXPECT_EQ(print(place_quantization(parse_graph(kTokens), {}, kept).graph), print(parse_graph(kTokens)));
}

TEST(Placement, ByTokenConvolutionsKeepOneScaleAndNeedARange) {
  const std::string text = concat(
      "graph \"g\"\ninput %x: f32[2,1,4,4]\nconst %w: f32[1,1,1,1] = [1]\n%a: f32[2,1,4,4] = conv(%x, %w) ", kConv,
      " epilogue=\"(1)\" @\"a\"\nconst %m: f32[4,1] = [1,2,3,4]\n"
      "%f: f32[2,1,4,1] = matmul(%x, %m) epilogue=\"(1)\" @\"f\"\noutput \"a\" = %a\noutput \"f\" = %f\n");
  const Placement without = place_quantization(parse_graph(text), {}, by_token());
  EXPECT_EQ(reason(without, "a"), "there are no ranges (--calibration)");
  EXPECT_EQ(reason(without, "f"), "integer");
  EXPECT_EQ(without.warnings,
            std::vector<std::string>{"there are no ranges (--calibration); what needs one stays in fp32"});
  const Placement with = place_quantization(parse_graph(text), ranges_of({{"x", 4}}), by_token());
  EXPECT_EQ(with.integer_products, 2);
  const std::string printed = print(with.graph);
  EXPECT_NE(printed.find("conv(%x/dequantized, "), printed.npos) << printed;
  EXPECT_NE(printed.find("reduce(%x) kind=max"), printed.npos) << "rows are those of the value as it was computed";
}

TEST(Placement, WithoutRangesOneProductMustTakeScalesOfTokens) {
  const std::string conv =
      concat("graph \"g\"\ninput %x: f32[2,1,4,4]\nconst %w: f32[1,1,1,1] = [1]\n%a: f32[2,1,4,4] = conv(%x, %w) ",
             kConv, " epilogue=\"(1)\" @\"a\"\noutput \"a\" = %a\n");
  try {
    place_quantization(parse_graph(conv), {}, by_token());
    FAIL() << "was not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(error.what()).find("no matrix product with constant weights"), std::string::npos);
  }
  EXPECT_THROW(place_quantization(parse_graph(kTokens), {}), Error) << "the scale of a tensor is its range's";
}

}  // namespace
}  // namespace temper
