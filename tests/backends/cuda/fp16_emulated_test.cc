// SPDX-License-Identifier: Apache-2.0
// Models whose values leave fp16 at either end, on an emulated GPU.
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "../../paths.h"
#include "../../plan/helpers.h"
#include "emulated_gpu.h"
#include "optimize/build_engine.h"

namespace temper {
namespace {

Tensor scaled(Dims dims, uint32_t seed, float factor) {
  Tensor tensor = noise(std::move(dims), seed);
  for (int64_t i = 0; i < tensor.count(); ++i) tensor.data<float>()[i] *= factor;
  return tensor;
}

class EmulatedHalves : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::ScriptedGpus::get().reset();
    before_ = std::getenv("XDG_CACHE_HOME") ? std::getenv("XDG_CACHE_HOME") : "";
    setenv("XDG_CACHE_HOME", cache_.c_str(), 1);
    machines_ = std::make_unique<testing::ScriptedMachines>(cuda::LibrarySearch{{paths::emulator_folder()}, false});
  }
  void TearDown() override {
    machines_.reset();
    testing::ScriptedGpus::get().reset();
    if (before_.empty()) unsetenv("XDG_CACHE_HOME");
    else setenv("XDG_CACHE_HOME", before_.c_str(), 1);
    std::filesystem::remove_all(cache_);
  }
  // The answer in fp16 and in fp32.
  std::pair<Tensor, Tensor> answers(const Graph& graph, const Tensor& input) {
    BuildOptions options;
    options.device = "cuda:0";
    options.precision = "fp16";
    options.measure = false;
    engine_ = build_engine(graph, info_of(options.device), options);
    return {Session(engine_).run({input}).at(0), run_reference(graph, {input}).at(0)};
  }
  bool keeps(const std::string& text) const {
    const auto& lines = engine_->info().not_lowered;
    return std::any_of(lines.begin(), lines.end(),
                       [&](const std::string& line) { return line.find(text) != line.npos; });
  }

  const std::string cache_ =
      (std::filesystem::path(::testing::TempDir()) / concat("temper_halves_", getpid())).string();
  std::string before_;
  std::unique_ptr<testing::ScriptedMachines> machines_;
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

}  // namespace
}  // namespace temper
