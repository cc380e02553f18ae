// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/blocked_matmul.h"

#include <gtest/gtest.h>

#include "graph/graph.h"

namespace temper {
namespace {

TEST(BlockedMatMul, IsTheProductOfRowsAndDequantizedWeights) {
  ops::BlockedMatMul op{.block_rows = 2};
  op.epilogue = Program::parse("(2) 2=add.f32(0,1)");
  const Tensor a = Tensor::of<float>({1, 3}, {1, 10, 100}), x = Tensor::of<int8_t>({3, 2}, {1, 2, 3, 4, 5, 6}),
               scale = Tensor::of<float>({2, 2}, {1, 2, 0.5, 4}), zero = Tensor::of<float>({2, 2}, {1, 0, 1, 5}),
               bias = Tensor::of<float>({2}, {0.25, 0.5});
  EXPECT_EQ(run_node(op, {a, x, scale, zero, bias}, "y")[0].to_doubles(),
            (std::vector<double>{20 + 200 + 0.25, 4 + 80 + 400 + 0.5}));
  EXPECT_EQ(run_node(op, {a, x, scale, Tensor(), bias}, "y")[0].to_doubles(),
            (std::vector<double>{1 + 30 + 250 + 0.25, 4 + 80 + 2400 + 0.5}));
}

TEST(BlockedMatMul, RefusesWhatDoesNotFit) {
  const Tensor a(DType::f32, {1, 4}), x(DType::i8, {4, 2}), scale(DType::f32, {2, 2});
  const auto run = [](const ops::BlockedMatMul& op, const std::vector<Tensor>& inputs) { run_node(op, inputs, "y"); };
  EXPECT_NO_THROW(run({.block_rows = 2}, {a, x, scale, Tensor()}));
  EXPECT_THROW(run({.block_rows = 2}, {a, x, scale}), Error);
  EXPECT_THROW(run({.block_rows = 4}, {a, x, scale, Tensor()}), Error);
  EXPECT_THROW(run({.block_rows = 2}, {Tensor(DType::f32, {1, 3}), x, scale, Tensor()}), Error);
  EXPECT_THROW(run({.block_rows = 2}, {a.converted(DType::f64), x, scale, Tensor()}), Error);
  EXPECT_THROW(run({.transpose_b = true, .block_rows = 2}, {a, x, scale, Tensor()}), Error);
}

}  // namespace
}  // namespace temper
