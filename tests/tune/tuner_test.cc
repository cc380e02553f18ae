// SPDX-License-Identifier: Apache-2.0
#include "tune/tuner.h"

#include <gtest/gtest.h>

#include "backends/timing_text.h"
#include "base/subnormals.h"
#include "fake_machine.h"
#include "graph/ops/fused_decode.h"
#include "graph/ops/pointwise.h"

namespace temper {
namespace {

std::string launched;  // a letter a launch

struct Letter final : Kernel {
  char letter;
  explicit Letter(char which) : letter(which) {}
  void launch(const Buffers&) override { launched += letter; }
};
template <char letter>
std::unique_ptr<Kernel> load_letter(const Problem&, const Config&, const PackedView&, const Device&) {
  return std::make_unique<Letter>(letter);
}
template <char letter>
Tactic tactic(std::string_view name) {
  Tactic t{};
  t.name = name;
  t.version = 1;
  t.load = load_letter<letter>;
  return t;
}
const Tactic kA = tactic<'a'>("test.a"), kB = tactic<'b'>("test.b");

Problem small_problem() {
  Problem problem;
  ops::Pointwise neg;
  neg.program.push({Scalar::neg, DType::f32, {0, -1, -1}});
  problem.op = neg;
  Port port;
  port.type = {DType::f32, {4, 4}};
  problem.inputs = problem.outputs = {port};
  return problem;
}
const Config kConfig{"", {Layout::plain}, {Layout::plain}};

class TunerTest : public ::testing::Test {
 protected:
  const Device device = open_device("cpu");
  const Problem problem = small_problem();
  FakeMachine machine;
  TimingCache cache;
  double time(Tuner& tuner, const Tactic& tactic) { return tuner.time(problem, tactic, kConfig, 1).ms; }
};

TEST_F(TunerTest, ContendersAreTimedInTurnsNotOneAfterTheOther) {
  Tuner tuner(device, cache, machine.instruments());
  time(tuner, kA);
  time(tuner, kB);
  launched.clear();
  tuner.refine(problem, {{&problem, &kA, kConfig}, {&problem, &kB, kConfig}}, 1);
  launched.erase(std::unique(launched.begin(), launched.end()), launched.end());
  EXPECT_EQ(launched, "ababab");
}

SubnormalMode mode_of_launch = 0;
struct Looking final : Kernel {
  void launch(const Buffers&) override { mode_of_launch = subnormal_mode(); }
};

// Or a kernel would be judged by weights that cost it a hundred times what they cost in a plan.
TEST_F(TunerTest, KernelsAreTimedWithSubnormalsAsTheDevicesPlansHaveThem) {
  Tactic looking = kA;
  looking.load = [](const Problem&, const Config&, const PackedView&, const Device&) -> std::unique_ptr<Kernel> {
    return std::make_unique<Looking>();
  };
  Tuner tuner(device, cache, machine.instruments());
  time(tuner, looking);
  EXPECT_EQ(mode_of_launch, kSubnormalsAreZero);
  EXPECT_EQ(subnormal_mode(), SubnormalMode(0));
}

int constants_at_load = 0;

// Or large weights would be packed twice for each candidate, which took longer than its launches.
TEST_F(TunerTest, WhatACandidateHasPackedIsNoConstantWhenItIsLoaded) {
  const Tensor weights(DType::f32, {4, 4}), kept(DType::f32, {4, 4});
  Problem whole = problem;
  for (const Tensor* constant : {&weights, &kept}) {
    whole.inputs.push_back(whole.inputs[0]);
    whole.inputs.back().is_constant = true;
    whole.inputs.back().constant = constant;
  }
  Tactic packing = kA;
  packing.build = [](const Problem&, const Config&, const Device&) {
    Packed packed;
    packed.consumed = {false, true, false};
    return packed;
  };
  packing.load = [](const Problem& given, const Config&, const PackedView&, const Device&) -> std::unique_ptr<Kernel> {
    constants_at_load = 0;
    for (const Port& port : given.inputs) constants_at_load += port.constant != nullptr;
    EXPECT_EQ(given.inputs[1].constant, nullptr);
    return std::make_unique<Letter>('p');
  };
  Tuner tuner(device, cache, machine.instruments());
  tuner.time(whole, packing, {"", {Layout::plain, Layout::plain, Layout::plain}, {Layout::plain}}, 1);
  EXPECT_EQ(constants_at_load, 1);
}

std::vector<bool> grown_in_place;  // each cache of the launch
struct Growing final : Kernel {
  void launch(const Buffers& buffers) override {
    grown_in_place = {buffers.inputs[1] == buffers.outputs[1], buffers.inputs[3] == buffers.outputs[2],
                      buffers.inputs[0] == buffers.outputs[0]};
  }
};

// Or what is timed is mostly a copy, which plans that generate do not make.
TEST_F(TunerTest, CachesAreTimedAsTheyGrowWhereTheyLie) {
  Problem appending;
  appending.op = ops::AppendingAttention();
  const auto port = [](DType dtype, Shape shape) {
    Port one;
    one.type = {dtype, std::move(shape)};
    return one;
  };
  const Port row = port(DType::f32, {2, 1, 8}), kept = port(DType::f32, {2, 16, 8});
  appending.inputs = {row, kept, row, kept, row, port(DType::i64, {2})};
  appending.outputs = {row, kept, kept};
  Tactic growing = kA;
  growing.load = [](const Problem&, const Config&, const PackedView&, const Device&) -> std::unique_ptr<Kernel> {
    return std::make_unique<Growing>();
  };
  Tuner tuner(device, cache, machine.instruments());
  const Config config{"", std::vector<Layout>(6, Layout::plain), std::vector<Layout>(3, Layout::plain)};
  EXPECT_TRUE(tuner.time(appending, growing, config, 1).is_known());
  EXPECT_EQ(grown_in_place, (std::vector<bool>{true, true, false}));
}

TEST_F(TunerTest, ATimeTakenUnderLoadIsTakenAgainOnAQuietMachineAndKeptOnABusyOne) {
  machine.others = 1;
  {
    Tuner tuner(device, cache, machine.instruments());
    machine.call_ms = 7;
    EXPECT_EQ(time(tuner, kA), 7);
    machine.wait(600);
    tuner.finish();
    EXPECT_EQ(tuner.suspect(), 1);
    EXPECT_EQ(tuner.most_load(), 1);
  }
  machine.call_ms = 2;
  {
    Tuner busy(device, cache, machine.instruments());
    EXPECT_EQ(time(busy, kA), 7);
    EXPECT_EQ(busy.timed(), 0);
  }
  machine.others = 0;
  {
    Tuner quiet(device, cache, machine.instruments());
    EXPECT_EQ(time(quiet, kA), 2);
    EXPECT_EQ(time(quiet, kA), 2);
    EXPECT_EQ(quiet.timed(), 1);
    machine.wait(600);
    quiet.finish();
    EXPECT_EQ(quiet.suspect(), 0);
  }
  machine.call_ms = 5;
  Tuner later(device, cache, machine.instruments());
  EXPECT_EQ(time(later, kA), 2);
  EXPECT_EQ(later.timed(), 0);
}

// As the layers of a transformer in int8: nothing but the scales is another in each.
TEST_F(TunerTest, ProblemsThatDifferInNumbersAloneAreTimedOnce) {
  const auto scaled = [](double scale) {
    Problem made = small_problem();
    Program program{1, {}};
    Step number{Scalar::constant, DType::f32};
    number.number = scale;
    program.push(number);
    program.push({Scalar::mul, DType::f32, {0, 1, -1}});
    made.op = ops::Pointwise{program};
    return made;
  };
  const Problem first = scaled(0.02), second = scaled(0.5);
  EXPECT_NE(exact_group("a machine", first, 1), exact_group("a machine", second, 1));
  EXPECT_EQ(timing_group("a machine", first, 1), timing_group("a machine", second, 1));
  EXPECT_EQ(without_numbers("(2) 2=constant.f32[0.02] 3=mul.f32(0,2) 4=constant.i8[-3] -> f32[4,4]"),
            "(2) 2=constant.f32[#] 3=mul.f32(0,2) 4=constant.i8[#] -> f32[4,4]");
  Tuner tuner(device, cache, machine.instruments());
  EXPECT_EQ(tuner.time(first, kA, kConfig, 1).ms, tuner.time(second, kA, kConfig, 1).ms);
  EXPECT_EQ(tuner.timed(), 1);
}

TEST_F(TunerTest, ATimeThatIsDoubtedIsTakenAgainOnce) {
  const std::string key = timing_key(timing_group(device.fingerprint, problem, 1), kA, kConfig);
  cache.add(key, 9);
  Tuner tuner(device, cache, machine.instruments());
  EXPECT_EQ(time(tuner, kA), 9);
  tuner.doubt(problem.text());
  machine.call_ms = 3;
  EXPECT_EQ(time(tuner, kA), 3);
  machine.call_ms = 4;
  EXPECT_EQ(time(tuner, kA), 3);
  EXPECT_EQ(tuner.timed(), 1);
}

TEST_F(TunerTest, ACandidateThatIsNotTimedSaysWhy) {
  using Kind = CandidateTime::Kind;
  Tuner tuner(device, cache, machine.instruments());
  Tactic large = tactic<'l'>("test.large");
  large.load = [](const Problem&, const Config&, const PackedView&, const Device&) -> std::unique_ptr<Kernel> {
    struct Large final : Kernel {
      int64_t workspace() const override { return 1 << 10; }
      void launch(const Buffers&) override {}
    };
    return std::make_unique<Large>();
  };
  EXPECT_EQ(tuner.time(problem, large, kConfig, 1, 1000).kind, Kind::over_workspace);
  EXPECT_EQ(tuner.time(problem, large, kConfig, 1, 1024).kind, Kind::known);

  auto timed_as = [&](const Problem& p, const Tactic& t, double ms) {
    machine.call_ms = ms;
    return tuner.time_unless_hopeless("a family", p, t, kConfig, 1).kind;
  };
  EXPECT_EQ(timed_as(problem, kA, 1), Kind::known);
  EXPECT_EQ(timed_as(problem, kB, 1.6), Kind::known);
  Problem other = problem;
  other.inputs[0].type = other.outputs[0].type = {DType::f32, {8, 4}};
  EXPECT_EQ(timed_as(other, kA, 1), Kind::known);
  EXPECT_EQ(timed_as(other, kB, 1), Kind::hopeless);
}

}  // namespace
}  // namespace temper
