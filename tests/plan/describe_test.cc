// SPDX-License-Identifier: Apache-2.0
#include "plan/describe.h"

#include <gtest/gtest.h>

#include "graph/ops/fused.h"

namespace temper {
namespace {

PlanFile with_step(Op op, const std::string& node) {
  auto plan = std::make_shared<Plan>();
  plan->segments.emplace_back();
  PlanStep& step = plan->segments[0].steps.emplace_back();
  step.problem.op = std::move(op);
  step.node = node;
  PlanFile file;
  file.plans.push_back(std::move(plan));
  return file;
}

TEST(StepsNamed, FindsConvolutionsThatOneStepComputesByTheNameOfEach) {
  for (const Op& op : {Op(ops::ConvChain{}), Op(ops::ShortcutConv{})}) {
    const PlanFile file = with_step(op, "block/conv3 + block/proj");
    for (const char* node : {"block/conv3", "block/proj", "block/conv3 + block/proj"})
      EXPECT_EQ(steps_named(file, node).size(), 1u) << name_of(op) << ' ' << node;
    for (const char* node : {"block/conv", "proj", "+"}) EXPECT_THROW(steps_named(file, node), Error) << node;
  }
  EXPECT_THROW(steps_named(with_step(ops::Conv{}, "a + b"), "a"), Error) << "the model's own name";
}

}  // namespace
}  // namespace temper
