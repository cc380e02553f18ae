// SPDX-License-Identifier: Apache-2.0
// Whole plans for scripted GPUs: no GPU is needed, and every failure of one can be played.
#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>
#include <thread>

#include "../../plan/helpers.h"
#include "base/file.h"
#include "base/log.h"
#include "bench/bench_engine.h"
#include "optimize/build_engine.h"
#include "optimize/fusion.h"
#include "optimize/in_context.h"
#include "plan/describe.h"
#include "plan/planner.h"
#include "scripted_gpu.h"
#include "temper/temper_c.h"
#include "tune/cache.h"

namespace temper {
namespace {

using cuda::planned_failures;
using testing::ScriptedGpus;
using testing::ScriptedMachines;

// Two branches that meet, a step on the CPU (cumulative, its axis a tensor), a product at the end.
Graph residual_graph(const std::string& n) {
  const std::string text =
      "graph \"residual\"\n"
      "input %x: f32[" +
      n +
      ",3,16,16]\n"
      "const %w1: f32[16,3,3,3] = #0\n"
      "%c1: f32[" +
      n +
      ",16,8,8] = conv(%x, %w1) strides=[2,2] dilations=[1,1] pads=[1,1,1,1] epilogue=\"(1) 1=relu.f32(0)\"\n"
      "const %w2: f32[16,16,3,3] = #1\n"
      "%c2: f32[" +
      n +
      ",16,8,8] = conv(%c1, %w2, %c1) strides=[1,1] dilations=[1,1] pads=[1,1,1,1] epilogue=\"(2) 2=add.f32(0,1) "
      "3=relu.f32(2)\"\n"
      "%p: f32[" +
      n +
      ",16,4,4] = pool(%c2) kernel=[2,2] strides=[2,2] dilations=[1,1] pads=[0,0,0,0]\n"
      "%flat: f32[" +
      n + ",256] = reshape(%p) shape=[" + n +
      ",256]\n"
      "const %axis: i64[] = #3\n%sum: f32[" +
      n +
      ",256] = cumulative(%flat, %axis)\n"
      "const %w3: f32[256,10] = #2\n"
      "%y: f32[" +
      n +
      ",10] = matmul(%sum, %w3)\n"
      "output \"y\" = %y\n";
  const std::vector<Tensor> blobs{noise({16, 3, 3, 3}, 1), noise({16, 16, 3, 3}, 2), noise({256, 10}, 3),
                                  Tensor::of<int64_t>({}, {1})};
  return parse_graph(text, blobs);
}

class CudaScripted : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (!testing::nvrtc_of_setup(why)) GTEST_SKIP() << "no NVRTC: " << why;
    gpus.reset();
    machines = std::make_unique<ScriptedMachines>();
  }
  void TearDown() override {
    for (auto* countdown : {&planned_failures().allocate, &planned_failures().launch, &planned_failures().other})
      countdown->store(0);
    machines.reset();
    if (gpus.lost_at < 0) {
      for (const auto& [kind, count] : gpus.alive()) ADD_FAILURE() << count << " of " << kind << " are left";
    }
    for (const std::string& misuse : gpus.misuses) ADD_FAILURE() << misuse;
    gpus.reset();
  }
  std::shared_ptr<Engine> build(Graph graph, const std::string& device = "cuda:0", bool measure = false,
                                std::map<std::string, ShapeRange> shapes = {}) {
    BuildOptions options;
    options.device = device;
    options.measure = measure;
    options.time_limit = time_limit;
    options.shapes = std::move(shapes);
    options.threads = 1;
    options.command = "temper build small.onnx -o small.plan";
    return build_engine(std::move(graph), info_of(device), options);
  }
  std::vector<Tensor> run(const std::shared_ptr<const Engine>& engine, int64_t batch) {
    Session session(engine);
    return session.run({noise({batch, 3, 16, 16}, 1)});
  }

  ScriptedGpus& gpus = ScriptedGpus::get();
  std::unique_ptr<ScriptedMachines> machines;
  double time_limit = 120;
};

TEST_F(CudaScripted, BuildsSavesLoadsAndRuns) {
  const auto engine = build(residual_graph("2"));
  EXPECT_TRUE(gpus.launches.empty()) << "nothing was to be measured";
  run(engine, 2);
  const std::vector<std::string> launches = gpus.launches;
  EXPECT_GE(launches.size(), 4u);
  const Tensor file = file_bytes(*engine);
  const auto loaded = std::make_shared<const Engine>(read_plan(file.raw(), nullptr));
  gpus.launches.clear();
  run(loaded, 2);
  EXPECT_EQ(gpus.launches, launches);
  const auto& notes = engine->info().notes;
  EXPECT_TRUE(std::any_of(notes.begin(), notes.end(),
                          [](const std::string& note) { return note.find("runs on the CPU") != std::string::npos; }));
}

TEST_F(CudaScripted, MeasuresCandidatesOnItsClock) {
  const auto engine = build(small_graph("2"), "cuda:0", true);
  EXPECT_FALSE(gpus.launches.empty());
  EXPECT_GT(engine->plans().at(0)->steps_ms(), 0);
}

// Times by the names of candidates, and what was said to come.
struct ExpectingTimes final : TimeSource {
  const Device& device;
  std::set<std::string> expected;
  bool parts = false;
  explicit ExpectingTimes(const Device& d) : device(d) {}
  CandidateTime time(const Problem&, const Tactic& tactic, const Config& config, int) override {
    return CandidateTime::of(1 + double(std::hash<std::string>()(timing_key("", tactic, config)) % 5) / 10);
  }
  void expect(const std::vector<CandidateRef>& candidates) override {
    for (const CandidateRef& c : candidates) {
      expected.insert(timing_key(timing_group(device.fingerprint, *c.problem, 1), *c.tactic, c.config));
      parts |= c.problem->has_parts();
    }
  }
};

// Two convolutions write into one concat: their kernels are not those that were timed alone.
TEST_F(CudaScripted, WhatIsTimedInPlansIsSaidToComeAsItStandsInThem) {
  const Graph graph = parse_graph(
      "graph \"parts\"\ninput %x: f32[2,8,8,8]\nconst %w: f32[8,8,3,3] = #0\n"
      "%a: f32[2,8,8,8] = conv(%x, %w) strides=[1,1] dilations=[1,1] pads=[1,1,1,1]\n"
      "%b: f32[2,8,8,8] = conv(%a, %w) strides=[1,1] dilations=[1,1] pads=[1,1,1,1]\n"
      "%c: f32[2,16,8,8] = concat(%a, %b) axis=1\noutput \"y\" = %c\n",
      std::vector<Tensor>{noise({8, 8, 3, 3}, 1)});
  const Device device = open_device("cuda:0");
  ExpectingTimes times(device);
  PlanOptions options;
  options.times = &times;
  TimingCache cache("");
  Workbench bench(device);
  plan_in_context(graph, find_backend("cuda"), device, options, cache, bench, nullptr);
  EXPECT_TRUE(times.parts);
  EXPECT_GT(times.expected.size(), 4u);
  for (const std::string& key : times.expected) EXPECT_TRUE(cache.in_plans.find(key)) << key;
  const size_t before = times.expected.size();
  times.expected.clear();
  plan_in_context(graph, find_backend("cuda"), device, options, cache, bench, nullptr);
  EXPECT_TRUE(times.expected.empty()) << "all of " << before << " are known";
}

// Alone each candidate takes at least 1 ms, in a plan 0.01 or 0.02. Of one that takes 0.02 the cache says that it takes
// less, which the turns refute.
TEST_F(CudaScripted, APlanByTimesAloneThatWinsHasTheTimesOfItsStepsInThePlan) {
  struct Alone final : TimeSource {
    CandidateTime time(const Problem&, const Tactic& tactic, const Config& config, int) override {
      const bool here = std::ranges::all_of(config.outputs, [](Layout l) { return l == Layout::channels_last; });
      if (!here || (tactic.name == "cuda.conv.gemm" && config.text != "tile=64x64")) return CandidateTime::of(5);
      return CandidateTime::of(tactic.name == "cuda.conv.direct" ? 1.2 : 1);
    }
  } alone;
  const Graph graph = parse_graph(
      "graph \"two\"\ninput %x: f32[2,8,8,8]\nconst %w: f32[8,8,3,3] = #0\n"
      "%a: f32[2,8,8,8] = conv(%x, %w) strides=[1,1] dilations=[1,1] pads=[1,1,1,1] @\"conv\"\n"
      "%b: f32[2,8,8,8] = softmax(%a) axis=3 @\"softmax\"\noutput \"y\" = %b\n",
      std::vector<Tensor>{noise({8, 8, 3, 3}, 1)});
  const Device device = open_device("cuda:0");
  PlanOptions options;
  options.times = &alone;
  gpus.kernel_ms["conv_direct"] = 0.02;
  const Plan alone_plan = build_plan(graph, find_backend("cuda"), device, options);
  Config config = step_of(alone_plan, "conv").config;
  ASSERT_EQ(config.text, "tile=64x64");
  config.text.clear();
  TimingCache cache("");
  cache.in_plans.add(timing_key(timing_group(device.fingerprint, step_of(alone_plan, "conv").problem, 1),
                                *find_tactic("cuda.conv.direct"), config),
                     {0.001, 0.0, 1});
  Workbench bench(device);
  const Plan plan = plan_in_context(graph, find_backend("cuda"), device, options, cache, bench, nullptr);
  const PlanStep& step = step_of(plan, "conv");
  EXPECT_EQ(step.tactic, "cuda.conv.gemm") << "the turns";
  EXPECT_NEAR(step.ms, 0.01, 1e-6);
  EXPECT_NEAR(step_of(plan, "softmax").ms, 0.01, 1e-6);
  int with_time = 0;
  for (const Candidate& loser : step.losers) {
    with_time += loser.ms == 0.001;
    EXPECT_TRUE(loser.ms == 0.001 || !loser.refusal.empty()) << loser.tactic << ' ' << loser.config << ' ' << loser.ms;
  }
  EXPECT_EQ(with_time, 1);
  // So have the decisions, from which a later build takes them.
  EXPECT_NEAR(step_of(plan_in_context(graph, find_backend("cuda"), device, options, cache, bench, nullptr), "conv").ms,
              0.01, 1e-6);
}

// Of each of three shapes the same is left out, and none of its candidates is compiled ahead.
TEST_F(CudaScripted, WithoutAnyTimeNoCandidateIsMeasured) {
  time_limit = 0;
  const auto engine = build(small_graph("n"), "cuda:0", true, {{"x", {{1, 3, 8, 8}, {2, 3, 8, 8}, {4, 3, 8, 8}}}});
  EXPECT_EQ(engine->plans().size(), 3u);
  for (const auto& plan : engine->plans()) EXPECT_FALSE(plan->not_measured.empty());
  const auto& notes = engine->info().notes;
  EXPECT_EQ(std::ranges::count_if(notes, [](const auto& n) { return n.find("--time-limit") != n.npos; }), 3);
  const PlanFile loaded = read_plan(file_bytes(*engine).raw(), nullptr);
  EXPECT_EQ(loaded.plans.at(0)->not_measured, engine->plans().at(0)->not_measured);
  EXPECT_EQ(Session(engine).run({noise({2, 3, 8, 8}, 1)}).at(0).dims()[0], 2);
}

// All plans take as long as their launches here.
TEST_F(CudaScripted, BestTriesEveryPrecisionOfTheGpuAndInt8WithEachLayerInTheFaster) {
  EngineInfo info;
  const Graph graph = small_graph("2"), optimised = optimised_graph(graph, info, {});
  auto ranges = std::make_shared<Ranges>();
  for (int32_t v = 0; v < optimised.value_count(); ++v)
    if (!optimised.constant({v})) ranges->values[optimised.value({v}).name] = {-1, 1, 1 / 127.0f, "minmax", 0, {}};
  BuildOptions options;
  options.device = "cuda:0";
  options.precision = "best";
  options.ranges = ranges;
  const auto engine = build_engine(graph, {}, options);
  const auto& notes = engine->info().notes;
  const auto tried =
      std::ranges::find_if(notes, [](const auto& n) { return n.starts_with("the fastest precision is "); });
  ASSERT_NE(tried, notes.end()) << ::testing::PrintToString(notes);
  for (const char* precision : {"fp32", "tf32", "bf16", "fp16", "int8", "int8+bf16", "int8+fp16"})
    EXPECT_NE(tried->find(concat(' ', precision, ' ')), tried->npos) << *tried;
  EXPECT_NE(tried->find(concat("is ", engine->info().precision, ", of fp32")), tried->npos) << *tried;
  options.precision = "int8+fp16";
  const auto mix = build_engine(graph, {}, options);
  EXPECT_EQ(mix->info().lowered_products, 3);
  EXPECT_TRUE(std::ranges::any_of(mix->info().notes, [](const auto& n) {
    return n.starts_with("of 3 layers that may be in int8: all so ") && n.find("; taken: ") != n.npos;
  })) << ::testing::PrintToString(mix->info().notes);
  Session(mix).run({noise({2, 3, 8, 8}, 1)});
}

// What the searches of a build for int8 with fp16 did: the plans that they timed, and the candidates.
struct Searched {
  int in_trials = 0, afterwards = 0;  // whole plans
  size_t measured = 0;                // candidates
  size_t known = 0;                   // times in the cache
  std::shared_ptr<Engine> engine;
};
Searched searched(const std::string& batch, std::map<std::string, ShapeRange> shapes, double time_limit = 120) {
  const Graph graph = small_graph(batch);
  EngineInfo info;
  BuildOptions options;
  options.shapes = std::move(shapes);
  const Graph optimised = optimised_graph(graph, info, options);
  auto ranges = std::make_shared<Ranges>();
  for (int32_t v = 0; v < optimised.value_count(); ++v)
    if (!optimised.constant({v})) ranges->values[optimised.value({v}).name] = {-1, 1, 1 / 127.0f, "minmax", 0, {}};
  options.device = "cuda:0";
  options.precision = "int8+fp16";
  options.ranges = ranges;
  options.time_limit = time_limit;
  options.timings = std::make_shared<SharedTimingCache>();
  Searched all;
  options.progress = [&](const ProgressStep& step) {
    all.measured += step.what.find("measuring candidates") != step.what.npos;
    if (step.what.find("timing the whole plan") == step.what.npos) return;
    const bool trial = step.what.starts_with("all in ") || step.what.starts_with("the faster of ");
    ++(trial ? all.in_trials : all.afterwards);
  };
  all.engine = build_engine(graph, {}, options);
  all.known = options.timings->now().size();
  return all;
}

TEST_F(CudaScripted, ThePlanOfASearchThatWonIsNotSearchedAgain) {
  const Searched one = searched("2", {});
  EXPECT_GE(one.in_trials, 2);
  EXPECT_EQ(one.afterwards, 0);
  const auto& notes = one.engine->info().notes;
  EXPECT_EQ(std::ranges::count_if(notes, [](const auto& n) { return n.starts_with("of 3 layers that may be "); }), 1);
  EXPECT_GT(one.engine->info().build_s, 0);
  Session(one.engine).run({noise({2, 3, 8, 8}, 1)});
  // Where more shapes are asked for than the first, or not all was measured, it is.
  const Searched three = searched("n", {{"x", {{1, 3, 8, 8}, {2, 3, 8, 8}, {4, 3, 8, 8}}}});
  EXPECT_EQ(three.afterwards, 3);
  EXPECT_EQ(three.engine->plans().size(), 3u);
  const Searched without_time = searched("2", {}, 0);
  EXPECT_EQ(without_time.afterwards, 1);
  EXPECT_FALSE(without_time.engine->plans().at(0)->not_measured.empty());
}

TEST_F(CudaScripted, ACandidateIsMeasuredByOneSearchOfABuildAlone) {
  const Searched one = searched("2", {});
  EXPECT_GT(one.known, 0u);
  EXPECT_EQ(one.measured, one.known);
  const Searched three = searched("n", {{"x", {{1, 3, 8, 8}, {2, 3, 8, 8}, {4, 3, 8, 8}}}});
  EXPECT_EQ(three.measured, three.known);
}

TEST_F(CudaScripted, PlansAreTimedInTurnsOnlyWhereTheirWholeTimesAreNear) {
  const auto engine = build(small_graph("2"));
  Plan a = *engine->plans().at(0), b = a;
  const Device device = open_device("cuda:0");
  Workbench bench(device);
  const auto launches = [&](double a_ms, double b_ms, std::optional<bool> faster) {
    a.whole.ms = a_ms, b.whole.ms = b_ms;
    const size_t before = gpus.launches.size();
    const bool is = is_faster(a, b, bench, device);
    if (faster) { EXPECT_EQ(is, *faster); }
    return gpus.launches.size() - before;
  };
  EXPECT_EQ(launches(1, 1.3, true), 0u);
  EXPECT_EQ(launches(1.3, 1, false), 0u);
  EXPECT_GT(launches(1, 1.1, std::nullopt), 0u);
  EXPECT_GT(launches(1, -1, std::nullopt), 0u);
}

TEST_F(CudaScripted, APlanIsNotTimedInTurnsWithOneOfTheSameKernels) {
  static int compared;
  compared = 0;
  set_log_callback(
      [](LogLevel, std::string_view message) { compared += message.find(" beside one of ") != message.npos; });
  const Graph graph =
      parse_graph("graph \"g\"\ninput %x: f32[2,8]\n%y: f32[2,8] = softmax(%x) axis=1\noutput \"y\" = %y\n");
  const auto engine = build(graph, "cuda:0", true);
  set_log_callback(nullptr);
  EXPECT_GT(engine->plans().at(0)->whole.ms, 0);
  EXPECT_EQ(compared, 0);
}

// Which is faster is decided where it is measured, kept in the timing cache, and not measured again.
TEST_F(CudaScripted, ConvolutionsRunInChainsWhereThatWasFaster) {
  const std::string text =
      "graph \"two\"\n"
      "input %x: f16[1,16,224,224]\n"
      "const %w: f16[16,16,3,3] = #0\n"
      "%b: f16[1,16,224,224] = conv(%x, %w) strides=[1,1] dilations=[1,1] pads=[1,1,1,1] epilogue=\"(1) "
      "1=cast.f16(0)\" @\"a\"\n"
      "const %v: f16[32,16,1,1] = #1\n"
      "%y: f16[1,32,224,224] = conv(%b, %v) strides=[1,1] dilations=[1,1] pads=[0,0,0,0] epilogue=\"(1) "
      "1=cast.f16(0)\" @\"b\"\n"
      "output \"y\" = %y\n";
  const std::vector<Tensor> blobs{noise({16, 16, 3, 3}, 1).converted(DType::f16),
                                  noise({32, 16, 1, 1}, 2).converted(DType::f16)};
  const std::string cache = concat(::testing::TempDir(), "/temper_chains_", getpid(), ".json");
  int measured = 0;
  auto ops_of = [&](std::set<std::string> disabled = {}) {
    BuildOptions options;
    measured = 0;
    options.progress = [&](const ProgressStep& step) {
      const std::string& what = step.what;
      measured += what.find("measuring candidates") != what.npos || what.find("timing whole plans") != what.npos;
    };
    options.device = "cuda:0";
    options.timing_cache = cache;
    options.passes.disabled.insert(disabled.begin(), disabled.end());
    gpus.launches.clear();
    const auto engine = build_engine(parse_graph(text, blobs), info_of(options.device), options);
    std::vector<std::string> ops;
    for (const PlanStep& step : engine->plans().at(0)->segments.at(0).steps)
      if (!step.is_reorder()) ops.emplace_back(name_of(step.problem.op));
    PlanFile file;
    file.plans = engine->plans();
    for (const char* node : {"a", "b"}) EXPECT_EQ(steps_named(file, node).size(), 1u) << node;
    EXPECT_EQ(steps_named(file, "a").at(0).second == steps_named(file, "b").at(0).second, ops.size() == 1);
    return ops;
  };
  const std::vector<std::string> chain{"conv_chain"}, apart{"conv", "conv"};
  EXPECT_EQ(ops_of(), chain);  // one launch takes less of the scripted clock than two
  EXPECT_GT(measured, 0);
  EXPECT_EQ(ops_of(), chain);
  EXPECT_EQ(measured, 0) << "measured again";
  EXPECT_EQ(ops_of({"chain_convs"}), apart);
  TimingCache kept(cache);
  int chains = 0;
  const TimingCache before(cache);
  for (const auto& [key, pairs] : before.fused_pairs.all())
    for (const auto& [name, faster] : pairs) kept.fused_pairs.add(key, {{name, false}}), ++chains;
  ASSERT_EQ(chains, 1);
  kept.save();
  EXPECT_EQ(ops_of(), apart);
  std::filesystem::remove(cache);
  std::filesystem::remove(cache + ".lock");
}

TEST_F(CudaScripted, AThirdConvolutionJoinsAChainWhereThatWasFaster) {
  const std::string image = "f16[1,16,224,224]", conv = "strides=[1,1] dilations=[1,1] pads=[0,0,0,0] epilogue=";
  const std::string text =
      concat("graph \"three\"\ninput %x: ", image, "\nconst %w: f16[16,16,1,1] = #0\n", "%a: ", image,
             " = conv(%x, %w) ", conv, "\"(1) 1=cast.f16(0)\" @\"a\"\n", "%b: ", image, " = conv(%a, %w, %x) ", conv,
             "\"(2) 2=cast.f32(1) 3=add.f32(0,2) 4=cast.f16(3)\" @\"b\"\n", "%c: ", image, " = conv(%b, %w) ", conv,
             "\"(1) 1=relu.f32(0) 2=cast.f16(1)\" @\"c\"\n", "output \"b\" = %b\noutput \"c\" = %c\n");
  const std::string cache = concat(::testing::TempDir(), "/temper_three_", getpid(), ".json");
  BuildOptions options;
  options.device = "cuda:0";
  options.timing_cache = cache;
  const std::vector<Tensor> blobs{noise({16, 16, 1, 1}, 1).converted(DType::f16)};
  const auto graph = [&] { return parse_graph(text, blobs); };
  const auto nodes = [](const Engine& engine) {
    std::vector<std::string> out;
    for (const PlanStep& step : engine.plans().at(0)->segments.at(0).steps)
      if (!step.is_reorder()) out.push_back(step.node);
    return out;
  };
  const auto engine = build_engine(graph(), info_of(options.device), options);
  EXPECT_EQ(nodes(*engine), std::vector<std::string>{"a + b + c"});
  PlanFile file;
  file.plans = engine->plans();
  for (const char* node : {"a", "b", "c"}) EXPECT_EQ(steps_named(file, node).size(), 1u) << node;
  // A pair may be faster where three are not.
  TimingCache kept(cache);
  const TimingCache before(cache);
  for (const auto& [key, pairs] : before.fused_pairs.all())
    kept.fused_pairs.add(key, {{"a + b", true}, {"a + b + c", false}});
  kept.save();
  const std::vector<std::string> two{"a + b", "c"};
  EXPECT_EQ(nodes(*build_engine(graph(), info_of(options.device), options)), two);
  std::filesystem::remove(cache);
  std::filesystem::remove(cache + ".lock");
}

// The last two convolutions of a residual block, which divides the image's sides by `stride`, and its projection.
struct ProjectedBlock {
  std::string text;
  std::vector<Tensor> blobs;
  Graph graph() const { return parse_graph(text, blobs); }
};
ProjectedBlock projected_block(int64_t batch, int64_t side, int64_t stride) {
  const auto image = [&](int64_t channels, int64_t size) {
    return concat("f16[", batch, ',', channels, ',', size, ',', size, ']');
  };
  const auto conv = [](int64_t step, int64_t pad) {
    return concat(" strides=[", step, ',', step, "] dilations=[1,1] pads=[", pad, ',', pad, ',', pad, ',', pad,
                  "] epilogue=");
  };
  const std::string biased = "\"(2) 2=add.f32(0,1) 3=cast.f16(2)\"",
                    relu = "\"(2) 2=add.f32(0,1) 3=relu.f32(2) 4=cast.f16(3)\"",
                    sum = "\"(3) 3=add.f32(0,1) 4=cast.f32(2) 5=add.f32(3,4) 6=relu.f32(5) 7=cast.f16(6)\"";
  const int64_t half = side / stride;
  const std::string text =
      concat("graph \"block\"\ninput %x: ", image(64, side), "\ninput %r: ", image(64, side),
             "\nconst %w: f16[64,64,3,3] = #0\nconst %b: f32[64,1,1] = #1\n", "const %v: f16[256,64,1,1] = #2\n",
             "const %u: f16[256,64,1,1] = #3\nconst %d: f32[256,1,1] = #4\n", "%a: ", image(64, half),
             " = conv(%x, %w, %b)", conv(stride, 1), relu, " @\"conv2\"\n", "%p: ", image(256, half),
             " = conv(%r, %u, %d)", conv(stride, 0), biased, " @\"proj\"\n", "%y: ", image(256, half),
             " = conv(%a, %v, %d, %p)", conv(1, 0), sum, " @\"conv3\"\n", "output \"y\" = %y\n");
  const auto half_noise = [](Dims dims, uint32_t seed) { return noise(std::move(dims), seed).converted(DType::f16); };
  return {text,
          {half_noise({64, 64, 3, 3}, 1), noise({64, 1, 1}, 2), half_noise({256, 64, 1, 1}, 3),
           half_noise({256, 64, 1, 1}, 4), noise({256, 1, 1}, 5)}};
}

std::vector<std::string> nodes_of(const Engine& engine) {
  std::vector<std::string> nodes;
  for (const PlanStep& step : engine.plans().at(0)->segments.at(0).steps)
    if (!step.is_reorder()) nodes.push_back(step.node);
  return nodes;
}

TEST_F(CudaScripted, AProjectionIsComputedWithTheConvolutionThatItIsAddedBehind) {
  const ProjectedBlock block = projected_block(8, 28, 2);  // too small for its chain to be worth timing
  BuildOptions options;
  options.device = "cuda:0";
  const auto engine = build_engine(block.graph(), info_of(options.device), options);
  EXPECT_EQ(nodes_of(*engine), (std::vector<std::string>{"conv2", "conv3 + proj"}));
  const Graph planned =
      graph_of_plan(engine->graph(), *engine->plans().at(0), {}, find_backend(options.device), engine->device());
  ASSERT_EQ(planned.node_count(), 2);  // what temper verify compares step by step
  EXPECT_EQ(planned.node({1}).name, "conv3 + proj");
  const PlanFile file = made_of(*engine);
  for (const char* node : {"conv2", "conv3", "proj"}) EXPECT_EQ(steps_named(file, node).size(), 1u) << node;
  EXPECT_EQ(steps_named(file, "conv3").at(0).second, steps_named(file, "proj").at(0).second);
  options.passes.disabled.insert("join_shortcuts");
  EXPECT_EQ(nodes_of(*build_engine(block.graph(), info_of(options.device), options)).size(), 3u);
}

TEST_F(CudaScripted, AProjectionOfTheSamePixelsRunsInItsBlocksChain) {
  const ProjectedBlock block = projected_block(64, 56, 1);
  const std::string cache = concat(::testing::TempDir(), "/temper_shortcut_", getpid(), ".json");
  BuildOptions options;
  options.device = "cuda:0";
  options.timing_cache = cache;
  const auto nodes = [&] { return nodes_of(*build_engine(block.graph(), info_of(options.device), options)); };
  EXPECT_EQ(nodes(), (std::vector<std::string>{"conv2 + conv3 + proj"}));
  TimingCache kept(cache);
  const TimingCache before(cache);
  for (const auto& [key, pairs] : before.fused_pairs.all())
    kept.fused_pairs.add(key, {{"conv2 + conv3 + proj", false}});
  kept.save();
  EXPECT_EQ(nodes(), (std::vector<std::string>{"conv2", "conv3 + proj"}));
  std::filesystem::remove(cache);
  std::filesystem::remove(cache + ".lock");
}

TEST_F(CudaScripted, RecordsOnceAndAgainWhereTheArenaGrew) {
  const auto engine = build(small_graph("n"), "cuda:0", false, {{"x", {{1, 3, 8, 8}, {4, 3, 8, 8}, {64, 3, 8, 8}}}});
  Session session(engine);
  auto run = [&](int64_t batch) {
    const int64_t before = gpus.graphs_recorded;
    session.run({noise({batch, 3, 8, 8}, 1)});
    return gpus.graphs_recorded - before;
  };
  EXPECT_EQ(run(1), 1);
  EXPECT_EQ(run(1), 0);
  EXPECT_EQ(run(64), 1);  // the arena moves
  EXPECT_EQ(run(64), 0);
  EXPECT_EQ(run(1), 1);
  EXPECT_EQ(run(1), 0);
  EXPECT_EQ(run(64), 0);
}

// Latency and compute time are of the same queries, so that one cannot contradict the other.
TEST_F(CudaScripted, TheGpusShareOfEveryTimedRunIsWhatItsStepsTakeThere) {
  const std::shared_ptr<const Engine> engine = build(small_graph("2"));
  std::vector<double> shares;
  TimerOptions timer;
  timer.iterations = 7;
  LoadPattern load;
  load.transfers = true;
  load.device_ms = &shares;
  const BenchRun run = bench_engine(engine, {{2, 3, 8, 8}}, timer, load);
  BenchSession alone(engine, {{2, 3, 8, 8}});
  alone.run();
  EXPECT_EQ(run.samples, 7);
  EXPECT_EQ(shares, std::vector<double>(7, alone.run_on_device(1, true)[0]));
  EXPECT_GT(shares[0], 0);
}

TEST_F(CudaScripted, SessionsShareConstantsAndNothingElse) {
  const auto engine = build(small_graph("2"));
  const int64_t before = gpus.used_bytes(0);
  Session first(engine);
  first.run({noise({2, 3, 8, 8}, 1)});
  const int64_t one = gpus.used_bytes(0) - before;
  Session second(engine);
  second.run({noise({2, 3, 8, 8}, 1)});
  const int64_t two = gpus.used_bytes(0) - before;
  EXPECT_GT(two, one);
  EXPECT_EQ(two - one, second.arena_bytes());
  EXPECT_EQ(gpus.alive()["stream"], 4);  // each session's, and each machine's for constants
  std::vector<std::thread> threads;
  for (Session* session : {&first, &second})
    threads.emplace_back([session] {
      for (int i = 0; i < 20; ++i) session->run({noise({2, 3, 8, 8}, 1)});
    });
  for (std::thread& thread : threads) thread.join();
}

// Makes the n-th call of a kind fail, for each n until none fails any more. `work` leaves nothing behind.
void fail_each(ScriptedGpus& gpus, const std::function<void()>& work, int64_t least) {
  const auto alive = gpus.alive();
  for (auto* countdown : {&planned_failures().allocate, &planned_failures().launch, &planned_failures().other}) {
    int64_t n = 1, step = 1;
    for (;; n += step, step = 1 + n / 40) {
      countdown->store(n);
      bool threw = false;
      try {
        work();
      } catch (const Error& error) {
        threw = true;
        EXPECT_EQ(error.kind(), ErrorKind::machine) << error.what();
        EXPECT_NE(std::string(error.what()).find("planned by a test"), std::string::npos) << error.what();
      }
      const bool reached = countdown->exchange(0) <= 0;
      EXPECT_EQ(gpus.alive(), alive) << "call " << n;
      EXPECT_EQ(threw, reached) << "call " << n << " failed and nobody heard of it";
      ASSERT_LT(n, 100000);
      if (!reached) break;
    }
    EXPECT_GE(n, least);
  }
  EXPECT_NO_THROW(work());
}

TEST_F(CudaScripted, EveryCallMayFailWhileAPlanIsBuilt) {
  build(residual_graph("2"));  // compiles
  fail_each(gpus, [&] { build(residual_graph("2")); }, 1);
}

TEST_F(CudaScripted, EveryCallMayFailWhileCandidatesAreMeasured) {
  build(tiny_graph(), "cuda:0", true);
  fail_each(gpus, [&] { build(tiny_graph(), "cuda:0", true); }, 5);
}

TEST_F(CudaScripted, EveryCallMayFailWhileAPlanIsLoadedAndRuns) {
  const Tensor file = file_bytes(*build(residual_graph("2")));
  fail_each(
      gpus,
      [&] {
        const auto engine = std::make_shared<const Engine>(read_plan(file.raw(), nullptr));
        Session session(engine);
        for (int i = 0; i < 2; ++i) session.run({noise({2, 3, 16, 16}, 1)});
      },
      5);
}

// The session that failed answers again.
TEST_F(CudaScripted, ASessionGoesOnAfterAFailure) {
  const auto engine =
      build(residual_graph("n"), "cuda:0", false, {{"x", {{1, 3, 16, 16}, {2, 3, 16, 16}, {64, 3, 16, 16}}}});
  for (int64_t batch : {1, 2, 64}) run(engine, batch);  // compiled and planned
  const auto alive = gpus.alive();
  for (auto* countdown : {&planned_failures().allocate, &planned_failures().launch, &planned_failures().other}) {
    bool reached = true;
    for (int64_t n = 1; reached && n < 2000; n += 1 + n / 30) {
      Session session(engine);
      session.run({noise({1, 3, 16, 16}, 1)});
      countdown->store(n);
      bool threw = false;
      try {
        for (int64_t batch : {1, 64, 1}) session.run({noise({batch, 3, 16, 16}, 1)});
      } catch (const Error& error) {
        threw = true;
        EXPECT_EQ(error.kind(), ErrorKind::machine);
      }
      reached = countdown->exchange(0) <= 0;
      EXPECT_EQ(threw, reached) << n;
      gpus.launches.clear();
      for (int64_t batch : {1, 64, 1}) EXPECT_NO_THROW(session.run({noise({batch, 3, 16, 16}, 1)})) << n;
      EXPECT_GE(gpus.launches.size(), 9u);
    }
    EXPECT_FALSE(reached);
  }
  EXPECT_EQ(gpus.alive(), alive);
}

// Runs on the CPU inside of a plan for a GPU, so that a script without kernels gets it right.
Graph running_sum() {
  return parse_graph(
      "graph \"sum\"\ninput %x: f32[n,5]\nconst %axis: i64[] = #0\n%y: f32[n,5] = cumulative(%x, %axis)\n"
      "output \"y\" = %y\n",
      std::vector<Tensor>{Tensor::of<int64_t>({}, {1})});
}

TEST_F(CudaScripted, BuffersInItsMemoryAreReadAndWrittenThere) {
  const auto engine = build(running_sum(), "cuda:0", false, {{"x", {{1, 5}, {2, 5}, {9, 5}}}});
  Session session(engine);
  EXPECT_NE(session.stream(), nullptr);
  for (int64_t batch : {2, 9, 2}) {
    const Tensor x = noise({batch, 5}, uint64_t(batch)), want = session.run({x})[0];
    session.prepare({{batch, 5}});
    const auto in = session.allocate_resident(x.bytes() + 4), out = session.allocate_resident(x.bytes() + 4);
    std::byte* const unaligned = static_cast<std::byte*>(in.get()) + 4;
    std::memcpy(unaligned, x.raw().data(), size_t(x.bytes()));
    const void* const inputs[] = {unaligned};
    void* const outputs[] = {static_cast<std::byte*>(out.get()) + 4};
    const int64_t recorded = gpus.graphs_recorded, runs = session.statistics().runs;
    EXPECT_EQ(session.run_resident(inputs, outputs)[0], outputs[0]);
    EXPECT_EQ(std::memcmp(outputs[0], want.raw().data(), size_t(want.bytes())), 0);
    const auto there = session.run_resident(inputs);  // stays where the plan leaves it
    EXPECT_EQ(std::memcmp(there[0], want.raw().data(), size_t(want.bytes())), 0);
    EXPECT_EQ(gpus.graphs_recorded, recorded) << "the capture is that of run()";
    EXPECT_EQ(session.statistics().runs, runs + 2);
  }
}

TEST_F(CudaScripted, BuffersThatComeAgainAreReadAndWrittenWhereTheyLie) {
  const auto engine = build(running_sum(), "cuda:0", false, {{"x", {{1, 5}, {2, 5}, {9, 5}}}});
  Session session(engine);
  session.prepare({{2, 5}});
  const auto a = session.allocate_resident(40), b = session.allocate_resident(40), y = session.allocate_resident(40);
  uint64_t seed = 0;
  // Copies that a run makes; its answer is checked.
  const auto copies = [&](const std::shared_ptr<void>& in, std::vector<void*> outputs) {
    const Tensor x = noise({2, 5}, ++seed), want = session.run({x})[0];
    std::memcpy(in.get(), x.raw().data(), 40);
    const void* const inputs[] = {in.get()};
    const int64_t before = gpus.copies_on_device;
    const auto got = session.run_resident(inputs, outputs);
    EXPECT_EQ(std::memcmp(got[0], want.raw().data(), 40), 0) << seed;
    return gpus.copies_on_device - before;
  };
  EXPECT_EQ(copies(a, {y.get()}), 2);
  EXPECT_EQ(copies(a, {y.get()}), 0);
  EXPECT_EQ(copies(b, {y.get()}), 2) << "another input";
  EXPECT_EQ(copies(a, {y.get()}), 0) << "the first is still known";
  EXPECT_EQ(copies(a, {b.get()}), 1) << "another output: the input is read where it lies all the same";
  EXPECT_EQ(copies(a, {}), 0) << "the output stays where the plan leaves it";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(copies(a, {a.get()}), 2) << "one over the other: kernels may still read";
}

// The axis is data, so that both sums are steps on the CPU, which a script without kernels gets right.
Graph sums_with_state() {
  return parse_graph(
      "graph \"state\"\ninput %x: f32[2,5]\ninput %s: f32[2,5]\ninput %axis: i64[]\n"
      "%y: f32[2,5] = cumulative(%x, %axis)\n%next: f32[2,5] = cumulative(%s, %axis)\n"
      "output \"y\" = %y\noutput \"next\" = %next\n");
}

TEST_F(CudaScripted, StateStaysInItsMemory) {
  const auto engine = build(sums_with_state());
  Session session(engine);
  session.keep_state({{"s", "next"}});
  const Tensor axis = Tensor::of<int64_t>({}, {1});
  Tensor state = noise({2, 5}, 7);
  std::vector<const void*> places;
  int64_t recorded = 0;
  for (uint32_t piece = 0; piece < 8; ++piece) {
    const Tensor x = noise({2, 5}, piece);
    const std::vector<Tensor> want = run_reference(engine->graph(), {x, state, axis});
    const std::vector<Tensor> got = session.run({x, piece == 0 ? state : Tensor(), axis});
    expect_close({got[0], session.state(1)}, want);
    state = want[1];
    places.push_back(session.states()[0].there.get());
    if (piece == 4) recorded = gpus.graphs_recorded;
    EXPECT_TRUE(session.states()[0].resident);
  }
  EXPECT_EQ(gpus.graphs_recorded, recorded) << "two captures, that take turns";
  EXPECT_NE(places[0], places[1]);
  for (size_t i = 2; i < places.size(); ++i) EXPECT_EQ(places[i], places[i - 2]);

  // With arrays that lie there, too.
  const auto in = session.allocate_resident(40), at = session.allocate_resident(8), out = session.allocate_resident(40);
  std::memcpy(at.get(), axis.raw().data(), 8);
  for (uint32_t piece = 0; piece < 5; ++piece) {
    const Tensor x = noise({2, 5}, piece);
    std::memcpy(in.get(), x.raw().data(), 40);
    const std::vector<Tensor> want = run_reference(engine->graph(), {x, state, axis});
    const void* const inputs[] = {in.get(), nullptr, at.get()};
    void* const outputs[] = {out.get(), nullptr};
    const auto results = session.run_resident(inputs, piece == 2 ? std::span<void* const>() : outputs);
    EXPECT_EQ(results[1], session.states()[0].there.get());
    EXPECT_EQ(std::memcmp(results[0], want[0].raw().data(), 40), 0);
    expect_close({session.state(1)}, {want[1]});
    state = want[1];
  }
  session.reset_state();
  session.run({noise({2, 5}, 1), Tensor(), axis});
  for (double value : session.state(1).to_doubles()) EXPECT_EQ(value, 0);
}

TEST_F(CudaScripted, EveryCallMayFailWhileStateIsKept) {
  const auto engine = build(sums_with_state());
  const Tensor x = noise({2, 5}, 1), axis = Tensor::of<int64_t>({}, {1});
  fail_each(
      gpus,
      [&] {
        Session session(engine);
        session.keep_state({{"s", "next"}});
        for (int run = 0; run < 5; ++run) session.run({x, Tensor(), axis});
        session.state(1);
      },
      3);
}

TEST_F(CudaScripted, EveryCallMayFailWhileBuffersInItsMemoryAreUsed) {
  const auto engine = build(running_sum(), "cuda:0", false, {{"x", {{1, 5}, {2, 5}, {9, 5}}}});
  engine->plan_for({{2, 5}});
  fail_each(
      gpus,
      [&] {
        Session session(engine);
        session.prepare({{2, 5}});
        const auto memory = session.allocate_resident(512);
        const void* const inputs[] = {memory.get()};
        for (int at : {256, 300}) {
          void* const outputs[] = {static_cast<std::byte*>(memory.get()) + at};
          for (int i = 0; i < 2; ++i) session.run_resident(inputs, outputs);
        }
      },
      3);
}

TEST_F(CudaScripted, MemoryOfASessionOutlivesIt) {
  const auto engine = build(running_sum(), "cuda:1", false, {{"x", {{1, 5}, {2, 5}, {9, 5}}}});
  const int64_t before = gpus.used_bytes(1);
  std::shared_ptr<void> memory;
  {
    Session session(engine);
    memory = session.allocate_resident(1000);
  }
  EXPECT_EQ(gpus.used_bytes(1) - before, 1000);
  memory.reset();
  EXPECT_EQ(gpus.used_bytes(1), before);
}

TEST_F(CudaScripted, TheCApiTakesAddressesOfTheGpu) {
  const std::string path =
      (std::filesystem::path(::testing::TempDir()) / concat("temper_scripted_", getpid(), ".plan")).string();
  save_engine(*build(running_sum(), "cuda:0", false, {{"x", {{1, 5}, {2, 5}, {9, 5}}}}), path);
  temper_engine* engine = nullptr;
  ASSERT_EQ(temper_engine_load(path.c_str(), &engine), TEMPER_OK) << temper_last_error();
  std::filesystem::remove(path);
  temper_session* session = nullptr;
  ASSERT_EQ(temper_session_create(engine, &session), TEMPER_OK);
  void* stream = nullptr;
  EXPECT_EQ(temper_session_stream(session, &stream), TEMPER_OK);
  EXPECT_NE(stream, nullptr);
  const Tensor x = noise({3, 5}, 1);
  const int64_t dims[] = {3, 5};
  temper_tensor output;
  const temper_tensor host{TEMPER_F32, 2, dims, x.raw().data()};
  ASSERT_EQ(temper_session_run(session, &host, 1), TEMPER_OK) << temper_last_error();
  ASSERT_EQ(temper_session_output(session, 0, &output), TEMPER_OK);
  const std::vector<float> want(static_cast<const float*>(output.data), static_cast<const float*>(output.data) + 15);
  Session other(build(running_sum(), "cuda:0", false, {{"x", {{1, 5}, {2, 5}, {9, 5}}}}));
  const auto memory = other.allocate_resident(x.bytes());
  std::memcpy(memory.get(), x.raw().data(), size_t(x.bytes()));
  const temper_tensor there{TEMPER_F32, 2, dims, memory.get()};
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(temper_session_run_on_device(session, &there, 1), TEMPER_OK) << temper_last_error();
    ASSERT_EQ(temper_session_output(session, 0, &output), TEMPER_OK);
    EXPECT_EQ(output.dims[0], 3);
    EXPECT_EQ(std::memcmp(output.data, want.data(), 60), 0);
    ASSERT_EQ(temper_session_run(session, &host, 1), TEMPER_OK) << "the host's memory again";
  }
  ASSERT_EQ(temper_session_output(session, 0, &output), TEMPER_OK);
  EXPECT_EQ(std::memcmp(output.data, want.data(), 60), 0);
  // Into memory of the caller's, in a stream of theirs.
  const auto result = other.allocate_resident(60);
  const temper_tensor target{TEMPER_F32, 2, dims, result.get()};
  const int64_t four[] = {4, 5};
  temper_device_run how = {};
  how.outputs = &target;
  how.output_count = 1;
  for (int in_stream : {0, 1}) {
    std::memset(result.get(), 0, 60);
    how.in_stream = in_stream;
    how.stream = other.stream();
    ASSERT_EQ(temper_session_run_on_device_with(session, &there, 1, &how), TEMPER_OK) << temper_last_error();
    EXPECT_EQ(std::memcmp(result.get(), want.data(), 60), 0) << in_stream;
    ASSERT_EQ(temper_session_output(session, 0, &output), TEMPER_OK);
    EXPECT_EQ(output.data, result.get());
  }
  for (const temper_tensor& wrong : {temper_tensor{TEMPER_F32, 2, four, result.get()},
                                     {TEMPER_I32, 2, dims, result.get()},
                                     {TEMPER_F32, 2, dims, nullptr}}) {
    how.outputs = &wrong;
    EXPECT_EQ(temper_session_run_on_device_with(session, &there, 1, &how), TEMPER_USAGE);
    EXPECT_NE(std::string(temper_last_error()).find("output 'y'"), std::string::npos) << temper_last_error();
  }
  how.output_count = 2;
  EXPECT_EQ(temper_session_run_on_device_with(session, &there, 1, &how), TEMPER_USAGE);
  const temper_tensor nothing{TEMPER_F32, 2, dims, nullptr};
  EXPECT_EQ(temper_session_run_on_device(session, &nothing, 1), TEMPER_USAGE);
  temper_session_free(session);
  temper_engine_free(engine);
}

TEST_F(CudaScripted, TheCApiCopiesBetweenTheHostAndTheGpuBehindARunThatIsDone) {
  const std::string path =
      (std::filesystem::path(::testing::TempDir()) / concat("temper_copies_", getpid(), ".plan")).string();
  save_engine(*build(running_sum(), "cuda:0", false, {{"x", {{1, 5}, {2, 5}, {9, 5}}}}), path);
  temper_engine* engine = nullptr;
  ASSERT_EQ(temper_engine_load(path.c_str(), &engine), TEMPER_OK) << temper_last_error();
  std::filesystem::remove(path);
  temper_session* session = nullptr;
  ASSERT_EQ(temper_session_create(engine, &session), TEMPER_OK);
  Session other(build(running_sum(), "cuda:0", false, {{"x", {{1, 5}, {2, 5}, {9, 5}}}}));
  const auto memory = other.allocate_resident(120);
  auto* const there = static_cast<char*>(memory.get());
  const Tensor x = noise({3, 5}, 1);
  const int64_t dims[] = {3, 5};
  std::vector<float> back(15);
  ASSERT_EQ(temper_session_copy(session, there, x.raw().data(), 60, TEMPER_TO_DEVICE), TEMPER_OK)
      << temper_last_error();
  ASSERT_EQ(temper_session_copy(session, there + 60, there, 60, TEMPER_ON_DEVICE), TEMPER_OK) << temper_last_error();
  ASSERT_EQ(temper_session_copy(session, back.data(), there + 60, 60, TEMPER_TO_HOST), TEMPER_OK)
      << temper_last_error();
  EXPECT_EQ(std::memcmp(back.data(), x.raw().data(), 60), 0);
  // What a run left on the GPU stays the run's output.
  const temper_tensor input{TEMPER_F32, 2, dims, there};
  ASSERT_EQ(temper_session_run_on_device(session, &input, 1), TEMPER_OK) << temper_last_error();
  temper_tensor output;
  ASSERT_EQ(temper_session_output(session, 0, &output), TEMPER_OK);
  ASSERT_EQ(temper_session_copy(session, back.data(), output.data, 60, TEMPER_TO_HOST), TEMPER_OK);
  temper_tensor again;
  ASSERT_EQ(temper_session_output(session, 0, &again), TEMPER_OK) << temper_last_error();
  EXPECT_EQ(again.data, output.data);
  const temper_tensor host{TEMPER_F32, 2, dims, x.raw().data()};
  ASSERT_EQ(temper_session_run(session, &host, 1), TEMPER_OK) << temper_last_error();
  ASSERT_EQ(temper_session_output(session, 0, &output), TEMPER_OK);
  EXPECT_EQ(std::memcmp(back.data(), output.data, 60), 0);
  EXPECT_EQ(temper_session_copy(session, there, back.data(), 60, temper_copy_direction(7)), TEMPER_USAGE);
  EXPECT_NE(std::string(temper_last_error()).find("no direction 7"), std::string::npos) << temper_last_error();
  ASSERT_EQ(temper_session_enqueue(session, &host, 1, nullptr, 0), TEMPER_OK) << temper_last_error();
  EXPECT_EQ(temper_session_copy(session, there, back.data(), 60, TEMPER_TO_DEVICE), TEMPER_USAGE)
      << "a run is on its way";
  EXPECT_EQ(temper_session_wait(session), TEMPER_OK) << temper_last_error();
  temper_session_free(session);
  temper_engine_free(engine);
}

TEST_F(CudaScripted, AnEnqueuedRunReadsPinnedMemoryAndWritesWhenItIsWaitedFor) {
  const std::string path =
      (std::filesystem::path(::testing::TempDir()) / concat("temper_enqueued_", getpid(), ".plan")).string();
  save_engine(*build(running_sum(), "cuda:0", false, {{"x", {{1, 5}, {2, 5}, {9, 5}}}}), path);
  temper_load_options options = {};
  options.device = "cuda:1";
  temper_engine* engine = nullptr;
  ASSERT_EQ(temper_engine_load_with(path.c_str(), &options, &engine), TEMPER_OK) << temper_last_error();
  std::filesystem::remove(path);
  temper_engine_info info;
  ASSERT_EQ(temper_engine_read_info(engine, &info), TEMPER_OK);
  EXPECT_STREQ(info.device, "cuda:1");
  temper_session* session = nullptr;
  ASSERT_EQ(temper_session_create(engine, &session), TEMPER_OK);
  const Tensor x = noise({3, 5}, 1);
  const int64_t dims[] = {3, 5};
  temper_tensor input{TEMPER_F32, 2, dims, x.raw().data()}, view;
  ASSERT_EQ(temper_session_run(session, &input, 1), TEMPER_OK) << temper_last_error();
  ASSERT_EQ(temper_session_output(session, 0, &view), TEMPER_OK);
  const std::vector<float> want(static_cast<const float*>(view.data), static_cast<const float*>(view.data) + 15);
  void* pinned = nullptr;
  ASSERT_EQ(temper_session_input(session, 0, &pinned), TEMPER_OK) << temper_last_error();
  for (int i = 0; i < 2; ++i) {
    std::memcpy(pinned, x.raw().data(), size_t(x.bytes()));
    input.data = i ? pinned : x.raw().data();
    std::vector<float> result(15, -1);
    const temper_tensor output{TEMPER_F32, 2, dims, result.data()};
    ASSERT_EQ(temper_session_enqueue(session, &input, 1, &output, 1), TEMPER_OK) << temper_last_error();
    EXPECT_EQ(result[0], -1) << "nobody waited";
    EXPECT_EQ(temper_session_run(session, &input, 1), TEMPER_USAGE);
    ASSERT_EQ(temper_session_wait(session), TEMPER_OK) << temper_last_error();
    EXPECT_EQ(result, want) << i;
  }
  // Whoever goes without waiting leaves nothing that runs.
  ASSERT_EQ(temper_session_enqueue(session, &input, 1, nullptr, 0), TEMPER_OK) << temper_last_error();
  temper_session_free(session);
  temper_engine_free(engine);
}

// A stream of the caller's, and the memory that it reads and writes.
struct Callers {
  explicit Callers(Session& session) : memory(session.allocate_resident(1024)) { api.stream_create(&stream, 0); }
  ~Callers() { api.stream_destroy(stream); }
  float* at(int64_t byte) const { return reinterpret_cast<float*>(static_cast<std::byte*>(memory.get()) + byte); }
  cuda::DriverApi api = ScriptedGpus::api();
  cuda::StreamHandle stream = nullptr;
  std::shared_ptr<void> memory;
};

TEST_F(CudaScripted, ARunInTheCallersStreamIsInItsOrderAndNobodyWaits) {
  const auto engine = build(running_sum(), "cuda:0", false, {{"x", {{1, 5}, {2, 5}, {9, 5}}}});
  Session session(engine);
  const Tensor x = noise({2, 5}, 1), want = session.run({x})[0];
  Callers callers(session);
  const void* const own = session.stream();
  std::memcpy(callers.at(0), x.raw().data(), 40);
  const void* const inputs[] = {callers.at(0)};
  for (int round = 0; round < 3; ++round) {  // copied, then where they lie
    void* const outputs[] = {callers.at(512)};
    std::memset(outputs[0], 0, 40);
    gpus.order.clear();
    EXPECT_EQ(session.run_resident(inputs, outputs, callers.stream)[0], outputs[0]);
    EXPECT_EQ(std::memcmp(outputs[0], want.raw().data(), 40), 0) << round;
    using Order = std::vector<std::pair<std::string, const void*>>;
    // A graph of our own may be recorded first; what runs is between the two.
    const auto begin = std::find(gpus.order.begin(), gpus.order.end(), Order::value_type("record", callers.stream));
    ASSERT_GE(gpus.order.end() - begin, 5) << round;
    EXPECT_EQ(begin[1], (Order::value_type("wait", own))) << round;
    EXPECT_EQ(Order(gpus.order.end() - 2, gpus.order.end()), (Order{{"record", own}, {"wait", callers.stream}}))
        << round;
    for (const auto& [what, stream] : gpus.order) EXPECT_NE(what, "synchronize") << round;
  }
  EXPECT_EQ(session.run({x})[0].raw().size(), want.raw().size());
}

TEST_F(CudaScripted, ARunInACapturedStreamBecomesPartOfTheCallersGraph) {
  const auto engine = build(running_sum(), "cuda:0", false, {{"x", {{1, 5}, {2, 5}, {9, 5}}}});
  Session session(engine);
  const Tensor x = noise({2, 5}, 1), y = noise({2, 5}, 2), of_x = session.run({x})[0], of_y = session.run({y})[0];
  Callers callers(session);
  for (int64_t offset : {0, 4}) {  // where they lie, and copied: kernels were chosen for aligned addresses
    const void* const inputs[] = {callers.at(offset)};
    void* const outputs[] = {callers.at(512 + offset)};
    std::memcpy(callers.at(offset), x.raw().data(), 40);
    std::memset(outputs[0], 0, 40);
    const int64_t recorded = gpus.graphs_recorded;
    gpus.launches.clear();
    ASSERT_EQ(ScriptedGpus::begin_capture(callers.stream), 0);
    session.run_resident(inputs, outputs, callers.stream);
    EXPECT_TRUE(gpus.launches.empty()) << "nothing runs while a graph is recorded";
    cuda::GraphHandle graph = nullptr;
    ASSERT_EQ(ScriptedGpus::end_capture(callers.stream, &graph), 0);
    EXPECT_EQ(gpus.graphs_recorded, recorded + 1) << "the caller's alone";
    cuda::GraphExecHandle exec = nullptr;
    ASSERT_EQ(callers.api.graph_instantiate(&exec, graph, 0), 0);
    for (const auto& [given, want] : {std::pair{&x, &of_x}, {&y, &of_y}}) {
      std::memcpy(callers.at(offset), given->raw().data(), 40);
      ASSERT_EQ(callers.api.graph_launch(exec, callers.stream), 0);
      EXPECT_EQ(std::memcmp(outputs[0], want->raw().data(), 40), 0) << offset;
    }
    callers.api.graph_exec_destroy(exec);
    callers.api.graph_destroy(graph);
  }
  Session fresh(engine);
  fresh.prepare({{2, 5}});
  const void* const inputs[] = {callers.at(0)};
  ASSERT_EQ(ScriptedGpus::begin_capture(callers.stream), 0);
  try {
    fresh.run_resident(inputs, {}, callers.stream);
    ADD_FAILURE() << "it would have to find its buffers within the capture";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(error.what()).find("run it once"), std::string::npos) << error.what();
  }
  cuda::GraphHandle graph = nullptr;
  ScriptedGpus::end_capture(callers.stream, &graph);
  callers.api.graph_destroy(graph);
}

TEST_F(CudaScripted, EveryCallMayFailWhileRunsAreInTheCallersStream) {
  const auto engine = build(running_sum(), "cuda:0", false, {{"x", {{1, 5}, {2, 5}, {9, 5}}}});
  engine->plan_for({{2, 5}});
  fail_each(
      gpus,
      [&] {
        Session session(engine);
        session.prepare({{2, 5}});
        Callers callers(session);
        const void* const inputs[] = {callers.at(0)};
        void* const outputs[] = {callers.at(512)};
        for (int i = 0; i < 2; ++i) session.run_resident(inputs, outputs, callers.stream);
        session.run_resident(inputs, outputs);  // waits: the end of a session tells nobody
      },
      3);
}

TEST_F(CudaScripted, WorksInAContextOfTheCallersWhichStaysTheirs) {
  cuda::DriverApi api = ScriptedGpus::api();
  const auto driver = cuda::Driver::scripted(ScriptedGpus::api());
  cuda::ContextHandle theirs = nullptr, of_another = nullptr;
  api.primary_retain(&theirs, 0);
  api.primary_retain(&of_another, 1);
  {
    const auto machine = std::make_shared<const cuda::Machine>(driver, 0, testing::cuda_search(), theirs);
    cuda::Machine::put_in_place(0, machine, theirs);
    DeviceSettings settings;
    settings.cuda_context = theirs;
    EXPECT_EQ(open_device("cuda:0", settings).gpu, machine);
    EXPECT_NE(open_device("cuda:0").gpu, machine) << "its primary context is another machine";
    const Tensor file = file_bytes(*build(running_sum(), "cuda:0", false, {{"x", {{1, 5}, {2, 5}, {9, 5}}}}));
    const auto engine = Engine::from_bytes(file.raw(), settings);
    EXPECT_EQ(engine->device().gpu, machine);
    EXPECT_EQ(Session(engine).run({noise({2, 5}, 1)})[0].dims(), (Dims{2, 5}));
    try {
      cuda::Machine(driver, 0, testing::cuda_search(), of_another);
      ADD_FAILURE() << "a context of GPU 1 was taken for GPU 0";
    } catch (const Error& error) { EXPECT_EQ(error.kind(), ErrorKind::usage); }
  }
  EXPECT_EQ(api.context_set_current(theirs), 0) << "it was not released";
  machines.reset();
  api.primary_release(1);
  api.primary_release(0);
}

TEST_F(CudaScripted, OutOfMemorySaysWhatIsNeededAndWhatIsFree) {
  const auto engine = build(small_graph("n"), "cuda:0", false, {{"x", {{1, 3, 8, 8}, {4, 3, 8, 8}, {4096, 3, 8, 8}}}});
  gpus.memory_bytes = gpus.used_bytes(0) + (int64_t(4) << 20);
  Session session(engine);
  session.run({noise({4, 3, 8, 8}, 1)});
  try {
    session.run({noise({4096, 3, 8, 8}, 1)});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::machine);
    const std::string text = error.what();
    for (const char* part : {"MiB", "free", "for inputs [4096,3,8,8]", "smaller batch"})
      EXPECT_NE(text.find(part), std::string::npos) << part << " is missing in: " << text;
  }
  session.run({noise({4, 3, 8, 8}, 1)});
}

TEST_F(CudaScripted, ALostGpuIsATypedErrorAndAnotherWorksOn) {
  const Tensor other = file_bytes(*build(small_graph("2"), "cuda:1")), file = file_bytes(*build(small_graph("2")));
  for (int64_t n = 1; n < 5000; n += 1 + n / 20) {
    machines.reset();
    gpus.reset();
    machines = std::make_unique<ScriptedMachines>();
    bool threw = false;
    {
      gpus.lost_at = gpus.calls + n;
      try {
        const auto engine = std::make_shared<const Engine>(read_plan(file.raw(), nullptr));
        Session session(engine);
        session.run({noise({2, 3, 8, 8}, 1)});
        try {
          session.run({noise({2, 3, 8, 8}, 1)});
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::machine) << error.what();
          EXPECT_THROW(session.run({noise({2, 3, 8, 8}, 1)}), Error);
          throw;
        }
      } catch (const Error& error) {
        threw = true;
        EXPECT_EQ(error.kind(), ErrorKind::machine) << error.what();
      }
    }
    Session(std::make_shared<const Engine>(read_plan(other.raw(), nullptr))).run({noise({2, 3, 8, 8}, 1)});
    if (!threw) break;
  }
}

// Where the cubins of a plan's bundles lie in the file: the place of each entry of their tables.
std::vector<size_t> cubin_entries(const Tensor& file) {
  const std::string_view bytes(reinterpret_cast<const char*>(file.raw().data()), size_t(file.bytes()));
  std::vector<size_t> entries;
  for (size_t at = bytes.find("cubins02"); at != bytes.npos; at = bytes.find("cubins02", at + 1)) {
    uint64_t jobs = 0;
    std::memcpy(&jobs, bytes.data() + at + 8, sizeof jobs);
    for (uint64_t j = 0; j < jobs; ++j) entries.push_back(at + 48 + j * 24);
  }
  return entries;
}

// The hashes of the plan are right: what a cubin holds is checked where it is loaded, and the driver is not asked.
TEST_F(CudaScripted, CubinsThatWereChangedInARehashedPlanAreRefused) {
  const Tensor good = file_bytes(*build(small_graph("2")));
  const auto entries = cubin_entries(good);
  ASSERT_GE(entries.size(), 2u);
  struct Entry {
    uint64_t text_hash, at, bytes;
  };
  const auto entry_of = [&](size_t place) {
    Entry entry;
    std::memcpy(&entry, good.raw().data() + place, sizeof entry);
    return entry;
  };
  const auto bundle_of = [&](size_t place) {  // where offsets of an entry count from
    const std::string_view bytes(reinterpret_cast<const char*>(good.raw().data()), place);
    return bytes.rfind("cubins02");
  };
  const auto refused = [&](const char* what, const std::function<void(std::byte * file)>& change) {
    Tensor file(DType::u8, {good.bytes()});
    std::memcpy(file.raw_mutable(), good.raw().data(), size_t(good.bytes()));
    change(file.raw_mutable());
    seal_container({file.raw_mutable(), size_t(file.bytes())});
    const auto [kind, message] = refusal(file.raw());
    EXPECT_EQ(kind, ErrorKind::bad_file) << what << ": " << message;
    return message;
  };
  for (size_t place : entries) {
    const Entry entry = entry_of(place);
    const size_t cubin = bundle_of(place) + entry.at;
    for (const uint64_t bytes : {uint64_t(0), uint64_t(40), uint64_t(64), entry.bytes / 2, entry.bytes - 1})
      refused("cut", [&](std::byte* file) {
        Entry cut = entry;
        cut.bytes = bytes;
        std::memcpy(file + place, &cut, sizeof cut);
      });
    for (const uint64_t far : {entry.bytes, uint64_t(good.bytes()), uint64_t(1) << 40, ~uint64_t(0) - 4096})
      EXPECT_NE(
          refused("a table of sections behind the end",
                  [&](std::byte* file) { std::memcpy(file + cubin + offsetof(Elf64_Ehdr, e_shoff), &far, sizeof far); })
              .find("table"),
          std::string::npos);
  }
  // Another kernel's, with the hash of the right text: the driver finds no kernel of that name in it.
  int others = 0;
  for (size_t place : entries) {
    const Entry entry = entry_of(place);
    for (size_t other : entries) {
      const Entry from = entry_of(other);
      if (from.text_hash == entry.text_hash || from.bytes > entry.bytes) continue;
      const std::string_view a(reinterpret_cast<const char*>(good.raw().data()) + bundle_of(place) + entry.at,
                               entry.bytes);
      const std::string_view b(reinterpret_cast<const char*>(good.raw().data()) + bundle_of(other) + from.at,
                               from.bytes);
      const auto kernel = [](std::string_view code) {
        const auto at = code.find(".text.");
        return at == code.npos ? code : code.substr(at, code.find('\0', at) - at);
      };
      if (kernel(a) == kernel(b)) continue;  // of the same name: it would be run
      ++others;
      refused("another kernel's", [&](std::byte* file) {
        std::memcpy(file + bundle_of(place) + entry.at, b.data(), b.size());
        Entry changed = entry;
        changed.bytes = from.bytes;
        std::memcpy(file + place, &changed, sizeof changed);
      });
    }
  }
  EXPECT_GT(others, 0);
}

TEST_F(CudaScripted, APlanForAnotherGpuIsRefusedWithTheCommandThatBuildsItAgain) {
  const Tensor file = file_bytes(*build(tiny_graph()));
  gpus.gpu_name = "Scripted H200";
  machines = std::make_unique<ScriptedMachines>();
  const auto [kind, message] = refusal(file.raw());
  EXPECT_EQ(kind, ErrorKind::unsupported);
  for (const char* part : {"Scripted H100", "Scripted H200", "temper build small.onnx -o small.plan"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST_F(CudaScripted, ADriverThatIsTooOldIsRefusedByItsVersionWhenKernelsAreCompiled) {
  gpus.driver_version = 11080;
  machines = std::make_unique<ScriptedMachines>();
  try {
    build(tiny_graph());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    for (const char* part : {"11.8", "NVRTC", "update the driver"})
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace temper
