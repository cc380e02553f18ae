// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/dequantize_blocks.h"

#include <gtest/gtest.h>

#include "graph/graph.h"

namespace temper {
namespace {

std::vector<double> run(const ops::DequantizeBlocks& op, const std::vector<Tensor>& inputs) {
  return run_node(op, inputs, "weights")[0].to_doubles();
}

TEST(DequantizeBlocks, ABlockHasAScaleAndAZeroPoint) {
  const Tensor x = Tensor::of<uint8_t>({3, 2}, {1, 2, 3, 4, 5, 255});
  EXPECT_EQ(run({.block_rows = 2},
                {x, Tensor::of<float>({2, 2}, {1, 2, 0.5, -1}), Tensor::of<float>({2, 2}, {1, 0, 0.5, 255})}),
            (std::vector<double>{0, 4, 2, 8, 2.25, 0}));
  EXPECT_EQ(run({.block_rows = 8, .block_columns = 8}, {x, Tensor::of<float>({1, 1}, {2})}),
            (std::vector<double>{2, 4, 6, 8, 10, 510}));
}

TEST(DequantizeBlocks, SubtractsAndMultipliesInF32) {
  const float zero = 1.0f / 3, scale = 0.1f;
  const Tensor y = run_node(
      ops::DequantizeBlocks{},
      {Tensor::of<int8_t>({1, 1}, {-7}), Tensor::of<float>({1, 1}, {scale}), Tensor::of<float>({1, 1}, {zero})},
      "w")[0];
  const float off = -7.0f - zero;
  EXPECT_EQ(y.data<float>()[0], off * scale);
}

TEST(DequantizeBlocks, RefusesScalesThatDoNotFit) {
  const Tensor x(DType::i8, {4, 4}), scale(DType::f32, {2, 4});
  EXPECT_NO_THROW(run({.block_rows = 2}, {x, scale}));
  EXPECT_NO_THROW(run({.block_rows = 3}, {x, scale}));
  EXPECT_THROW(run({.block_rows = 1}, {x, scale}), Error);
  EXPECT_THROW(run({.block_rows = 4}, {x, scale}), Error);
  EXPECT_THROW(run({.block_rows = 0}, {x, scale}), Error);
  EXPECT_THROW(run({.block_rows = 2}, {x, scale, Tensor(DType::f32, {1, 4})}), Error);
  EXPECT_THROW(run({.block_rows = 2}, {x, scale.converted(DType::f16)}), Error);
  EXPECT_THROW(run({.block_rows = 2}, {x.converted(DType::i32), scale}), Error);
  EXPECT_THROW(run({.block_rows = 2}, {Tensor(DType::i8, {4, 4, 1}), scale}), Error);
}

}  // namespace
}  // namespace temper
