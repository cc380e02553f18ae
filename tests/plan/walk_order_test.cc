// SPDX-License-Identifier: Apache-2.0
// Which steps go backwards, for plans that are made up.
#include "plan/walk_order.h"

#include "../data/helpers.h"
#include "graph/ops/pointwise.h"

namespace temper {
namespace {

constexpr int64_t kLarge = 1 << 21, kSmall = 1 << 10;  // elements of 4 bytes

struct Read {
  int64_t at, elements;
};

// A step whose kernel could go either way, which writes a buffer of the arena.
PlanStep step(std::vector<Read> inputs, int64_t output, bool could = true) {
  PlanStep out;
  out.tactic = "any";
  out.backwards = could;
  for (const Read& read : inputs) {
    out.problem.inputs.push_back({type_of(DType::f32, {read.elements})});
    out.inputs.push_back({BufferRef::Kind::local, read.at});
  }
  out.problem.outputs.push_back({type_of(DType::f32, {kLarge})});
  out.outputs.push_back({BufferRef::Kind::local, output});
  return out;
}

std::vector<bool> backwards(std::vector<PlanStep> steps) {
  Plan plan;
  plan.segments.emplace_back().steps = std::move(steps);
  choose_walk_order(plan);
  std::vector<bool> out;
  for (const PlanStep& step : plan.segments[0].steps) out.push_back(step.backwards);
  return out;
}

TEST(WalkOrder, EachStepBeginsWhereTheOneBeforeEnded) {
  EXPECT_EQ(backwards({step({}, 1), step({{1, kLarge}}, 2), step({{2, kLarge}}, 3), step({{3, kLarge}}, 4)}),
            (std::vector<bool>{false, true, false, true}));
}

TEST(WalkOrder, AStepWithOneWayAloneIsReadFromItsEnd) {
  EXPECT_EQ(backwards({step({}, 1), step({{1, kLarge}}, 2), step({{2, kLarge}}, 3, false), step({{3, kLarge}}, 4)}),
            (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(backwards({step({}, 1), step({{1, kLarge}}, 2, false), step({{2, kLarge}}, 3)}),
            (std::vector<bool>{false, false, true}));
}

TEST(WalkOrder, OfSeveralInputsTheLastThatWasWrittenCounts) {
  // A residual from two steps before, and what was made of it.
  EXPECT_EQ(backwards({step({}, 1), step({{1, kLarge}}, 2), step({{1, kLarge}, {2, kLarge}}, 3)}),
            (std::vector<bool>{false, true, false}));
  // A place that is written again is what was written last.
  EXPECT_EQ(
      backwards({step({}, 1), step({{1, kLarge}}, 2), step({{2, kLarge}}, 1), step({{1, kLarge}, {2, kLarge}}, 3)}),
      (std::vector<bool>{false, true, false, true}));
}

TEST(WalkOrder, AConcatThatCopiesNothingIsNoWrite) {
  PlanStep concat = step({{2, kLarge}, {2, kLarge}}, 2, false);
  for (Port& port : concat.problem.inputs) port.in_place = true;
  EXPECT_EQ(backwards({step({}, 1), step({{1, kLarge}}, 2), concat, step({{2, kLarge}}, 3)}),
            (std::vector<bool>{false, true, false, false}));
}

TEST(WalkOrder, SmallInputsAndThoseOfTheGraphSayNothing) {
  EXPECT_EQ(backwards({step({}, 1), step({{1, kSmall}}, 2), step({{7, kLarge}}, 3)}),
            (std::vector<bool>{false, false, false}));
}

}  // namespace
}  // namespace temper
