// SPDX-License-Identifier: Apache-2.0
// Whole plans on a GPU that is emulated: built, run, and their answers held against the CPU's.
#include <unistd.h>

#include <filesystem>

#include "../../plan/helpers.h"
#include "build/build.h"
#include "emulated_gpu.h"

namespace temper {
namespace {

class EmulatedEngine : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::ScriptedGpus::get().reset();
    setenv("XDG_CACHE_HOME", cache.c_str(), 1);  // of one process: kernels of the emulator are for nobody else
    machines = std::make_unique<testing::ScriptedMachines>(cuda::LibrarySearch{{TEMPER_EMULATOR}, false});
  }
  void TearDown() override {
    machines.reset();
    EXPECT_EQ(testing::ScriptedGpus::get().misuses, std::vector<std::string>());
    testing::ScriptedGpus::get().reset();
    if (before) setenv("XDG_CACHE_HOME", before->c_str(), 1);
    else unsetenv("XDG_CACHE_HOME");
    std::filesystem::remove_all(cache);
  }
  static std::shared_ptr<Engine> build(const Graph& graph, const std::string& device) {
    BuildOptions options;
    options.device = device;
    options.measure = false;
    options.threads = 1;
    return build_engine(graph, info_of(device), options);
  }
  static std::optional<std::string> environment(const char* name) {
    const char* value = std::getenv(name);
    return value ? std::optional<std::string>(value) : std::nullopt;
  }

  const std::optional<std::string> before = environment("XDG_CACHE_HOME");
  const std::string cache =
      (std::filesystem::path(::testing::TempDir()) / concat("temper_emulated_", getpid())).string();
  std::unique_ptr<testing::ScriptedMachines> machines;
};

TEST_F(EmulatedEngine, AnswersAsTheCpu) {
  const std::vector<Tensor> blobs{noise({16, 3, 3, 3}, 1), noise({16, 16, 3, 3}, 2), noise({1024, 10}, 3)};
  const Graph graph = parse_graph(
      "graph \"small\"\ninput %x: f32[2,3,16,16]\nconst %w1: f32[16,3,3,3] = #0\n"
      "%c1: f32[2,16,8,8] = conv(%x, %w1) strides=[2,2] dilations=[1,1] pads=[1,1,1,1] epilogue=\"(1) 1=relu.f32(0)\"\n"
      "const %w2: f32[16,16,3,3] = #1\n"
      "%c2: f32[2,16,8,8] = conv(%c1, %w2, %c1) strides=[1,1] dilations=[1,1] pads=[1,1,1,1] "
      "epilogue=\"(2) 2=add.f32(0,1) 3=relu.f32(2)\"\n"
      "%flat: f32[2,1024] = reshape(%c2) shape=[2,1024]\nconst %w3: f32[1024,10] = #2\n"
      "%y: f32[2,10] = matmul(%flat, %w3)\noutput \"y\" = %y\n",
      blobs);
  const std::vector<Tensor> input{noise({2, 3, 16, 16}, 7)};
  const Tensor want = Session(build(graph, "cpu")).run(input).at(0), got = Session(build(graph, "cuda:0")).run(input).at(0);
  for (int64_t i = 0; i < want.count(); ++i)
    EXPECT_NEAR(got.data<float>()[i], want.data<float>()[i], 2e-4 * (1 + std::abs(want.data<float>()[i])));
}

TEST_F(EmulatedEngine, ProgramsBesideTheFirstConvolutionAndAMeanAreNoStepsOfTheirOwn) {
  Tensor weights(DType::i8, {32, 3, 3, 3});
  for (int64_t i = 0; i < weights.count(); ++i) weights.data<int8_t>()[i] = int8_t(i * 37 % 251 - 125);
  const Graph graph = parse_graph(
      "graph \"image\"\ninput %x: f32[2,3,16,16]\n"
      "%q: i8[2,3,16,16] = pointwise(%x) program=\"(1) 1=constant.f32[100] 2=mul.f32(0,1) 3=round.f32(2) "
      "4=cast.i8(3)\"\nconst %w: i8[32,3,3,3] = #0\n"
      "%c: i8[2,32,8,8] = conv(%q, %w) strides=[2,2] dilations=[1,1] pads=[1,1,1,1] epilogue=\"(1) 1=cast.f32(0) "
      "2=constant.f32[0.001] 3=mul.f32(1,2) 4=relu.f32(3) 5=round.f32(4) 6=cast.i8(5)\"\n"
      "%f: f32[2,32,8,8] = pointwise(%c) program=\"(1) 1=cast.f32(0) 2=constant.f32[0.25] 3=mul.f32(1,2)\"\n"
      "%m: f32[2,32,1,1] = reduce(%f) kind=mean axes=[2,3]\n"
      "%y: i8[2,32,1,1] = pointwise(%m) program=\"(1) 1=constant.f32[4] 2=mul.f32(0,1) 3=round.f32(2) 4=cast.i8(3)\"\n"
      "output \"y\" = %y\n",
      std::vector<Tensor>{weights});
  const std::vector<Tensor> input{noise({2, 3, 16, 16}, 7)};
  Session session(build(graph, "cuda:0"));
  const Tensor want = Session(build(graph, "cpu")).run(input).at(0), got = session.run(input).at(0);
  EXPECT_TRUE(std::equal(want.raw().begin(), want.raw().end(), got.raw().begin()));
  for (const Segment& segment : session.current_plan().segments)
    for (const PlanStep& step : segment.steps) EXPECT_NE(step.tactic, "cuda.pointwise") << step.node;
}

TEST_F(EmulatedEngine, AnIndexThatDoesNotExistIsAnErrorAndTheNextRunIsWell) {
  const Graph graph = parse_graph(
      "graph \"table\"\ninput %i: i64[3]\nconst %t: f32[5,8] = #0\n%y: f32[3,8] = gather(%t, %i) axis=0\n"
      "output \"y\" = %y\n",
      std::vector<Tensor>{noise({5, 8}, 1)});
  Session session(build(graph, "cuda:0"));
  auto indices = [](std::initializer_list<int64_t> values) {
    Tensor t(DType::i64, {3});
    std::copy(values.begin(), values.end(), t.data<int64_t>());
    return std::vector<Tensor>{t};
  };
  const Tensor table = noise({5, 8}, 1);
  for (int round = 0; round < 2; ++round) {
    const Tensor got = session.run(indices({4, -5, 2})).at(0);
    EXPECT_EQ(got.data<float>()[0], table.data<float>()[4 * 8]);
    EXPECT_EQ(got.data<float>()[8], table.data<float>()[0]);
    EXPECT_EQ(got.data<float>()[23], table.data<float>()[2 * 8 + 7]);
    try {
      session.run(indices({0, 7, 1}));
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      EXPECT_NE(std::string(error.what()).find("the index 7 is outside of an axis of 5 elements"), std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace temper
