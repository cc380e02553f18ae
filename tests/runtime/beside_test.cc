// SPDX-License-Identifier: Apache-2.0
#include "runtime/beside.h"

#include <cmath>
#include <cstring>

#include "../plan/helpers.h"

namespace temper {
namespace {

// The plan of `engine` with one bit of a packed constant changed: what a broken kernel looks like.
std::shared_ptr<const Engine> with_wrong_weights(const Graph& graph, const Plan& good, const std::string& node) {
  Plan plan = good;
  const int packed = step_of(good, node).packed;
  EXPECT_GE(packed, 0);
  const Tensor& right = *good.constants[size_t(packed)];
  auto wrong = std::make_shared<Tensor>(right.dtype(), right.dims());
  std::memcpy(wrong->raw_mutable(), right.raw().data(), size_t(right.bytes()));
  reinterpret_cast<float*>(wrong->raw_mutable())[3] += 0.25f;
  plan.constants[size_t(packed)] = wrong;
  return with_plan(Engine(info_of("cpu"), graph, 2), std::move(plan));
}

std::vector<StepDifference> differences_of(const std::shared_ptr<const Engine>& engine,
                                           const Tolerance& tolerance = {}) {
  const std::vector<Tensor> inputs{noise({4, 3, 8, 8}, 9)};
  Session session(engine);
  session.prepare({inputs[0].dims()});
  return run_beside_reference(session, specialize(engine->graph(), bind_shapes(engine->graph(), {inputs[0].dims()})),
                              inputs, tolerance);
}

TEST(RunBesideReference, OnlyTheNodeThatComputesSomethingElseDrifts) {
  for (const std::vector<SegmentSpec>& segments : {std::vector<SegmentSpec>{}, {{0, 1, 1, false}, {2, 5, 2, true}}}) {
    auto engine = std::make_shared<Engine>(info_of("cpu"), small_graph("n"), 2);
    add_plan(engine, {{4, 3, 8, 8}}, segments);
    const auto good = differences_of(engine);
    std::string names;
    for (const StepDifference& step : good) {
      names += step.node + ' ';
      EXPECT_EQ(step.difference.beyond, 0) << step.node << ' ' << step.difference.largest;
    }
    EXPECT_EQ(names, "c1 p1 c2 m y ");
    EXPECT_EQ(good[0].op, "conv");
    EXPECT_EQ(good[0].tactic, "cpu.conv.onednn");
    for (const std::string node : {"c1", "c2", "m"})
      for (const StepDifference& step :
           differences_of(with_wrong_weights(engine->graph(), *engine->plans()[0], node))) {
        EXPECT_EQ(step.difference.beyond > 0, step.node == node) << step.node << " with wrong weights of " << node;
        if (step.node == node) { EXPECT_GT(step.difference.largest, 0.01); }
      }
  }
}

TEST(RunBesideReference, AGraphThatThePlanIsNotOfIsRefused) {
  auto engine = std::make_shared<Engine>(info_of("cpu"), small_graph("n"), 2);
  add_plan(engine, {{2, 3, 8, 8}});
  Session session(engine);
  session.prepare({{2, 3, 8, 8}});
  EXPECT_THROW(run_beside_reference(session, tiny_graph(), {noise({2, 3, 8, 8}, 1)}, {}), Error);
}

TEST(Compare, CountsWhatIsBeyondAndTreatsNaNAsTheWorst) {
  const auto tensor = [](std::vector<float> values) {
    Tensor t(DType::f32, {int64_t(values.size())});
    std::copy(values.begin(), values.end(), t.data<float>());
    return t;
  };
  const Difference d = compare(tensor({1, 2.01f, NAN, INFINITY, 0}), tensor({1, 2, NAN, INFINITY, 0.00005f}), {});
  EXPECT_EQ(d.beyond, 1);
  EXPECT_NEAR(d.largest, 0.01, 1e-6);
  EXPECT_EQ(compare(tensor({NAN, -INFINITY}), tensor({1, INFINITY}), {}).beyond, 2);
  EXPECT_EQ(compare(tensor({NAN}), tensor({1}), {}).largest, INFINITY);
  EXPECT_EQ(compare(tensor({1.5f}), tensor({1}), {}, 0.5).beyond, 0);
  EXPECT_THROW(compare(tensor({1}), tensor({1, 2}), {}), Error);
}

}  // namespace
}  // namespace temper
