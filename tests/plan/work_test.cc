// SPDX-License-Identifier: Apache-2.0
#include "plan/work.h"

#include <gtest/gtest.h>

#include "graph/ops/conv.h"
#include "graph/ops/conv_transpose.h"
#include "graph/ops/fused.h"
#include "graph/ops/matmul.h"
#include "graph/ops/pool.h"
#include "graph/ops/softmax.h"

namespace temper {
namespace {

Port port(const char* type, bool constant = false) {
  Port port;
  port.type = TensorType::parse(type);
  port.is_constant = constant;
  return port;
}

PlanStep step_of(Op op, std::vector<Port> inputs, std::vector<Port> outputs) {
  PlanStep step;
  step.tactic = "reference";
  step.problem.op = std::move(op);
  step.problem.inputs = std::move(inputs);
  step.problem.outputs = std::move(outputs);
  return step;
}

TEST(Work, AConvolutionMultipliesAWindowForEachOutput) {
  Segment segment;
  // ResNet-50's first layer, 118,013,952 products (torchvision's count of multiply-adds for it).
  ops::Conv conv;
  conv.strides = {2, 2}, conv.dilations = {1, 1}, conv.pads = {3, 3, 3, 3};
  const PlanStep first =
      step_of(conv, {port("f32[1,3,224,224]"), port("f32[64,3,7,7]", true)}, {port("f32[1,64,112,112]")});
  EXPECT_EQ(product_operations_of(segment, first), 2 * int64_t(118013952));
  EXPECT_EQ(operations_of(segment, first), 2 * int64_t(118013952));
  segment.slices = 4;
  EXPECT_EQ(product_operations_of(segment, first), 8 * int64_t(118013952));
  segment.slices = 1;
  conv.group = 64;
  EXPECT_EQ(product_operations_of(
                segment, step_of(conv, {port("f32[1,64,8,8]"), port("f32[64,1,3,3]", true)}, {port("f32[1,64,8,8]")})),
            2 * 64 * 64 * 9);
  ops::ConvTranspose up;
  EXPECT_EQ(product_operations_of(
                segment, step_of(up, {port("f32[1,8,4,4]"), port("f32[8,6,2,2]", true)}, {port("f32[1,6,8,8]")})),
            2 * 8 * 16 * 6 * 4);
}

TEST(Work, AProductSumsOverItsInnerAxisAndAnEpilogueAddsItsSteps) {
  const Segment segment;
  ops::MatMul matmul;
  EXPECT_EQ(operations_of(segment, step_of(matmul, {port("f32[2,3,5]"), port("f32[5,7]", true)}, {port("f32[2,3,7]")})),
            2 * 2 * 3 * 7 * 5);
  matmul.transpose_a = true;
  matmul.epilogue.inputs = 1;
  matmul.epilogue.push({Scalar::relu, DType::f32, {0, -1, -1}});
  EXPECT_EQ(operations_of(segment, step_of(matmul, {port("f32[2,5,3]"), port("f32[5,7]", true)}, {port("f32[2,3,7]")})),
            2 * 2 * 3 * 7 * 5 + 2 * 3 * 7);
}

TEST(Work, APoolBehindAConvolutionLeavesItsProductsAndAReductionReadsItsInput) {
  Segment segment;
  segment.slices = 2;
  ops::FusedConv pooled;
  pooled.conv.strides = {1, 1}, pooled.conv.dilations = {1, 1}, pooled.conv.pads = {0, 0, 0, 0};
  pooled.conv.epilogue.push({Scalar::relu, DType::f32, {0, -1, -1}});
  pooled.pool_kernel = {2, 2}, pooled.pool_strides = {2, 2}, pooled.pool_pads = {0, 0, 0, 0};
  const PlanStep conv = step_of(pooled, {port("f32[1,3,8,8]"), port("f32[5,3,1,1]", true)}, {port("f32[1,5,4,4]")});
  EXPECT_EQ(product_operations_of(segment, conv), 2 * 2 * 5 * 64 * 3);
  EXPECT_EQ(operations_of(segment, conv), 2 * (2 * 5 * 64 * 3 + 5 * 16));
  ops::Pool pool;
  pool.kernel = {3, 3};
  EXPECT_EQ(operations_of(segment, step_of(pool, {port("f32[1,2,8,8]")}, {port("f32[1,2,4,4]")})), 2 * 2 * 16 * 9);
  ops::FusedReduce mean;
  mean.reduce.axes = {1};
  EXPECT_EQ(operations_of(segment, step_of(mean, {port("f32[4,8]")}, {port("f32[4,1]")})), 2 * 32);
}

TEST(Work, AChainOfConvolutionsCountsAllOfThem) {
  ops::ConvChain chain;
  chain.first_inputs = 2;
  chain.first.epilogue.push({Scalar::relu, DType::f32, {0, -1, -1}});
  chain.then.push({Scalar::relu, DType::f32, {0, -1, -1}});
  const PlanStep step = step_of(chain, {port("f32[1,3,8,8]"), port("f32[5,3,3,3]", true), port("f32[7,5,1,1]", true)},
                                {port("f32[1,7,6,6]")});
  EXPECT_EQ(product_operations_of({}, step), 2 * 36 * (5 * 27 + 7 * 5));
  EXPECT_EQ(operations_of({}, step), 2 * 36 * (5 * 27 + 7 * 5) + 36 * (5 + 7));
  chain.then_inputs = 1;
  chain.third.push({Scalar::relu, DType::f32, {0, -1, -1}});
  const PlanStep three = step_of(
      chain, {port("f32[1,3,8,8]"), port("f32[5,3,3,3]", true), port("f32[7,5,1,1]", true), port("f32[2,7,1,1]", true)},
      {port("f32[1,7,6,6]"), port("f32[1,2,6,6]")});
  EXPECT_EQ(product_operations_of({}, three), 2 * 36 * (5 * 27 + 7 * 5 + 2 * 7));
  EXPECT_EQ(operations_of({}, three), 2 * 36 * (5 * 27 + 7 * 5 + 2 * 7) + 36 * (5 + 7 + 2));
}

TEST(Work, WhatHasNoCountHasNone) {
  const Segment segment;
  EXPECT_EQ(operations_of(segment, step_of(ops::Softmax{}, {port("f32[2,10]")}, {port("f32[2,10]")})), std::nullopt);
  EXPECT_EQ(product_operations_of(segment, step_of(ops::Softmax{}, {port("f32[2,10]")}, {port("f32[2,10]")})), 0);
}

TEST(Work, BytesAreThoseOfTheBuffersAndSharedConstantsCountOnce) {
  Plan plan;
  Segment segment;
  segment.slices = 3;
  PlanStep step = step_of(ops::MatMul{}, {port("f32[2,4]"), port("f32[4,8]", true)}, {port("f32[2,8]")});
  step.config.inputs = {Layout::plain, Layout::plain};
  step.config.outputs = {Layout::plain};
  step.inputs = {{BufferRef::Kind::input, 0, 32}, {BufferRef::Kind::constant, 0, 0}};
  step.outputs = {{BufferRef::Kind::output, 0, 64}};
  EXPECT_EQ(bytes_of(plan, segment, step), 3 * (2 * 4 + 2 * 8) * 4 + 4 * 8 * 4);
}

}  // namespace
}  // namespace temper
