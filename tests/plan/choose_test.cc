// SPDX-License-Identifier: Apache-2.0
#include "plan/choose.h"

#include <gtest/gtest.h>

#include "helpers.h"

namespace temper {
namespace {

struct NoKernel final : Kernel {
  void launch(const Buffers&) override {}
};
Tactic tactic(std::string_view name) {
  Tactic t{};
  t.name = name;
  t.version = 1;
  t.supports = [](const Problem&, const Device&) { return supported(); };
  t.configs = [](const Problem& problem, const Device&) {
    return std::vector<Config>{{"", std::vector<Layout>(problem.inputs.size()), {Layout::plain}}};
  };
  t.load = [](const Problem&, const Config&, const PackedView&, const Device&) -> std::unique_ptr<Kernel> {
    return std::make_unique<NoKernel>();
  };
  return t;
}
const Tactic quick = tactic("fake.quick"), slow = tactic("fake.slow"), large = tactic("fake.large"),
             hopeless = tactic("fake.hopeless"), untimed = tactic("fake.untimed");
const Tactic* const fakes[] = {&hopeless, &untimed, &large, &slow, &quick};
const Backend fake{"fake", nullptr, [] { return std::span<const Tactic* const>(fakes); }, nullptr, nullptr, nullptr};

using Kind = CandidateTime::Kind;
struct Times : TimeSource {
  CandidateTime time(const Problem&, const Tactic& tactic, const Config&, int) override {
    if (&tactic == &large) return {Kind::over_workspace};
    if (&tactic == &hopeless) return {Kind::hopeless};
    if (&tactic == &untimed) return {};
    return CandidateTime::of(&tactic == &quick ? 1 : 2);
  }
};

class Choose : public ::testing::Test {
 protected:
  PlanOptions options;
  PlanStep step(TimeSource& times) {
    options.times = &times;
    const Graph graph =
        parse_graph("graph \"g\"\ninput %x: f32[2,8]\n%a: f32[2,8] = softmax(%x) axis=1\noutput \"y\" = %a\n");
    return step_of(build_plan(graph, fake, Device{.backend = "fake", .fingerprint = "fake"}, options), "a");
  }
  static Candidate loser(const PlanStep& step, std::string_view tactic) {
    for (const Candidate& candidate : step.losers)
      if (candidate.tactic == tactic) return candidate;
    return {"none", "", -1, "none"};
  }
};

TEST_F(Choose, ACandidateWithoutATimeIsRefusedForTheReasonThatItHas) {
  Times times;
  options.workspace_limit = 4096;
  const PlanStep chosen = step(times);
  EXPECT_EQ(chosen.tactic, "fake.quick");
  EXPECT_EQ(loser(chosen, "fake.slow").refusal, "");
  EXPECT_EQ(loser(chosen, "fake.slow").ms, 2);
  EXPECT_EQ(loser(chosen, "fake.large").refusal, "needs more than the 4096 bytes of workspace allowed");
  EXPECT_EQ(loser(chosen, "fake.hopeless").refusal, "not timed: too slow for this op on another batch");
  EXPECT_EQ(loser(chosen, "fake.untimed").refusal, "");
  EXPECT_LT(loser(chosen, "fake.untimed").ms, 0);
}

// It runs between two graphs, which costs more than the 3 us that it is faster by; 8 us are worth it.
TEST_F(Choose, AKernelOfAnotherLibraryMustWinBackWhatLeavingTheGraphCosts) {
  static Tactic foreign = tactic("fake.foreign");
  foreign.foreign = true;
  static const Tactic* const tactics[] = {&foreign, &slow};
  const Backend backend{"fake",  nullptr, [] { return std::span<const Tactic* const>(tactics); },
                        nullptr, nullptr, nullptr};
  struct Won final : TimeSource {
    double by;
    CandidateTime time(const Problem&, const Tactic& tactic, const Config&, int) override {
      return CandidateTime::of(tactic.foreign ? 0.02 - by : 0.02);
    }
  } times;
  options.times = &times;
  const Graph graph =
      parse_graph("graph \"g\"\ninput %x: f32[2,8]\n%a: f32[2,8] = softmax(%x) axis=1\noutput \"y\" = %a\n");
  for (const auto& [by, name] : {std::pair(0.003, "fake.slow"), std::pair(0.008, "fake.foreign")}) {
    times.by = by;
    const PlanStep chosen =
        step_of(build_plan(graph, backend, {.backend = "fake", .fingerprint = "fake"}, options), "a");
    EXPECT_EQ(chosen.tactic, name);
    EXPECT_DOUBLE_EQ(chosen.ms, name == std::string_view("fake.slow") ? 0.02 : 0.012);  // as it was timed
  }
}

// The model says 100, 240, 260 of three configurations in plain layouts, and nothing of another tactic.
TEST_F(Choose, WhatAModelExpectsToTakeLongIsNotTimedUnlessItsLayoutsHaveNothingElse) {
  static Tactic modelled = tactic("fake.modelled");
  modelled.configs = [](const Problem&, const Device&) {
    return std::vector<Config>{{"100", {Layout::plain}, {Layout::plain}},
                               {"240", {Layout::plain}, {Layout::plain}},
                               {"260", {Layout::plain}, {Layout::plain}},
                               {"900", {Layout::channels_last}, {Layout::plain}}};
  };
  modelled.expected = [](const Problem&, const Config& config, const Device&) { return std::stod(config.text); };
  modelled.compile = [](const Problem&, const Config&, const Device&) {};
  static const Tactic* const tactics[] = {&modelled, &slow};
  const Backend backend{"fake",  nullptr, [] { return std::span<const Tactic* const>(tactics); },
                        nullptr, nullptr, nullptr};
  struct Noted final : TimeSource {
    std::vector<std::string> asked;
    CandidateTime time(const Problem&, const Tactic&, const Config& config, int) override {
      asked.push_back(config.text);
      return CandidateTime::of(config.text == "240" ? 1 : 2);
    }
  } times;
  options.times = &times;
  const Device device{.backend = "fake", .fingerprint = "fake"};
  const Graph graph =
      parse_graph("graph \"g\"\ninput %x: f32[2,8]\n%a: f32[2,8] = softmax(%x) axis=1\noutput \"y\" = %a\n");
  const PlanStep chosen = step_of(build_plan(graph, backend, device, options), "a");
  EXPECT_EQ(times.asked, (std::vector<std::string>{"100", "240", "900", ""}));
  EXPECT_EQ(chosen.config.text, "240");
  std::vector<std::string> refused;
  for (const Candidate& loser : chosen.losers)
    if (!loser.refusal.empty()) refused.push_back(loser.config + ": " + loser.refusal);
  EXPECT_EQ(refused,
            std::vector<std::string>{"260 plain -> plain: not timed: expected to take 2.6 times as long as the best"});
  std::vector<std::string> compiled;
  visit_compilable(graph, backend, device, [&](const std::vector<CandidateRef>& candidates) {
    for (const CandidateRef& candidate : candidates) compiled.push_back(candidate.config.text);
  });
  EXPECT_EQ(compiled, (std::vector<std::string>{"100", "240", "900"}));
  // The best may need more than there is.
  options.workspace_limit = 4096;
  times.asked.clear();
  build_plan(graph, backend, device, options);
  EXPECT_EQ(times.asked, (std::vector<std::string>{"100", "240", "260", "900", ""}));
}

TEST_F(Choose, WithoutALimitWhatIsHopelessIsTakenOnlyForWantOfOthersAndSaysSo) {
  Times times;
  const PlanStep chosen = step(times);
  EXPECT_EQ(chosen.tactic, "fake.quick");
  EXPECT_EQ(loser(chosen, "fake.hopeless").refusal, "not timed: too slow for this op on another batch");
  struct NoOther final : TimeSource {
    CandidateTime time(const Problem&, const Tactic& tactic, const Config&, int) override {
      return {&tactic == &hopeless ? Kind::hopeless : Kind::over_workspace};
    }
  } no_other;
  EXPECT_EQ(step(no_other).tactic, "fake.hopeless");
}

// A GPU's asks the CPU, which may take longer to say than all kernels of the GPU together.
TEST_F(Choose, ALastResortIsAskedOnlyWhereThereIsNothingElse) {
  static int asked;
  static Tactic last = tactic("fake.last");
  last.last_resort = true;
  last.supports = [](const Problem&, const Device&) {
    ++asked;
    return asked < 3 ? supported() : refused("not even so");
  };
  static bool has_kernel;
  static Tactic kernel = tactic("fake.kernel");
  kernel.supports = [](const Problem&, const Device&) { return has_kernel ? supported() : refused("no kernel"); };
  static const Tactic* const tactics[] = {&last, &kernel};
  const Backend backend{"fake",  nullptr, [] { return std::span<const Tactic* const>(tactics); },
                        nullptr, nullptr, nullptr};
  const Graph graph =
      parse_graph("graph \"g\"\ninput %x: f32[2,8]\n%a: f32[2,8] = softmax(%x) axis=1\noutput \"y\" = %a\n");
  const Device device{.backend = "fake", .fingerprint = "fake"};
  const auto built = [&] { return step_of(build_plan(graph, backend, device, options), "a"); };
  asked = 0, has_kernel = true;
  EXPECT_EQ(built().tactic, "fake.kernel");
  EXPECT_EQ(asked, 0);
  has_kernel = false;
  const PlanStep taken = built();
  EXPECT_EQ(taken.tactic, "fake.last");
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(loser(taken, "fake.kernel").refusal, "no kernel");
  asked = 2;
  EXPECT_THROW(built(), Error);
}

TEST_F(Choose, WhatFaultedSaysWhatHappened) {
  struct Faulted final : Times {
    std::string fault(const Problem&, const Tactic& tactic, const Config&) override {
      return &tactic == &quick ? "an illegal address" : "";
    }
  } times;
  const PlanStep chosen = step(times);
  EXPECT_EQ(chosen.tactic, "fake.slow");
  EXPECT_EQ(loser(chosen, "fake.quick").refusal, "faulted on this GPU: an illegal address");
}

}  // namespace
}  // namespace temper
