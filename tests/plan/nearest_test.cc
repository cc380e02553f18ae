// SPDX-License-Identifier: Apache-2.0
#include "plan/nearest.h"

#include <gtest/gtest.h>

#include "graph/ops/pool.h"

namespace temper {
namespace {

Problem pool_of(const Dims& x, const Dims& y, int threads) {
  ops::Pool pool;
  pool.kernel = pool.strides = {1, 4};
  pool.dilations = {1, 1};
  pool.pads = {0, 0, 0, 0};
  Problem problem{pool, {}, {}, threads};
  problem.inputs.push_back({type_of(DType::f32, x)});
  problem.outputs.push_back({type_of(DType::f32, y)});
  return problem;
}

// What was slow for a pool of few channels in long rows may be the best for one of many channels in short ones.
TEST(ProblemFamily, HoldsSlicesOfTheBatchAndNoOtherSizes) {
  const std::string family = problem_family(pool_of({8, 32, 9, 64}, {8, 32, 9, 16}, 2));
  EXPECT_EQ(problem_family(pool_of({1, 32, 9, 64}, {1, 32, 9, 16}, 2)), family);
  EXPECT_EQ(problem_family(pool_of({8, 32, 9, 64}, {8, 32, 9, 16}, 1)), family);
  EXPECT_NE(problem_family(pool_of({8, 128, 9, 64}, {8, 128, 9, 16}, 2)), family);
  EXPECT_NE(problem_family(pool_of({8, 32, 9, 16}, {8, 32, 9, 4}, 2)), family);
}

}  // namespace
}  // namespace temper
