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

CandidateTime time_of(const Problem&, const Tactic& tactic, const Config&, int) {
  using Kind = CandidateTime::Kind;
  if (&tactic == &large) return {Kind::over_workspace};
  if (&tactic == &hopeless) return {Kind::hopeless};
  if (&tactic == &untimed) return {};
  return CandidateTime::of(&tactic == &quick ? 1 : 2);
}

class Choose : public ::testing::Test {
 protected:
  PlanOptions options;
  PlanStep step() const {
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
  options.time = time_of;
  options.workspace_limit = 4096;
  const PlanStep chosen = step();
  EXPECT_EQ(chosen.tactic, "fake.quick");
  EXPECT_EQ(loser(chosen, "fake.slow").refusal, "");
  EXPECT_EQ(loser(chosen, "fake.slow").ms, 2);
  EXPECT_EQ(loser(chosen, "fake.large").refusal, "needs more than the 4096 bytes of workspace allowed");
  EXPECT_EQ(loser(chosen, "fake.hopeless").refusal, "not timed: too slow for this op on another shape");
  EXPECT_EQ(loser(chosen, "fake.untimed").refusal, "");
  EXPECT_LT(loser(chosen, "fake.untimed").ms, 0);
}

TEST_F(Choose, WithoutALimitWhatIsHopelessIsTakenOnlyForWantOfOthersAndSaysSo) {
  options.time = time_of;
  const PlanStep chosen = step();
  EXPECT_EQ(chosen.tactic, "fake.quick");
  EXPECT_EQ(loser(chosen, "fake.hopeless").refusal, "not timed: too slow for this op on another shape");
  options.time = [](const Problem&, const Tactic& tactic, const Config&, int) -> CandidateTime {
    return {&tactic == &hopeless ? CandidateTime::Kind::hopeless : CandidateTime::Kind::over_workspace};
  };
  EXPECT_EQ(step().tactic, "fake.hopeless");
}

TEST_F(Choose, WhatFaultedSaysWhatHappened) {
  options.time = time_of;
  options.fault = [](const Problem&, const Tactic& tactic, const Config&) {
    return std::string(&tactic == &quick ? "an illegal address" : "");
  };
  const PlanStep chosen = step();
  EXPECT_EQ(chosen.tactic, "fake.slow");
  EXPECT_EQ(loser(chosen, "fake.quick").refusal, "faulted on this GPU: an illegal address");
}

}  // namespace
}  // namespace temper
