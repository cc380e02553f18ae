// SPDX-License-Identifier: Apache-2.0
// INT8 and FP8, alone and with 16 bits, on an emulated GPU: against fp32, and where the borders between formats lie.
#include <algorithm>
#include <cmath>

#include "../../plan/helpers.h"
#include "../run_tactic.h"
#include "base/small_types.h"
#include "emulated_gpu.h"
#include "graph/product.h"
#include "optimize/build_engine.h"

namespace temper {
namespace {

// Of every value of the optimised graph on that input.
std::shared_ptr<const Ranges> ranges_of(const Graph& graph, const Tensor& input) {
  EngineInfo info;
  Graph all = optimised_graph(graph, info, {});
  std::vector<std::string> names(all.outputs().size());
  const int32_t values = all.value_count();
  for (int32_t v = 0; v < values; ++v)
    if (!all.constant({v}) && all.type({v}).dtype == DType::f32) {
      names.push_back(all.value({v}).name);
      all.add_output(concat(names.back(), " seen"), {v});
    }
  const std::vector<Tensor> seen = run_reference(all, {input});
  auto ranges = std::make_shared<Ranges>();
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) continue;
    TensorRange& range = ranges->values[names[i]];
    for (int64_t e = 0; e < seen[i].count(); ++e) {
      range.min = std::min(range.min, seen[i].data<float>()[e]);
      range.max = std::max(range.max, seen[i].data<float>()[e]);
    }
    range.scale = std::max(-range.min, range.max) / 127;
    range.method = "minmax";
  }
  return ranges;
}

class EmulatedMix : public testing::EmulatedBuilds {
 protected:
  // The largest difference from fp32, as a part of the largest value; nothing is NaN.
  double distance(const Graph& graph, const Tensor& input, const std::string& precision, KeptNodes keep = {}) {
    BuildOptions options;
    options.device = "cuda:0";
    options.precision = precision;
    options.placement.activation_scales = scales_;
    if (scales_ == ActivationScales::tensor) options.ranges = ranges_of(graph, input);
    options.placement.keep_nodes = std::move(keep);
    options.measure = false;
    engine_ = build_engine(graph, {}, options);
    const Tensor got = Session(engine_).run({input}).at(0), want = run_reference(graph, {input}).at(0);
    double most = 0, largest = 0;
    for (int64_t i = 0; i < want.count(); ++i) {
      EXPECT_FALSE(std::isnan(got.data<float>()[i])) << i;
      most = std::max(most, std::fabs(double(got.data<float>()[i]) - want.data<float>()[i]));
      largest = std::max(largest, std::fabs(double(want.data<float>()[i])));
    }
    return most / largest;
  }
  // The type that each product of the plan multiplies; all steps are on the GPU.
  std::map<std::string, DType> products() const {
    std::map<std::string, DType> types;
    for (const Segment& segment : engine_->plans().at(0)->segments)
      for (const PlanStep& step : segment.steps) {
        EXPECT_NE(step.tactic, "cuda.host") << step.node;
        if (!step.is_reorder() && is_product(step.problem.op)) types[step.node] = step.problem.inputs[1].type.dtype;
      }
    return types;
  }
  // Images of f32 that a step writes for another one, but for the last, which the output is copied from.
  std::vector<std::string> wide_between() const {
    std::vector<std::string> names;
    for (const Segment& segment : engine_->plans().at(0)->segments)
      for (const PlanStep& step : segment.steps)
        for (size_t o = 0; o < step.outputs.size(); ++o)
          if (const Port& port = step.problem.outputs[o]; step.node != "last" && port.type.dtype == DType::f32 &&
                                                          element_count(port.dims()) > 1000 && !step.is_reorder())
            names.push_back(step.node);
    return names;
  }

  ActivationScales scales_ = ActivationScales::tensor;
  std::shared_ptr<Engine> engine_;
};

// A residual block whose sum a norm reads, which has no form in integers.
Graph normed_block() {
  const std::vector<Tensor> blobs{scaled({16, 8, 3, 3}, 1, 0.2f), scaled({16, 1, 1}, 2, 0.3f),
                                  scaled({16, 16, 3, 3}, 3, 0.1f), scaled({8, 16, 1, 1}, 4, 0.3f)};
  return parse_graph(
      "graph \"block\"\ninput %x: f32[2,8,9,9]\nconst %w: f32[16,8,3,3] = #0\nconst %b: f32[16,1,1] = #1\n"
      "const %u: f32[16,16,3,3] = #2\nconst %v: f32[8,16,1,1] = #3\n"
      "%a: f32[2,16,9,9] = conv(%x, %w, %b) strides=[1,1] dilations=[1,1] pads=[1,1,1,1] epilogue=\"(2) "
      "2=add.f32(0,1) 3=relu.f32(2)\" @\"first\"\n"
      "%c: f32[2,16,9,9] = conv(%a, %u, %b, %a) strides=[1,1] dilations=[1,1] pads=[1,1,1,1] epilogue=\"(3) "
      "3=add.f32(0,1) 4=add.f32(3,2)\" @\"second\"\n"
      "%n: f32[2,16,9,9] = normalize(%c) axes=[1,2,3] groups=4\n"
      "%g: f32[2,16,9,9] = pointwise(%n) program=\"(1) 1=sigmoid.f32(0) 2=mul.f32(0,1)\"\n"
      "%y: f32[2,8,9,9] = conv(%g, %v) strides=[1,1] dilations=[1,1] pads=[0,0,0,0] @\"last\"\noutput \"y\" = %y\n",
      blobs);
}

// A layer of a transformer, whose heads are one.
Graph transformer_layer() {
  std::vector<Tensor> blobs;
  for (uint32_t i = 0; i < 6; ++i) blobs.push_back(scaled({32, 32}, 1 + i, 0.2f));
  return parse_graph(
      "graph \"layer\"\ninput %x: f32[2,20,32]\nconst %wq: f32[32,32] = #0\nconst %wk: f32[32,32] = #1\n"
      "const %wv: f32[32,32] = #2\nconst %wo: f32[32,32] = #3\nconst %w1: f32[32,32] = #4\nconst %w2: f32[32,32] = #5\n"
      "%q: f32[2,20,32] = matmul(%x, %wq) epilogue=\"(1) 1=constant.f32[0.176] 2=mul.f32(0,1)\" @\"q\"\n"
      "%k: f32[2,20,32] = matmul(%x, %wk) @\"k\"\n%v: f32[2,20,32] = matmul(%x, %wv) @\"v\"\n"
      "%s: f32[2,20,20] = matmul(%q, %k) transpose_b=true @\"scores\"\n%p: f32[2,20,20] = softmax(%s) axis=2\n"
      "%c: f32[2,20,32] = matmul(%p, %v) @\"context\"\n"
      "%o: f32[2,20,32] = matmul(%c, %wo, %x) epilogue=\"(2) 2=add.f32(0,1)\" @\"o\"\n"
      "%n: f32[2,20,32] = normalize(%o) axes=[2]\n"
      "%h: f32[2,20,32] = matmul(%n, %w1) epilogue=\"(1) 1=relu.f32(0)\" @\"up\"\n"
      "%y: f32[2,20,32] = matmul(%h, %w2, %n) epilogue=\"(2) 2=add.f32(0,1)\" @\"down\"\noutput \"y\" = %y\n",
      blobs);
}

TEST_F(EmulatedMix, ConvolutionsWithANormAnswerAsInFp32AndNothingBetweenThemIsWide) {
  const Tensor x = noise({2, 8, 9, 9}, 7);
  for (const char* precision : {"int8+fp16", "int8+bf16"}) {
    EXPECT_LT(distance(normed_block(), x, precision), 0.03) << precision;
    const std::map<std::string, DType> all{{"first", DType::i8}, {"second", DType::i8}, {"last", DType::i8}};
    EXPECT_EQ(products(), all);
    EXPECT_EQ(wide_between(), std::vector<std::string>()) << precision;
  }
  EXPECT_LT(distance(normed_block(), x, "int8"), 0.03);
  EXPECT_NE(wide_between(), std::vector<std::string>());
}

// A layer of a transformer without its attention, of more rows than kernels of few take.
TEST_F(EmulatedMix, TokensWithScalesOfTheirOwnAnswerAsInFp32AndAreReadInSixteenBits) {
  const std::vector<Tensor> blobs{scaled({32, 64}, 1, 0.3f), scaled({64}, 2, 0.3f), scaled({64, 32}, 3, 0.2f),
                                  scaled({32}, 4, 0.5f)};
  const Graph graph = parse_graph(
      "graph \"block\"\ninput %x: f32[2,40,32]\nconst %w: f32[32,64] = #0\nconst %b: f32[64] = #1\n"
      "const %v: f32[64,32] = #2\nconst %s: f32[32] = #3\n"
      "%a: f32[2,40,64] = matmul(%x, %w, %b) epilogue=\"(2) 2=add.f32(0,1) 3=relu.f32(2)\" @\"first\"\n"
      "%c: f32[2,40,32] = matmul(%a, %v, %x) epilogue=\"(2) 2=add.f32(0,1)\" @\"second\"\n"
      "%n: f32[2,40,32] = normalize(%c) axes=[2]\n"
      "%g: f32[2,40,32] = pointwise(%n, %s) program=\"(2) 2=mul.f32(0,1)\"\n"
      "%y: f32[2,40,64] = matmul(%g, %w) @\"last\"\noutput \"y\" = %y\n",
      blobs);
  Tensor x = noise({2, 40, 32}, 7);
  for (int64_t i = 0; i < 32; ++i) x.data<float>()[5 * 32 + i] *= 100;
  scales_ = ActivationScales::token;
  const std::map<std::string, DType> all{{"first", DType::i8}, {"second", DType::i8}, {"last", DType::i8}};
  for (const char* precision : {"int8+fp16", "int8+bf16", "int8"}) {
    EXPECT_LT(distance(graph, x, precision), 0.03) << precision;
    EXPECT_EQ(products(), all) << precision;
    std::map<std::string, DType> read;  // by what finds the largest of the rows
    for (const Segment& segment : engine_->plans().at(0)->segments)
      for (const PlanStep& step : segment.steps)
        if (step.node.ends_with("/largest")) read[step.node] = step.problem.inputs[0].type.dtype;
    const DType half = std::string(precision) == "int8"        ? DType::f32
                       : std::string(precision) == "int8+fp16" ? DType::f16
                                                               : DType::bf16;
    EXPECT_EQ(read, (std::map<std::string, DType>{{"x/largest", DType::f32}, {"a/largest", half}, {"g/largest", half}}))
        << precision;
  }
}

TEST_F(EmulatedMix, LayersThatAreKeptAreInSixteenBitsOrFp32) {
  const Tensor x = noise({2, 8, 9, 9}, 7);
  const double integers = distance(normed_block(), x, "int8+fp16");
  const double mixed = distance(normed_block(), x, "int8+fp16", {{"first", DType::f16}, {"last", DType::f32}});
  const std::map<std::string, DType> types{{"first", DType::f16}, {"second", DType::i8}, {"last", DType::f32}};
  EXPECT_EQ(products(), types);
  EXPECT_LT(mixed, integers);
  EXPECT_LT(
      distance(normed_block(), x, "int8+fp16", {{"first", DType::f16}, {"second", DType::f16}, {"last", DType::f16}}),
      2e-3);
  EXPECT_EQ(engine_->info().lowered_products, 3);
}

// The sum of squares behind the first product is beyond fp16; so is the second product's operand.
TEST_F(EmulatedMix, WhatSixteenBitsDoNotHoldStaysInFp32) {
  const std::vector<Tensor> blobs{scaled({16, 16}, 1, 300), scaled({16, 16}, 2, 0.3f)};
  const Graph graph = parse_graph(
      "graph \"large\"\ninput %x: f32[4,16]\nconst %w: f32[16,16] = #0\nconst %v: f32[16,16] = #1\n"
      "%a: f32[4,16] = matmul(%x, %w) @\"first\"\n"
      "%b: f32[4,16] = pointwise(%a) program=\"(1) 1=constant.f32[300] 2=mul.f32(0,1) 3=tanh.f32(0) 4=add.f32(2,3)\"\n"
      "%c: f32[4,16] = matmul(%b, %v) @\"second\"\n"
      "%d: f32[4,16] = pointwise(%c) program=\"(1) 1=constant.f32[1e-5] 2=mul.f32(0,1) 3=exp.f32(2)\"\n"
      "%y: f32[4,16] = matmul(%d, %v) @\"third\"\noutput \"y\" = %y\n",
      blobs);
  const Tensor x = noise({4, 16}, 3);
  EXPECT_LT(distance(graph, x, "int8+fp16"), 0.03);
  EXPECT_LT(distance(graph, x, "int8+fp16", {{"first", DType::f16}, {"second", DType::f16}, {"third", DType::f16}}),
            0.01);
  const auto& kept = engine_->info().not_lowered;
  EXPECT_TRUE(std::ranges::any_of(kept, [](const std::string& line) { return line.find("'b' reaches") != line.npos; }))
      << ::testing::PrintToString(kept);
}

// Heads by slices of what int8 gave; softmax and sums of rows in 16 bits.
TEST_F(EmulatedMix, ALayerOfATransformerHasItsAttentionInSixteenBits) {
  const Tensor x = noise({2, 20, 32}, 7);
  EXPECT_LT(distance(transformer_layer(), x, "int8+fp16"), 0.04);
  for (const auto& [name, dtype] : products()) EXPECT_EQ(dtype, DType::i8) << name;
  bool attention = false;
  for (const Segment& segment : engine_->plans().at(0)->segments)
    for (const PlanStep& step : segment.steps)
      if (!step.is_reorder() && name_of(step.problem.op) == "attention") {
        attention = true;
        EXPECT_EQ(step.problem.inputs[0].type.dtype, DType::f16);
      }
  EXPECT_TRUE(attention);
}

// Convolutions, and products of two values that are computed, stay above.
TEST_F(EmulatedMix, InFp8MatrixProductsAloneAreInEightBits) {
  const Tensor x = noise({2, 20, 32}, 7);
  for (const char* precision : {"fp8", "fp8+fp16", "fp8+bf16"}) {
    EXPECT_LT(distance(transformer_layer(), x, precision), 0.06) << precision;
    for (const auto& [name, dtype] : products())
      if (name != "scores" && name != "context") { EXPECT_EQ(dtype, DType::f8e4m3fn) << precision << ": " << name; }
  }
  distance(normed_block(), noise({2, 8, 9, 9}, 7), "fp8+fp16");
  for (const auto& [name, dtype] : products()) EXPECT_EQ(dtype, DType::f16) << name;
  distance(normed_block(), noise({2, 8, 9, 9}, 7), "fp8");
  for (const auto& [name, dtype] : products()) EXPECT_EQ(dtype, DType::f32) << name;
  const auto& kept = engine_->info().not_lowered;
  EXPECT_TRUE(std::ranges::any_of(kept, [](const std::string& line) {
    return line.find("convolution has no form in 8-bit floats") != line.npos;
  })) << ::testing::PrintToString(kept);
}

TEST_F(EmulatedMix, LayersAreKeptOutOfFp8) {
  const Tensor x = noise({2, 20, 32}, 7);
  const double all = distance(transformer_layer(), x, "fp8+fp16");
  EXPECT_LT(distance(transformer_layer(), x, "fp8+fp16", {{"up", DType::f16}, {"down", DType::f32}}), all);
  EXPECT_EQ(products().at("up"), DType::f16);
  EXPECT_EQ(products().at("down"), DType::f32);
  EXPECT_EQ(products().at("o"), DType::f8e4m3fn);
}

TEST_F(EmulatedMix, GpusWithoutFp8AreToldSo) {
  exchange(80);
  const Tensor x = noise({2, 20, 32}, 7);
  try {
    distance(transformer_layer(), x, "fp8+fp16");
    ADD_FAILURE() << "it was built";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_NE(std::string(error.what()).find("those of compute capability 8.9 and later do; use --precision int8+fp16"),
              std::string::npos)
        << error.what();
  }
  exchange(89);
  EXPECT_LT(distance(transformer_layer(), x, "fp8+fp16"), 0.06);
}

double largest_of(const Tensor& tensor) {
  double most = 0;
  for (const double x : tensor.to_doubles()) most = std::max(most, std::fabs(x));
  return most;
}

// A model in FP8 answers as its graph says on every device: where there are no such products, they are of f32.
TEST_F(EmulatedMix, ModelsInFp8AnswerOnEveryDevice) {
  std::vector<Tensor> blobs{noise({32, 48}, 3), Tensor::of<float>({48}, std::vector<float>(48, 0.3f)),
                            noise({32, 48}, 5), Tensor::of<float>({}, {0.05f})};
  for (size_t i : {0, 2}) {
    Tensor codes(DType::f8e4m3fn, blobs[i].dims());
    for (int64_t e = 0; e < codes.count(); ++e)
      codes.raw_mutable()[e] = std::byte(float_to_e4m3(blobs[i].data<float>()[e]));
    blobs[i] = codes;
  }
  const Graph graph = parse_graph(
      "graph \"fp8\"\ninput %x: f32[7,32]\nconst %s: f32[] = #3\nconst %w: f8e4m3fn[32,48] = #0\n"
      "const %sw: f32[48] = #1\nconst %v: f8e4m3fn[32,48] = #2\n"
      "%q: f8e4m3fn[7,32] = quantize(%x, %s) dtype=f8e4m3fn axis=0\n%d: f32[7,32] = dequantize(%q, %s) dtype=f32 "
      "axis=0\n"
      "%wd: f32[32,48] = dequantize(%w, %sw) dtype=f32 axis=1\n"
      "%h: f32[7,48] = matmul(%d, %wd) epilogue=\"(1) 1=relu.f32(0)\" @\"up\"\n"
      "%hq: f8e4m3fn[7,48] = quantize(%h, %s) dtype=f8e4m3fn axis=0\n"
      "%hd: f32[7,48] = dequantize(%hq, %s) dtype=f32 axis=0\n%vd: f32[32,48] = dequantize(%v, %s) dtype=f32 axis=0\n"
      "%y: f32[7,32] = matmul(%hd, %vd) transpose_b=true @\"down\"\noutput \"y\" = %y\n",
      blobs);
  const Tensor x = noise({7, 32}, 9), want = run_reference(graph, {x}).at(0);
  for (const int capability : {75, 80, 89, 90}) {
    exchange(capability);
    for (const char* device : {"cpu", "cuda:0"}) {
      BuildOptions options;
      options.device = device;
      options.measure = false;
      engine_ = build_engine(graph, {}, options);
      // Ties that fall the other way, for sums in another order, are one code of 16.
      EXPECT_EQ(testing::difference(Session(engine_).run({x}).at(0), want, 1e-3, 0.02 * largest_of(want)), "")
          << device << ' ' << capability;
      const bool own = device != std::string_view("cpu") && capability >= 89;
      if (device != std::string_view("cpu")) {
        for (const auto& [name, dtype] : products()) EXPECT_EQ(dtype, own ? DType::f8e4m3fn : DType::f32) << capability;
      }
    }
  }
}

}  // namespace
}  // namespace temper
