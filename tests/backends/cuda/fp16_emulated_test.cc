// SPDX-License-Identifier: Apache-2.0
// Models whose values leave fp16 at either end, on an emulated GPU.
#include <algorithm>
#include <cmath>

#include "../../plan/helpers.h"
#include "emulated_gpu.h"
#include "optimize/build_engine.h"
#include "optimize/precision.h"

namespace temper {
namespace {

class EmulatedHalves : public testing::EmulatedBuilds {
 protected:
  // The answer in fp16 and in fp32.
  std::pair<Tensor, Tensor> answers(const Graph& graph, const Tensor& input) {
    BuildOptions options;
    options.device = "cuda:0";
    options.precision = "fp16";
    options.measure = false;
    engine_ = build_engine(graph, info_of(options.device), options);
    return {Session(engine_).run({input}).at(0), run_reference(graph, {input}).at(0)};
  }
  // What the plan runs, all of it on the GPU.
  std::vector<std::string> steps() const {
    std::vector<std::string> names;
    for (const Segment& segment : engine_->plans().at(0)->segments)
      for (const PlanStep& step : segment.steps) {
        names.push_back(step.is_reorder() ? "reorder" : std::string(name_of(step.problem.op)));
        EXPECT_NE(step.tactic, "cuda.host") << step.node;
      }
    return names;
  }
  // The largest difference, as a part of the largest value.
  static double distance(const Tensor& got, const Tensor& want) {
    double most = 0, largest = 0;
    for (int64_t i = 0; i < want.count(); ++i) {
      most = std::max(most, std::fabs(double(got.data<float>()[i]) - want.data<float>()[i]));
      largest = std::max(largest, std::fabs(double(want.data<float>()[i])));
    }
    return most / largest;
  }
  bool keeps(const std::string& text) const {
    const auto& lines = engine_->info().not_lowered;
    return std::any_of(lines.begin(), lines.end(),
                       [&](const std::string& line) { return line.find(text) != line.npos; });
  }

  std::shared_ptr<Engine> engine_;
};

// Embedding, layer norm written out with an epsilon of its own place, convolutions along one axis, softmax. The first
// convolution's results are in the hundred thousands, the second brings them back.
TEST_F(EmulatedHalves, AClassifierOfBytesAnswersAsInFp32) {
  const std::vector<Tensor> blobs{scaled({16, 8}, 1, 600), scaled({8, 8, 3}, 2, 20000), scaled({6, 8, 3}, 3, 6e-5f)};
  const Graph graph = parse_graph(
      "graph \"bytes\"\ninput %ids: i64[1,12]\nconst %table: f32[16,8] = #0\n"
      "%e: f32[1,12,8] = gather(%table, %ids) axis=0\n"
      "%m: f32[1,12,1] = reduce(%e) kind=mean axes=[2]\n"
      "%d: f32[1,12,8] = pointwise(%e, %m) program=\"(2) 2=sub.f32(0,1)\"\n"
      "%s: f32[1,12,8] = pointwise(%d) program=\"(1) 1=mul.f32(0,0)\"\n"
      "%v: f32[1,12,1] = reduce(%s) kind=mean axes=[2]\n"
      "%n: f32[1,12,8] = pointwise(%d, %v) program=\"(2) 2=sqrt.f32(1) 3=constant.f32[0.001] 4=add.f32(2,3) "
      "5=div.f32(0,4)\"\n"
      "%t: f32[1,8,12] = transpose(%n) perm=[0,2,1]\n"
      "const %w1: f32[8,8,3] = #1\n"
      "%c1: f32[1,8,12] = conv(%t, %w1) strides=[1] dilations=[1] pads=[1,1] epilogue=\"(1) 1=relu.f32(0)\" "
      "@\"first\"\n"
      "const %w2: f32[6,8,3] = #2\n"
      "%c2: f32[1,6,12] = conv(%c1, %w2) strides=[1] dilations=[1] pads=[1,1] @\"second\"\n"
      "%p: f32[1,6,1] = reduce(%c2) kind=mean axes=[2]\n"
      "%y: f32[1,6,1] = softmax(%p) axis=1\noutput \"y\" = %y\n",
      blobs);
  Tensor ids(DType::i64, {1, 12});
  for (int64_t i = 0; i < 12; ++i) ids.data<int64_t>()[i] = i * 5 % 16;
  const auto [got, want] = answers(graph, ids);
  for (int64_t i = 0; i < want.count(); ++i) EXPECT_NEAR(got.data<float>()[i], want.data<float>()[i], 0.01) << i;
  EXPECT_TRUE(keeps("'c1' reaches ")) << ::testing::PrintToString(engine_->info().not_lowered)
                                      << ::testing::PrintToString(engine_->info().notes);
  EXPECT_FALSE(keeps("first (conv)")) << "it sums in fp32 and stores that";
}

// A spectrum, its power, bands of it, their logarithm: of a sound whose bands lie far apart.
TEST_F(EmulatedHalves, AMelFrontEndAnswersAsInFp32) {
  Tensor basis(DType::f32, {10, 1, 16});
  for (int k = 0; k < 5; ++k)
    for (int t = 0; t < 16; ++t) {
      const double window = 0.5 - 0.5 * std::cos(2 * 3.14159265358979 * (t + 0.5) / 16),
                   angle = 2 * 3.14159265358979 * k * t / 16;
      basis.data<float>()[k * 16 + t] = float(window * std::cos(angle));
      basis.data<float>()[(k + 5) * 16 + t] = float(-window * std::sin(angle));
    }
  Tensor bands = noise({5, 4}, 5);
  for (int64_t i = 0; i < bands.count(); ++i) bands.data<float>()[i] = std::abs(bands.data<float>()[i]);
  const std::vector<Tensor> blobs{basis, bands, noise({4, 4}, 6)};
  const Graph graph = parse_graph(
      "graph \"mel\"\ninput %x: f32[1,1,64]\nconst %b: f32[10,1,16] = #0\n"
      "%f: f32[1,10,13] = conv(%x, %b) strides=[4] dilations=[1] pads=[0,0] @\"spectrum\"\n"
      "%r: f32[1,5,13] = slice(%f) starts=[0,0,0] sizes=[1,5,13] steps=[1,1,1]\n"
      "%i: f32[1,5,13] = slice(%f) starts=[0,5,0] sizes=[1,5,13] steps=[1,1,1]\n"
      "%p: f32[1,5,13] = pointwise(%r, %i) program=\"(2) 2=mul.f32(0,0) 3=mul.f32(1,1) 4=add.f32(2,3)\"\n"
      "%t: f32[1,13,5] = transpose(%p) perm=[0,2,1]\nconst %m: f32[5,4] = #1\n"
      "%e: f32[1,13,4] = matmul(%t, %m) epilogue=\"(1) 1=constant.f32[1e-10] 2=max.f32(0,1) 3=log.f32(2)\" @\"bands\"\n"
      "const %w: f32[4,4] = #2\n"
      "%y: f32[1,13,4] = matmul(%e, %w) @\"last\"\noutput \"y\" = %y\n",
      blobs);
  Tensor sound = noise({1, 1, 64}, 9);
  for (int64_t i = 0; i < 64; ++i) sound.data<float>()[i] *= i < 32 ? 1e-5f : 1.0f;
  const auto [got, want] = answers(graph, sound);
  for (int64_t i = 0; i < want.count(); ++i)
    EXPECT_NEAR(got.data<float>()[i], want.data<float>()[i], 0.003 * (1 + std::abs(want.data<float>()[i]))) << i;
  EXPECT_TRUE(keeps("spectrum (conv): its result is squared on the way to a logarithm"));
  EXPECT_TRUE(keeps("bands (matmul): its operand"));
  EXPECT_FALSE(keeps("last (matmul)"));
}

// A layer of a transformer, normalised behind its sums, and a GroupNormalization with SiLU: what softmax and the norms
// read and write has 16 bits, and nothing of theirs is a step of its own.
TEST_F(EmulatedHalves, NormsAndSoftmaxReadAndWriteSixteenBits) {
  const std::vector<Tensor> blobs{scaled({32, 32}, 1, 0.2f), scaled({32, 32}, 2, 0.2f), scaled({32, 32}, 3, 0.2f),
                                  scaled({32}, 4, 1),        scaled({32}, 5, 1),        scaled({32, 32}, 6, 0.2f)};
  const Graph layer = parse_graph(
      "graph \"layer\"\ninput %x: f32[2,20,32]\nconst %wq: f32[32,32] = #0\nconst %wk: f32[32,32] = #1\n"
      "const %wv: f32[32,32] = #2\nconst %g: f32[32] = #3\nconst %b: f32[32] = #4\nconst %wo: f32[32,32] = #5\n"
      "%q: f32[2,20,32] = matmul(%x, %wq) epilogue=\"(1) 1=constant.f32[0.176] 2=mul.f32(0,1)\"\n"
      "%k: f32[2,20,32] = matmul(%x, %wk)\n%v: f32[2,20,32] = matmul(%x, %wv)\n"
      "%s: f32[2,20,20] = matmul(%q, %k) transpose_b=true\n%p: f32[2,20,20] = softmax(%s) axis=2\n"
      "%c: f32[2,20,32] = matmul(%p, %v)\n"
      "%o: f32[2,20,32] = matmul(%c, %wo, %x) epilogue=\"(2) 2=add.f32(0,1)\"\n"
      "%n: f32[2,20,32] = normalize(%o) axes=[2]\n"
      "%a: f32[2,20,32] = pointwise(%n, %g, %b) program=\"(3) 3=mul.f32(0,1) 4=add.f32(3,2)\"\n"
      "%y: f32[2,20,32] = matmul(%a, %wo, %a) epilogue=\"(2) 2=add.f32(0,1)\"\noutput \"y\" = %y\n",
      blobs);
  const std::vector<Tensor> weights{scaled({32, 8, 3, 3}, 1, 0.2f), scaled({32, 1, 1}, 2, 1),
                                    scaled({8, 32, 1, 1}, 3, 0.2f)};
  const Graph image = parse_graph(
      "graph \"image\"\ninput %x: f32[2,8,9,9]\nconst %w: f32[32,8,3,3] = #0\nconst %g: f32[32,1,1] = #1\n"
      "const %u: f32[8,32,1,1] = #2\n"
      "%c: f32[2,32,9,9] = conv(%x, %w) strides=[1,1] dilations=[1,1] pads=[1,1,1,1]\n"
      "%n: f32[2,32,9,9] = normalize(%c) axes=[1,2,3] groups=4\n"
      "%a: f32[2,32,9,9] = pointwise(%n, %g) program=\"(2) 2=mul.f32(0,1) 3=sigmoid.f32(2) 4=mul.f32(2,3)\"\n"
      "%y: f32[2,8,9,9] = conv(%a, %u) strides=[1,1] dilations=[1,1] pads=[0,0,0,0]\noutput \"y\" = %y\n",
      weights);
  for (const auto& [graph, dims] : {std::pair(layer, Dims{2, 20, 32}), std::pair(image, Dims{2, 8, 9, 9})}) {
    const auto [got, want] = answers(graph, noise(dims, 7));
    double most = 0, largest = 0;
    for (int64_t i = 0; i < want.count(); ++i) {
      most = std::max(most, std::fabs(double(got.data<float>()[i]) - want.data<float>()[i]));
      largest = std::max(largest, std::fabs(double(want.data<float>()[i])));
    }
    std::printf("off by %.2g of the largest value\n", most / largest);
    EXPECT_LT(most, 3e-3 * largest);
    for (const Segment& segment : engine_->plans().at(0)->segments)
      for (const PlanStep& step : segment.steps) {
        if (step.is_reorder()) continue;
        const std::string_view name = name_of(step.problem.op);
        EXPECT_TRUE(name != "normalize" && name != "softmax") << name;
        if (!name.starts_with("fused_")) continue;
        EXPECT_EQ(step.problem.inputs[0].type.dtype, DType::f16) << name;
        EXPECT_EQ(step.problem.outputs[0].type.dtype, DType::f16) << name;
      }
  }
}

// A layer of an encoder as exporters write it, normalised behind its sums: heads by reshape and transpose, a scale, a
// mask of keys, softmax; then gelu between two products.
TEST_F(EmulatedHalves, ALayerOfATransformerIsSevenKernels) {
  std::vector<Tensor> blobs;
  for (uint32_t i = 0; i < 4; ++i) blobs.push_back(scaled({32, 32}, 1 + i, 0.2f));
  blobs.push_back(scaled({32, 64}, 5, 0.2f));
  blobs.push_back(scaled({64, 32}, 6, 0.2f));
  for (uint32_t i = 0; i < 3; ++i) blobs.push_back(scaled({32}, 7 + i, 1));
  const std::string bias = " epilogue=\"(2) 2=add.f32(0,1)\"\n",
                    sum = " epilogue=\"(3) 3=add.f32(0,1) 4=add.f32(3,2)\"\n";
  std::string text =
      "graph \"encoder\"\ninput %x: f32[2,20,32]\nconst %mask: f32[1,1,1,20] = "
      "#9\nconst %wq: f32[32,32] = #0\nconst %wk: f32[32,32] = #1\nconst %wv: f32[32,32] = #2\n"
      "const %wo: f32[32,32] = #3\nconst %w1: f32[32,64] = #4\nconst %w2: f32[64,32] = #5\nconst %b: f32[32] = #6\n"
      "const %g: f32[32] = #7\nconst %h: f32[32] = #8\n";
  for (const char c : {'q', 'k', 'v'}) {
    const std::string n(1, c);
    text += "%p" + n + ": f32[2,20,32] = matmul(%x, %w" + n + ", %b)" + bias + "%r" + n +
            ": f32[2,20,2,16] = reshape(%p" + n + ") shape=[2,20,2,16]\n%" + n + ": f32[2,2," +
            (c == 'k' ? "16,20" : "20,16") + "] = transpose(%r" + n +
            ") perm=" + (c == 'k' ? "[0,2,3,1]" : "[0,2,1,3]") + "\n";
  }
  text +=
      "%s: f32[2,2,20,20] = matmul(%q, %k, %mask) epilogue=\"(2) 2=constant.f32[0.25] 3=mul.f32(0,2) "
      "4=add.f32(3,1)\"\n%p: f32[2,2,20,20] = softmax(%s) axis=3\n%c: f32[2,2,20,16] = matmul(%p, %v)\n"
      "%t: f32[2,20,2,16] = transpose(%c) perm=[0,2,1,3]\n%u: f32[2,20,32] = reshape(%t) shape=[2,20,32]\n"
      "%o: f32[2,20,32] = matmul(%u, %wo, %b, %x)" +
      sum +
      "%n: f32[2,20,32] = normalize(%o) axes=[2]\n"
      "%a: f32[2,20,32] = pointwise(%n, %g, %h) program=\"(3) 3=mul.f32(0,1) 4=add.f32(3,2)\"\n"
      "%f: f32[2,20,64] = matmul(%a, %w1) epilogue=\"(1) 1=constant.f32[0.5] 2=mul.f32(0,1) 3=constant.f32[0.70710678] "
      "4=mul.f32(0,3) 5=erf.f32(4) 6=constant.f32[1] 7=add.f32(5,6) 8=mul.f32(2,7)\"\n"
      "%e: f32[2,20,32] = matmul(%f, %w2, %b, %a)" +
      sum +
      "%m: f32[2,20,32] = normalize(%e) axes=[2]\n"
      "%y: f32[2,20,32] = pointwise(%m, %g, %h) program=\"(3) 3=mul.f32(0,1) 4=add.f32(3,2)\"\noutput \"y\" = %y\n";
  Tensor mask(DType::f32, {1, 1, 1, 20});
  for (int64_t k = 17; k < 20; ++k) mask.data<float>()[k] = -3.4028235e38f;
  blobs.push_back(mask);
  const auto [got, want] = answers(parse_graph(text, blobs), noise({2, 20, 32}, 7));
  EXPECT_LT(distance(got, want), 3e-3);
  // The model's input is narrowed first.
  EXPECT_EQ(steps(), (std::vector<std::string>{"pointwise", "matmul", "attention", "matmul", "fused_normalize",
                                               "matmul", "matmul", "fused_normalize"}));
}

// Patches, six tokens of them, and an MLP over the tokens as exporters write it, between transposes: the one transpose
// that is left cuts the patches.
TEST_F(EmulatedHalves, AnMlpOverTokensHasNoTransposes) {
  const std::vector<Tensor> blobs{scaled({32, 3, 16, 16}, 1, 0.05f), scaled({32, 1, 1}, 2, 1),
                                  scaled({6, 24}, 3, 0.3f),          scaled({24}, 4, 1),
                                  scaled({24, 6}, 5, 0.3f),          scaled({32, 32}, 6, 0.2f)};
  const char* text =
      "graph \"mixer\"\ninput %x: f32[2,3,32,48]\nconst %wp: f32[32,3,16,16] = #0\nconst %bp: f32[32,1,1] = #1\n"
      "const %w1: f32[6,24] = #2\nconst %b1: f32[24] = #3\nconst %w2: f32[24,6] = #4\nconst %w3: f32[32,32] = #5\n"
      "%c: f32[2,32,2,3] = conv(%x, %wp, %bp) strides=[16,16] dilations=[1,1] pads=[0,0,0,0] epilogue=\"(2) "
      "2=add.f32(0,1)\"\n"
      "%f: f32[2,32,6] = reshape(%c) shape=[2,32,6]\n%t: f32[2,6,32] = transpose(%f) perm=[0,2,1]\n"
      "%n: f32[2,6,32] = normalize(%t) axes=[2]\n%i: f32[2,32,6] = transpose(%n) perm=[0,2,1]\n"
      "%h: f32[2,32,24] = matmul(%i, %w1, %b1) epilogue=\"(2) 2=add.f32(0,1) 3=relu.f32(2)\"\n"
      "%o: f32[2,32,6] = matmul(%h, %w2)\n%p: f32[2,6,32] = transpose(%o) perm=[0,2,1]\n"
      "%s: f32[2,6,32] = pointwise(%p, %t) program=\"(2) 2=add.f32(0,1)\"\n%m: f32[2,6,32] = normalize(%s) axes=[2]\n"
      "%y: f32[2,6,32] = matmul(%m, %w3)\noutput \"y\" = %y\n";
  const auto [got, want] = answers(parse_graph(text, blobs), noise({2, 3, 32, 48}, 7));
  EXPECT_LT(distance(got, want), 3e-3);
  EXPECT_EQ(steps(), (std::vector<std::string>{"pointwise", "transpose", "matmul", "fused_normalize", "matmul",
                                               "matmul", "fused_normalize", "matmul"}));
}

// torch.nn.MultiheadAttention in a model whose first axis is the batch: positions come first inside, queries, keys and
// values are parts of one product, and the rows of the last product are flat.
TEST_F(EmulatedHalves, AttentionBetweenTransposesOfItsRowsHasNone) {
  const std::vector<Tensor> blobs{scaled({32, 96}, 1, 0.2f), scaled({96}, 2, 1), scaled({32, 32}, 3, 0.2f)};
  std::string text =
      "graph \"attention\"\ninput %x: f32[3,20,32]\nconst %w: f32[32,96] = #0\nconst %b: f32[96] = #1\n"
      "const %v: f32[32,32] = #2\n%t: f32[20,3,32] = transpose(%x) perm=[1,0,2]\n"
      "%p: f32[20,3,96] = matmul(%t, %w, %b) epilogue=\"(2) 2=add.f32(0,1)\"\n"
      "%f: f32[1,20,3,3,32] = reshape(%p) shape=[1,20,3,3,32]\n"
      "%g: f32[3,20,3,1,32] = transpose(%f) perm=[3,1,2,0,4]\n";
  for (int i = 0; i < 3; ++i) {
    const std::string n = std::to_string(i);
    text += "%s" + n + ": f32[1,20,3,1,32] = slice(%g) starts=[" + n +
            ",0,0,0,0] sizes=[1,20,3,1,32] steps=[1,1,1,1,1]\n%r" + n + ": f32[20,6,16] = reshape(%s" + n +
            ") shape=[20,6,16]\n%h" + n + ": f32[6," + (i == 1 ? "16,20" : "20,16") + "] = transpose(%r" + n +
            ") perm=" + (i == 1 ? "[1,2,0]" : "[1,0,2]") + "\n";
  }
  text +=
      "%s: f32[6,20,20] = matmul(%h0, %h1) epilogue=\"(1) 1=constant.f32[0.25] 2=mul.f32(0,1)\"\n"
      "%q: f32[6,20,20] = softmax(%s) axis=2\n%c: f32[6,20,16] = matmul(%q, %h2)\n"
      "%d: f32[20,6,16] = transpose(%c) perm=[1,0,2]\n%e: f32[60,32] = reshape(%d) shape=[60,32]\n"
      "%o: f32[60,32] = matmul(%e, %v)\n%u: f32[20,3,32] = reshape(%o) shape=[20,3,32]\n"
      "%y: f32[3,20,32] = transpose(%u) perm=[1,0,2]\noutput \"y\" = %y\n";
  const auto [got, want] = answers(parse_graph(text, blobs), noise({3, 20, 32}, 7));
  EXPECT_LT(distance(got, want), 3e-3);
  EXPECT_EQ(steps(), (std::vector<std::string>{"pointwise", "matmul", "attention", "matmul"}));
}

// Compute capability 7.5 has matrix units for fp16 and bytes alone.
TEST_F(EmulatedHalves, TuringRunsFp16AndRefusesBf16AndTf32ByName) {
  exchange(75);
  const std::vector<Tensor> blobs{scaled({24, 16, 3, 3}, 1, 0.1f)};
  const Graph graph = parse_graph(
      "graph \"turing\"\ninput %x: f32[2,16,9,9]\nconst %w: f32[24,16,3,3] = #0\n"
      "%y: f32[2,24,9,9] = conv(%x, %w) strides=[1,1] dilations=[1,1] pads=[1,1,1,1] epilogue=\"(1) 1=relu.f32(0)\"\n"
      "%p: f32[2,24,1,1] = reduce(%y) kind=mean axes=[2,3]\noutput \"y\" = %p\n",
      blobs);
  const auto [got, want] = answers(graph, noise({2, 16, 9, 9}, 3));
  EXPECT_LT(distance(got, want), 2e-3);
  for (const std::string& step : steps()) EXPECT_NE(step, "");
  for (const std::string precision : {"bf16", "tf32", "int8+bf16"})
    EXPECT_NE(lacks_precision("cuda:0", precision).find("compute capability 7.5"), std::string::npos) << precision;
  EXPECT_EQ(lacks_precision("cuda:0", "fp16"), "");
}

}  // namespace
}  // namespace temper
