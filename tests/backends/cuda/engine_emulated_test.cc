// SPDX-License-Identifier: Apache-2.0
// Whole plans on a GPU that is emulated: built, run, and their answers held against the CPU's.
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "../../paths.h"
#include "../../plan/helpers.h"
#include "emulated_gpu.h"
#include "optimize/build_engine.h"
#include "plan/check.h"

namespace temper {
namespace {

class EmulatedEngine : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::ScriptedGpus::get().reset();
    setenv("XDG_CACHE_HOME", cache.c_str(), 1);  // of one process: kernels of the emulator are for nobody else
    machines = std::make_unique<testing::ScriptedMachines>(cuda::LibrarySearch{{paths::emulator_folder()}, false});
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
  // What the CUDA plan in slices, where there are any, has in place of the inputs of its concats; its answers are those
  // of the reference, also after saving and loading, and nothing is launched that only copies but changes of layout.
  int in_place_of(const Graph& graph, const std::vector<SegmentSpec>& segments = {}) {
    std::vector<Tensor> inputs;
    std::vector<Dims> shapes;
    for (ValueId input : graph.inputs()) shapes.push_back(graph.type(input).dims());
    for (const Dims& dims : shapes) inputs.push_back(noise(dims, 7));
    auto engine = std::make_shared<Engine>(info_of("cuda:0"), graph, 1),
         other = std::make_shared<Engine>(info_of("reference"), graph, 1);
    add_plan(engine, shapes, segments);
    add_plan(other, shapes);
    const auto want = Session(other).run(inputs);
    auto& launches = testing::ScriptedGpus::get().launches;
    launches.clear();
    expect_close(Session(engine).run(inputs), want, 2e-2);
    const auto copies = std::count_if(launches.begin(), launches.end(),
                                      [](const std::string& launch) { return launch.find("copy") != launch.npos; });
    const Tensor file = file_bytes(*engine);
    expect_close(Session(std::make_shared<const Engine>(read_plan(file.raw(), nullptr))).run(inputs), want, 2e-2);
    int count = 0, reorders = 0;
    for (const Segment& segment : engine->plans().at(0)->segments)
      for (const PlanStep& step : segment.steps) {
        reorders += step.is_reorder();
        for (const Port& input : step.problem.inputs) count += input.in_place;
      }
    EXPECT_EQ(copies, reorders);
    return count;
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
  const Tensor want = Session(build(graph, "cpu")).run(input).at(0),
               got = Session(build(graph, "cuda:0")).run(input).at(0);
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

Tensor halves(Dims dims, uint32_t seed) {
  const Tensor from = noise(dims, seed);
  Tensor to(DType::f16, dims);
  for (int64_t i = 0; i < to.count(); ++i) to.data<Half>()[i] = static_cast<Half>(from.data<float>()[i] / 8);
  return to;
}

constexpr const char* kOneByOne =
    " strides=[1,1] dilations=[1,1] pads=[0,0,0,0] epilogue=\"(1) 1=relu.f32(0) 2=cast.f16(1)\"\n";
constexpr const char* kThreeByThree =
    " strides=[1,1] dilations=[1,1] pads=[1,1,1,1] epilogue=\"(1) 1=relu.f32(0) 2=cast.f16(1)\"\n";

// Two convolutions join (as in SqueezeNet); then each layer reads all before it (as in DenseNet).
TEST_F(EmulatedEngine, ConvolutionsAndPoolsWriteIntoConcatsAndReadPartsOfThem) {
  const std::vector<Tensor> blobs{halves({16, 16, 1, 1}, 1), halves({32, 16, 1, 1}, 2), halves({32, 16, 3, 3}, 3),
                                  halves({32, 64, 3, 3}, 4), halves({32, 96, 3, 3}, 5), halves({16, 128, 1, 1}, 6)};
  const Graph graph = parse_graph(
      concat("graph \"joins\"\ninput %x: f32[2,16,6,6]\n",
             "%h: f16[2,16,6,6] = pointwise(%x) program=\"(1) 1=cast.f16(0)\"\n",
             "const %w0: f16[16,16,1,1] = #0\nconst %w1: f16[32,16,1,1] = #1\nconst %w2: f16[32,16,3,3] = #2\n",
             "const %w3: f16[32,64,3,3] = #3\nconst %w4: f16[32,96,3,3] = #4\nconst %w5: f16[16,128,1,1] = #5\n",
             "%s: f16[2,16,6,6] = conv(%h, %w0)", kOneByOne, "%e1: f16[2,32,6,6] = conv(%s, %w1)", kOneByOne,
             "%e3: f16[2,32,6,6] = conv(%s, %w2)", kThreeByThree, "%c: f16[2,64,6,6] = concat(%e1, %e3) axis=1\n",
             "%p: f16[2,64,3,3] = pool(%c) kernel=[2,2] strides=[2,2] dilations=[1,1] pads=[0,0,0,0]\n",
             "%g1: f16[2,32,3,3] = conv(%p, %w3)", kThreeByThree, "%c1: f16[2,96,3,3] = concat(%p, %g1) axis=1\n",
             "%n1: f16[2,96,3,3] = pointwise(%c1) program=\"(1) 1=relu.f16(0)\"\n",
             "%g2: f16[2,32,3,3] = conv(%n1, %w4)", kThreeByThree, "%c2: f16[2,128,3,3] = concat(%c1, %g2) axis=1\n",
             "%n2: f16[2,128,3,3] = pointwise(%c2) program=\"(1) 1=neg.f16(0)\"\n",
             "%o: f16[2,16,3,3] = conv(%n2, %w5)", kOneByOne,
             "%y: f32[2,16,3,3] = pointwise(%o) program=\"(1) 1=cast.f32(0)\"\noutput \"y\" = %y\n"),
      blobs);
  EXPECT_EQ(in_place_of(graph), 6);
}

TEST_F(EmulatedEngine, SlicesOfTheBatchWriteTheirPartOfAConcat) {
  const Graph graph = parse_graph(
      "graph \"slices\"\ninput %x: f32[4,16]\n%a: f32[4,16] = pointwise(%x) program=\"(1) 1=neg.f32(0)\"\n"
      "%b: f32[4,16] = pointwise(%a) program=\"(1) 1=relu.f32(0)\"\n%c: f32[4,32] = concat(%a, %b) axis=1\n"
      "%y: f32[4,32] = pointwise(%c) program=\"(1) 1=neg.f32(0)\"\noutput \"y\" = %y\n");
  EXPECT_EQ(in_place_of(graph), 2);
  EXPECT_EQ(in_place_of(graph, {{0, 1, 2, false}, {2, 3, 0, false}}), 2);
}

// The second concat takes the part; what only reads it there is asked, too.
TEST_F(EmulatedEngine, AProductWritesAPartOfItsRows) {
  const Graph graph = parse_graph(
      "graph \"rows\"\ninput %x: f32[3,8]\nconst %w: f32[8,16] = #0\n%m: f32[3,16] = matmul(%x, %w)\n"
      "%n: f32[3,8] = pointwise(%x) program=\"(1) 1=neg.f32(0)\"\n%c: f32[3,24] = concat(%m, %n) axis=1\n"
      "const %v: f32[24,5] = #1\n%y: f32[3,5] = matmul(%c, %v)\noutput \"y\" = %y\n",
      std::vector<Tensor>{noise({8, 16}, 1), noise({24, 5}, 2)});
  EXPECT_EQ(in_place_of(graph), 2);
}

// Channels in channels_last and columns of a product: their readers take the pitch of the whole, and no slice copies.
TEST_F(EmulatedEngine, SlicesAreReadWhereTheyLie) {
  const Graph columns = parse_graph(
      "graph \"columns\"\ninput %x: f32[3,8]\nconst %w: f32[8,48] = #0\n%m: f32[3,48] = matmul(%x, %w)\n"
      "%a: f32[3,16] = slice(%m) starts=[0,0] sizes=[3,16] steps=[1,1]\n"
      "%b: f32[3,16] = slice(%m) starts=[0,16] sizes=[3,16] steps=[1,1]\n"
      "%c: f32[3,16] = slice(%m) starts=[0,32] sizes=[3,16] steps=[1,1]\n"
      "%p: f32[3,16] = pointwise(%a, %b) program=\"(2) 2=mul.f32(0,1)\"\n"
      "const %v: f32[16,5] = #1\n%q: f32[3,5] = matmul(%p, %v)\n%r: f32[3,5] = matmul(%c, %v)\n"
      "%y: f32[3,5] = pointwise(%q, %r) program=\"(2) 2=add.f32(0,1)\"\noutput \"y\" = %y\n",
      std::vector<Tensor>{noise({8, 48}, 1), noise({16, 5}, 2)});
  EXPECT_EQ(in_place_of(columns), 0);
  EXPECT_EQ(in_place_of(columns, {{0, 0, 1, false}, {1, 7, 0, false}}), 0);
}

// What skips layers in U-Nets: a normalisation in groups reads it in the channels of the concat that it is written to.
TEST_F(EmulatedEngine, ANormalisationReadsAPartOfAConcat) {
  const std::vector<Tensor> blobs{halves({48, 16, 1, 1}, 1), halves({32, 48, 1, 1}, 2), halves({16, 80, 1, 1}, 3)};
  const Graph graph = parse_graph(
      concat("graph \"skip\"\ninput %x: f32[2,16,6,6]\n",
             "%h: f16[2,16,6,6] = pointwise(%x) program=\"(1) 1=cast.f16(0)\"\n",
             "const %w0: f16[48,16,1,1] = #0\nconst %w1: f16[32,48,1,1] = #1\nconst %w2: f16[16,80,1,1] = #2\n",
             "%s: f16[2,48,6,6] = conv(%h, %w0)", kOneByOne,
             "%n: f16[2,48,6,6] = fused_normalize(%s) prologue=\"(1)\" axes=[1,2,3] groups=4 epilogue=\"(1) "
             "1=sigmoid.f32(0) 2=mul.f32(0,1) 3=cast.f16(2)\"\n",
             "%d: f16[2,32,6,6] = conv(%n, %w1)", kOneByOne, "%c: f16[2,80,6,6] = concat(%d, %s) axis=1\n",
             "%o: f16[2,16,6,6] = conv(%c, %w2)", kOneByOne,
             "%y: f32[2,16,6,6] = pointwise(%o) program=\"(1) 1=cast.f32(0)\"\noutput \"y\" = %y\n"),
      blobs);
  EXPECT_EQ(in_place_of(graph), 2);
}

// What a product gives for each channel of each image, as U-Nets add the time step: the rows of its slice are channels.
TEST_F(EmulatedEngine, ConvolutionsReadSlicesOfAProductForEachImage) {
  const std::vector<Tensor> blobs{halves({8, 96}, 1), halves({64, 16, 1, 1}, 2), halves({32, 64, 3, 3}, 3)};
  constexpr const char* kSum = " epilogue=\"(2) 2=cast.f32(1) 3=add.f32(0,2) 4=cast.f16(3)\"\n";
  const Graph graph = parse_graph(
      concat("graph \"times\"\ninput %x: f32[2,16,6,4]\ninput %t: f32[2,8]\n",
             "%h: f16[2,16,6,4] = pointwise(%x) program=\"(1) 1=cast.f16(0)\"\n",
             "%e: f16[2,8] = pointwise(%t) program=\"(1) 1=cast.f16(0)\"\n",
             "const %w: f16[8,96] = #0\nconst %w0: f16[64,16,1,1] = #1\nconst %w1: f16[32,64,3,3] = #2\n",
             "%m: f16[2,96] = matmul(%e, %w) epilogue=\"(1) 1=cast.f16(0)\"\n",
             "%a: f16[2,64] = slice(%m) starts=[0,0] sizes=[2,64] steps=[1,1]\n",
             "%b: f16[2,32] = slice(%m) starts=[0,64] sizes=[2,32] steps=[1,1]\n",
             "%i: f16[2,64,1,1] = reshape(%a) shape=[2,64,1,1]\n%j: f16[2,32,1,1] = reshape(%b) shape=[2,32,1,1]\n",
             "%c: f16[2,64,6,4] = conv(%h, %w0, %i) strides=[1,1] dilations=[1,1] pads=[0,0,0,0]", kSum,
             "%d: f16[2,32,6,4] = conv(%c, %w1, %j) strides=[1,1] dilations=[1,1] pads=[1,1,1,1]", kSum,
             "%y: f32[2,32,6,4] = pointwise(%d) program=\"(1) 1=cast.f32(0)\"\noutput \"y\" = %y\n"),
      blobs);
  EXPECT_EQ(in_place_of(graph), 0);
}

// A mixer of tokens as SegFormer's, and a layer norm over channels as ConvNeXt's: only what the model is given changes
// its layout.
TEST_F(EmulatedEngine, TokensAndImagesAreViewsOfEachOther) {
  const std::vector<Tensor> blobs{halves({32, 16, 1, 1}, 1), halves({32, 1, 3, 3}, 2), halves({32, 32}, 3)};
  const Graph graph = parse_graph(
      concat("graph \"tokens\"\ninput %x: f32[2,16,6,4]\n",
             "%h: f16[2,16,6,4] = pointwise(%x) program=\"(1) 1=cast.f16(0)\"\n",
             "const %w0: f16[32,16,1,1] = #0\nconst %w1: f16[32,1,3,3] = #1\nconst %w2: f16[32,32] = #2\n",
             "%c: f16[2,32,6,4] = conv(%h, %w0)", kOneByOne, "%p: f16[2,6,4,32] = transpose(%c) perm=[0,2,3,1]\n",
             "%n: f16[2,6,4,32] = normalize(%p) axes=[3]\n%r: f16[2,24,32] = reshape(%n) shape=[2,24,32]\n",
             "%m: f16[2,24,32] = matmul(%r, %w2) epilogue=\"(1) 1=cast.f16(0)\"\n",
             "%t: f16[2,32,24] = transpose(%m) perm=[0,2,1]\n%i: f16[2,32,6,4] = reshape(%t) shape=[2,32,6,4]\n",
             "%d: f16[2,32,6,4] = conv(%i, %w1) strides=[1,1] dilations=[1,1] pads=[1,1,1,1] group=32 ",
             "epilogue=\"(1) 1=relu.f32(0) 2=cast.f16(1)\"\n",
             "%f: f16[2,32,24] = reshape(%d) shape=[2,32,24]\n%b: f16[2,24,32] = transpose(%f) perm=[0,2,1]\n",
             "%y: f32[2,24,32] = matmul(%b, %w2)\noutput \"y\" = %y\n"),
      blobs);
  EXPECT_EQ(in_place_of(graph), 0);
  auto engine = std::make_shared<Engine>(info_of("cuda:0"), graph, 1);
  add_plan(engine, {{2, 16, 6, 4}});
  std::vector<std::string> steps;
  for (const Segment& segment : engine->plans().at(0)->segments)
    for (const PlanStep& step : segment.steps) steps.push_back(step.node);
  EXPECT_EQ(steps, (std::vector<std::string>{"h", "reorder of h", "c", "n", "m", "d", "y"}));
}

// The heads of SegFormer join in channels_last: what is seen as an image there has rows as a product writes them.
TEST_F(EmulatedEngine, AProductOfTokensWritesChannelsOfAnImage) {
  const std::vector<Tensor> blobs{halves({16, 32}, 1), halves({32, 16, 1, 1}, 2), halves({16, 64, 1, 1}, 3)};
  const Graph graph = parse_graph(
      concat("graph \"heads\"\ninput %x: f32[2,24,16]\ninput %z: f32[2,16,3,2]\n",
             "%h: f16[2,24,16] = pointwise(%x) program=\"(1) 1=cast.f16(0)\"\n",
             "%k: f16[2,16,3,2] = pointwise(%z) program=\"(1) 1=cast.f16(0)\"\n",
             "const %w0: f16[16,32] = #0\nconst %w1: f16[32,16,1,1] = #1\nconst %w2: f16[16,64,1,1] = #2\n",
             "%m: f16[2,24,32] = matmul(%h, %w0) epilogue=\"(1) 1=cast.f16(0)\"\n",
             "%t: f16[2,32,24] = transpose(%m) perm=[0,2,1]\n%i: f16[2,32,6,4] = reshape(%t) shape=[2,32,6,4]\n",
             "%s: f16[2,32,3,2] = conv(%k, %w1)", kOneByOne,
             "%u: f16[2,32,6,4] = resize(%s) kind=linear sizes=[2,32,6,4]\n",
             "%c: f16[2,64,6,4] = concat(%i, %u) axis=1\n%o: f16[2,16,6,4] = conv(%c, %w2)", kOneByOne,
             "%y: f32[2,16,6,4] = pointwise(%o) program=\"(1) 1=cast.f32(0)\"\noutput \"y\" = %y\n"),
      blobs);
  EXPECT_EQ(in_place_of(graph), 2);
}

// Rows further apart than the buffer has are refused before anything runs.
TEST_F(EmulatedEngine, APartThatReachesOutOfItsBufferIsRefused) {
  const Graph graph = parse_graph(
      "graph \"g\"\ninput %x: f32[4,16]\n%a: f32[4,16] = pointwise(%x) program=\"(1) 1=neg.f32(0)\"\n"
      "%b: f32[4,16] = pointwise(%x) program=\"(1) 1=relu.f32(0)\"\n%c: f32[4,32] = concat(%a, %b) axis=1\n"
      "%y: f32[4,32] = pointwise(%c) program=\"(1) 1=neg.f32(0)\"\noutput \"y\" = %y\n");
  auto engine = std::make_shared<Engine>(info_of("cuda:0"), graph, 1);
  add_plan(engine, {{4, 16}});
  Plan plan = *engine->plans().at(0);
  const Backend& backend = find_backend("cuda");
  check_plan(plan, backend);
  for (PlanStep& step : plan.segments.at(0).steps) {
    if (step.node != "b") continue;
    ASSERT_EQ(step.problem.outputs[0].pitch, 32);
    step.problem.outputs[0].pitch = 4096;
  }
  EXPECT_THROW(check_plan(plan, backend), Error);
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

// The end of a detector: the best boxes, those of them that do not overlap, and marks of their classes.
TEST_F(EmulatedEngine, OnlyWhatDecidesSizesLeavesTheGpu) {
  Tensor boxes(DType::f32, {1, 60, 4}), scores(DType::f32, {1, 3, 60});
  for (int64_t i = 0; i < 60; ++i)
    for (int64_t k = 0; k < 4; ++k) boxes.data<float>()[i * 4 + k] = float(i * 7 % 20 + (k < 2 ? 0 : 6 + i % 3));
  for (int64_t i = 0; i < scores.count(); ++i) scores.data<float>()[i] = float(i * 37 % 101) / 101;
  const Graph graph = parse_graph(
      "graph \"detector\"\ninput %b: f32[1,60,4]\ninput %s: f32[1,3,60]\n"
      "%m: f32[1,60] = reduce(%s) kind=max axes=[1] keepdims=false\n"
      "%v: f32[1,20], %i: i64[1,20] = topk(%m) k=20 axis=1\n%j: i64[20] = reshape(%i) shape=[20]\n"
      "%kb: f32[1,20,4] = gather(%b, %j) axis=1\n%ks: f32[1,3,20] = gather(%s, %j) axis=2\n"
      "const %most: i64[1] = #0\nconst %iou: f32[1] = #1\nconst %least: f32[1] = #2\n"
      "%n: i64[$n.0.0,3] = nms(%kb, %ks, %most, %iou, %least) @\"n\"\n"
      "const %zeros: f32[3,20] = #3\n%c: i64[$n.0.0,2] = slice(%n) starts=[0,1] sizes=[$n.0.0,2] steps=[1,1]\n"
      "const %one: f32[1] = #4\n%ones: f32[$n.0.0] = broadcast(%one) shape=[$n.0.0]\n"
      "%marks: f32[3,20] = scatter(%zeros, %c, %ones) kind=nd\n"
      "%sums: f32[3,20] = cumulative(%marks) axis=1\noutput \"n\" = %n\noutput \"sums\" = %sums\n",
      std::vector<Tensor>{Tensor::of<int64_t>({1}, {5}), Tensor::of<float>({1}, {0.4f}), Tensor::of<float>({1}, {0.3f}),
                          Tensor::of<float>({3, 20}, std::vector<float>(60)), Tensor::of<float>({1}, {1})});
  const std::vector<Tensor> inputs{boxes, scores}, want = run_reference(graph, inputs);
  auto& launches = testing::ScriptedGpus::get().launches;
  launches.clear();
  const std::vector<Tensor> got = Session(build(graph, "cuda:0")).run(inputs);
  EXPECT_GT(want[0].dims()[0], 5);
  ASSERT_EQ(got.size(), 2u);
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(got[i].same_bits(want[i])) << "output " << i;
  for (const char* kernel : {"topk_sort", "gather", "scatter_last", "cumulative"})
    EXPECT_TRUE(std::any_of(launches.begin(), launches.end(), [&](const std::string& launch) {
      return launch.find(kernel) != launch.npos;
    })) << kernel;
}

TEST_F(EmulatedEngine, BranchesAndBodiesOfLoopsRunOnTheGpu) {
  const Graph graph = parse_graph(
      "graph \"control\"\ninput %c: bool[]\ninput %m: i64[]\ninput %x: f32[3,20]\n"
      "%a: f32[3,20] = cumulative(%x) axis=1\n"
      "%b: f32[3,20] = pointwise(%x) program=\"(1) 1=relu.f32(0)\"\n"
      "%y: f32[3,20] = choose(%c, %a, %b)\n"
      "%i: i64[], %d: bool[], %s: f32[3,20] = loop_begin(%m, _, %y) loop=1\n"
      "%t: f32[3,20] = pointwise(%s, %x) program=\"(2) 2=add.f32(0,1)\"\n"
      "%z: f32[3,20], %all: f32[$z.1.0,3,20] = loop_end(%i, _, %d, %s, %t, %t) carried=1\n"
      "output \"z\" = %z\noutput \"all\" = %all\n");
  Tensor x(DType::f32, {3, 20}), side(DType::boolean, {});
  for (int64_t i = 0; i < x.count(); ++i) x.data<float>()[i] = float(i % 7) - 3;
  auto& launches = testing::ScriptedGpus::get().launches;
  Session session(build(graph, "cuda:0"));
  for (bool first : {true, false}) {
    *side.raw_mutable() = std::byte(first);
    const std::vector<Tensor> inputs{side, Tensor::of<int64_t>({}, {3}), x}, want = run_reference(graph, inputs);
    launches.clear();
    const std::vector<Tensor> got = session.run(inputs);
    for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(got.at(i).same_bits(want[i])) << "output " << i;
    const bool summed = std::any_of(launches.begin(), launches.end(),
                                    [](const std::string& launch) { return launch.find("cumulative") != launch.npos; });
    EXPECT_EQ(summed, first) << "only the side that is chosen runs";
    EXPECT_GE(launches.size(), 4u) << "a step for each iteration";
  }
}

// A loop in a loop, in a branch, both of which read what lies outside; and what it gives is the next run's state.
TEST_F(EmulatedEngine, LoopsInLoopsReadWhatLiesOutsideAndKeepState) {
  const Graph graph = parse_graph(
      "graph \"nested\"\ninput %c: bool[]\ninput %m: i64[]\ninput %x: f32[3,20]\ninput %s: f32[3,20]\n"
      "%i: i64[], %d: bool[], %a: f32[3,20] = loop_begin(%m, _, %s) loop=1\n"
      "%j: i64[], %e: bool[], %b: f32[3,20] = loop_begin(%m, _, %a, %i) loop=2 nested=true\n"
      "%p: f32[3,20] = pointwise(%b, %x) program=\"(2) 2=add.f32(0,1)\"\n"
      "%q: f32[3,20] = loop_end(%j, _, %e, %b, %p) carried=1\n"
      "%r: f32[3,20] = cumulative(%q) axis=1\n"
      "%t: f32[3,20] = pointwise(%r) program=\"(1) 1=tanh.f32(0)\"\n"
      "%z: f32[3,20] = loop_end(%i, _, %d, %a, %t) carried=1\n"
      "%n: f32[3,20] = pointwise(%s, %x) program=\"(2) 2=sub.f32(0,1)\"\n"
      "%y: f32[3,20] = choose(%c, %z, %n)\n"
      "output \"y\" = %y\noutput \"next\" = %y\n");
  auto& launches = testing::ScriptedGpus::get().launches;
  Session session(build(graph, "cuda:0"));
  session.keep_state({{"s", "next"}});
  const Tensor x = noise({3, 20}, 3), trip = Tensor::of<int64_t>({}, {3});
  Tensor state = noise({3, 20}, 4), side(DType::boolean, {});
  for (int piece = 0; piece < 4; ++piece) {
    *side.raw_mutable() = std::byte(piece != 2);
    const std::vector<Tensor> want = run_reference(graph, {side, trip, x, state});
    launches.clear();
    const std::vector<Tensor> got = session.run({side, trip, x, piece == 0 ? state : Tensor()});
    expect_close({got.at(0), session.state(3)}, want, 1e-4);
    const auto summed = std::count_if(launches.begin(), launches.end(), [](const std::string& launch) {
      return launch.find("cumulative") != launch.npos;
    });
    EXPECT_EQ(summed, piece == 2 ? 0 : 3) << "once in each iteration of the outer loop";
    state = want[1];
  }
}

TEST_F(EmulatedEngine, ACacheThatAScatterWritesStaysInOnePlace) {
  const Graph graph = parse_graph(
      "graph \"cache\"\ninput %kept: f32[4,6]\ninput %i: i64[2,1]\ninput %u: f32[2,6]\n%all: f32[4,6] = "
      "scatter(%kept, %i, %u) kind=nd\n%y: f32[4,1] = reduce(%all) axes=[1]\noutput \"y\" = %y\noutput \"all\" = "
      "%all\n",
      {});
  Session session(build(graph, "cuda:0"));
  session.keep_state({{"kept", "all"}});
  Tensor state(DType::f32, {4, 6});
  const void* place = nullptr;
  for (uint32_t run = 0; run < 4; ++run) {
    const Tensor indices = Tensor::of<int64_t>({2, 1}, {int64_t(run), int64_t(run) - 2}), rows = noise({2, 6}, run);
    const auto want = run_reference(graph, {state, indices, rows});
    expect_close({session.run({Tensor(), indices, rows})[0]}, {want[0]}, 1e-6);
    expect_close({session.state(0)}, {want[1]}, 0);
    state = want[1];
    const State& kept = session.states()[0];
    if (place) { EXPECT_EQ(kept.there.get(), place); }
    place = kept.there.get();
    EXPECT_EQ(kept.next_there, nullptr) << "a cache has one buffer";
  }
}

TEST_F(EmulatedEngine, AScatterToAnIndexThatDoesNotExistIsAnError) {
  for (const char* op : {"axis=0", "axis=0 reduction=add"}) {
    const Graph graph = parse_graph(concat("graph \"marks\"\ninput %x: f32[5]\ninput %i: i64[3]\ninput %u: f32[3]\n"
                                           "%y: f32[5] = scatter(%x, %i, %u) ",
                                           op, "\noutput \"y\" = %y\n"),
                                    {});
    const auto engine = build(graph, "cuda:0");
    Session session(engine);
    auto inputs = [](std::vector<int64_t> indices) {
      return std::vector<Tensor>{noise({5}, 1), Tensor::of<int64_t>({3}, indices), noise({3}, 2)};
    };
    for (const Segment& segment : engine->plans().at(0)->segments)
      for (const PlanStep& step : segment.steps) EXPECT_EQ(step.tactic, "cuda.scatter");
    for (int round = 0; round < 2; ++round) {
      const auto good = inputs({4, -5, 4});
      expect_close(session.run(good), run_reference(graph, good), 1e-6);
      try {
        session.run(inputs({1, -6, 0}));
        FAIL();
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::usage);
        EXPECT_NE(std::string(error.what()).find("the index -6 is outside of an axis of 5 elements"), std::string::npos)
            << error.what();
      }
    }
  }
}

TEST_F(EmulatedEngine, RegionsOfNoPictureAndOutOfAllProportionAreErrors) {
  const Graph graph = parse_graph(
      "graph \"regions\"\ninput %x: f32[2,4,6,6]\ninput %r: f32[2,4]\ninput %b: i64[2]\n"
      "%y: f32[2,4,2,2] = roi_align(%x, %r, %b) height=2 width=2\noutput \"y\" = %y\n",
      {});
  for (const char* device : {"cuda:0", "cpu"}) {
    SCOPED_TRACE(device);
    const auto engine = build(graph, device);
    for (const Segment& segment : engine->plans().at(0)->segments)
      for (const PlanStep& step : segment.steps)
        EXPECT_TRUE(step.is_reorder() || step.tactic.ends_with(".roi_align")) << step.tactic;
    Session session(engine);
    const auto inputs = [](float right, int64_t picture) {
      return std::vector<Tensor>{noise({2, 4, 6, 6}, 1), Tensor::of<float>({2, 4}, {0, 1, 3, 4, 2, 2, right, 5}),
                                 Tensor::of<int64_t>({2}, {-2, picture})};
    };
    const auto answer = [&](float right, int64_t picture) -> std::string {
      try {
        session.run(inputs(right, picture));
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::usage);
        return error.what();
      }
      return "";
    };
    for (int round = 0; round < 2; ++round) {
      const auto good = inputs(5, 1);
      expect_close(session.run(good), run_reference(graph, good), 1e-6);
      EXPECT_NE(answer(5, 2).find("the index 2 is outside of an axis of 2 elements"), std::string::npos);
      EXPECT_NE(answer(1e9f, 1).find("region 1 is out of all proportion"), std::string::npos);
    }
  }
}

TEST_F(EmulatedEngine, TransposedConvolutionsStayOnTheGpu) {
  const Graph graph = parse_graph(
      "graph \"up\"\ninput %x: f32[2,8,5,4]\nconst %w: f32[8,8,2,2] = #0\nconst %v: f32[8,4,3,3] = #1\n"
      "const %u: f32[4,4,4,4] = #2\nconst %b: f32[8,1,1] = #3\n"
      "%a: f32[2,8,10,8] = conv_transpose(%x, %w, %b) strides=[2,2] dilations=[1,1] pads=[0,0,0,0] "
      "output_padding=[0,0] epilogue=\"(2) 2=add.f32(0,1) 3=relu.f32(2)\"\n"
      "%c: f32[2,4,20,16] = conv_transpose(%a, %v) strides=[2,2] dilations=[1,1] pads=[1,1,1,1] "
      "output_padding=[1,1]\n"
      "%y: f32[2,4,40,32] = conv_transpose(%c, %u) strides=[2,2] dilations=[1,1] pads=[1,1,1,1] "
      "output_padding=[0,0]\noutput \"y\" = %y\n",
      std::vector<Tensor>{noise({8, 8, 2, 2}, 1), noise({8, 4, 3, 3}, 2), noise({4, 4, 4, 4}, 3), noise({8, 1, 1}, 4)});
  const auto engine = build(graph, "cuda:0");
  int reorders = 0;
  for (const Segment& segment : engine->plans().at(0)->segments)
    for (const PlanStep& step : segment.steps) {
      EXPECT_NE(step.tactic, "cuda.host");
      reorders += step.is_reorder();
    }
  EXPECT_LE(reorders, 2) << "channels lie last from the first convolution to the last";
  const std::vector<Tensor> inputs{noise({2, 8, 5, 4}, 5)};
  expect_close(Session(engine).run(inputs), run_reference(graph, inputs), 1e-5);
}

}  // namespace
}  // namespace temper
