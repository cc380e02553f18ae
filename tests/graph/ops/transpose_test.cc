// SPDX-License-Identifier: Apache-2.0
// Transpose's reference: each element where the permutation says, whatever its size.
#include "graph/ops/transpose.h"

#include <gtest/gtest.h>

#include "graph/graph.h"

namespace temper {
namespace {

Tensor transposed(const Tensor& x, const Dims& perm) { return run_node(ops::Transpose{perm}, {{x}}, "t").at(0); }

TEST(Transpose, EachElementIsWhereThePermutationSaysWhateverItsSize) {
  std::vector<float> numbers(24);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = float(i);
  const Tensor floats = Tensor::of<float>({2, 3, 4}, numbers);
  for (const DType dtype : {DType::u8, DType::f16, DType::f32, DType::i64}) {
    const Tensor x = floats.converted(dtype), y = transposed(x, {2, 0, 1});
    EXPECT_EQ(y.dims(), (Dims{4, 2, 3}));
    const std::vector<double> got = y.to_doubles();
    for (int64_t a = 0; a < 2; ++a)
      for (int64_t b = 0; b < 3; ++b)
        for (int64_t c = 0; c < 4; ++c) EXPECT_EQ(got[size_t((c * 2 + a) * 3 + b)], double((a * 3 + b) * 4 + c));
    EXPECT_TRUE(transposed(y, {1, 2, 0}).same_bits(x));
  }
}

TEST(Transpose, ScalarsAndEmptyTensorsStayThat) {
  const Tensor scalar = Tensor::of<float>({}, {7});
  EXPECT_TRUE(transposed(scalar, {}).same_bits(scalar));
  EXPECT_EQ(transposed(Tensor::of<float>({0, 3}, {}), {1, 0}).dims(), (Dims{3, 0}));
}

}  // namespace
}  // namespace temper
