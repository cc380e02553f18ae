// SPDX-License-Identifier: Apache-2.0
#include "graph/monotone.h"

#include <gtest/gtest.h>

#include <limits>

#include "graph/tensor.h"

namespace temper {
namespace {

bool rises(const char* program, DType accumulator, std::vector<Tensor> others = {}) {
  std::vector<const Tensor*> pointers;
  for (const Tensor& other : others) pointers.push_back(&other);
  return never_decreases(Program::parse(program), accumulator, pointers);
}
Tensor row(std::vector<float> numbers) { return Tensor::of<float>({int64_t(numbers.size()), 1, 1}, numbers); }

TEST(Monotone, BiasPositiveScaleReluAndRoundingKeepTheOrder) {
  EXPECT_TRUE(rises("(1)", DType::i32));
  EXPECT_TRUE(rises("(3) 3=cast.f32(0) 4=mul.f32(3,1) 5=add.f32(2,4) 6=relu.f32(5) 7=round.f32(6) 8=cast.i8(7)",
                    DType::i32, {row({0.5f, 2}), row({-3, 4})}));
  EXPECT_TRUE(rises("(2) 2=add.f32(0,1) 3=relu.f32(2) 4=cast.f16(3)", DType::f32, {row({1, -1})}));
  EXPECT_TRUE(rises("(2) 2=cast.f32(1) 3=add.f32(0,2)", DType::f32, {row({1, -1}).converted(DType::f16)}));
  EXPECT_FALSE(rises("(2) 2=cast.f16(1) 3=cast.f32(2) 4=add.f32(0,3)", DType::f32, {row({1e6f})})) << "infinity in f16";
  EXPECT_TRUE(rises("(1) 1=constant.f32[6] 2=min.f32(0,1) 3=constant.f32[-1] 4=max.f32(3,2)", DType::f32));
}

TEST(Monotone, FactorsThatAreNotAboveZeroDoNot) {
  const char* scaled = "(2) 2=mul.f32(0,1)";
  EXPECT_TRUE(rises(scaled, DType::f32, {row({1, 2})}));
  EXPECT_FALSE(rises(scaled, DType::f32, {row({1, -2})}));
  EXPECT_FALSE(rises(scaled, DType::f32, {row({1, 0})})) << "0 times infinity is NaN";
  EXPECT_FALSE(rises(scaled, DType::f32, {row({1, std::numeric_limits<float>::infinity()})}));
  EXPECT_FALSE(rises("(1) 1=neg.f32(0)", DType::f32));
}

TEST(Monotone, WhatIsNotKnownDoesNot) {
  const Tensor* unknown[] = {nullptr};
  EXPECT_FALSE(never_decreases(Program::parse("(2) 2=add.f32(0,1)"), DType::f32, unknown));
  EXPECT_FALSE(rises("(1) 1=sigmoid.f32(0) 2=mul.f32(0,1)", DType::f32)) << "swish falls before it rises";
  EXPECT_FALSE(rises("(1) 1=constant.f32[2]", DType::f32)) << "a constant has no order to keep";
}

TEST(Monotone, IntegersThatWrapAndNaNThatBecomesANumberDoNot) {
  EXPECT_FALSE(rises("(1) 1=cast.i8(0)", DType::i32));
  EXPECT_FALSE(rises("(1) 1=constant.i32[3] 2=add.i32(0,1)", DType::i32));
  EXPECT_FALSE(rises("(1) 1=cast.i8(0)", DType::f32)) << "the largest of NaN and 3 is NaN, cast it is 0";
  EXPECT_TRUE(rises("(1) 1=cast.f32(0) 2=cast.i8(1)", DType::i32));
}

}  // namespace
}  // namespace temper
