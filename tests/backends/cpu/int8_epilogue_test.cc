// SPDX-License-Identifier: Apache-2.0
// How far a product of integers takes its epilogue.
#include "backends/cpu/int8_epilogue.h"

#include <gtest/gtest.h>

#include "bench/cases.h"
#include "graph/ops/matmul.h"

namespace temper {
namespace {

IntegerEpilogue absorbed(const std::string& text) {
  const KernelCase line = parse_cases(text).at(0);
  const std::vector<Tensor> inputs = make_case_inputs(line, 1);
  const Problem problem = make_case_problem(line, inputs, 1);
  return absorb_integer_epilogue(problem, problem.op.get<ops::MatMul>().epilogue, 1, IntegerAbsorb::scale).value();
}

TEST(IntegerEpilogue, AResidualThatIsConvertedBeforeTheSumsLeavesTheScaleInTheProduct) {
  const IntegerEpilogue found = absorbed(
      "matmul(i8[3,64], i8[64,24]*, i8[3,24], f32[24]*) epilogue=\"(3) 3=cast.f32(1) 4=constant.f32[0.04] "
      "5=mul.f32(3,4) 6=cast.f32(0) 7=add.f32(6,2) 8=constant.f32[0.25] 9=mul.f32(7,8) 10=add.f32(5,9)\"");
  EXPECT_EQ(found.bias, 1);
  EXPECT_EQ(found.scale_number, 0.25);
  EXPECT_EQ(found.residual, -1);
  EXPECT_EQ(found.rest.steps.back().op, Scalar::add);
}

TEST(IntegerEpilogue, AScaleThatIsComputedStaysBehindTheProduct) {
  const IntegerEpilogue found = absorbed(
      "matmul(i8[5,64], i8[64,24]*, f32[24]*, f32[]) epilogue=\"(3) 3=mul.f32(1,2) 4=cast.f32(0) 5=mul.f32(4,3)\"");
  EXPECT_EQ(found.scale, -1);
  EXPECT_EQ(found.scale_number, 1);
  EXPECT_EQ(found.rest.steps.back().op, Scalar::mul);
}

}  // namespace
}  // namespace temper
