// SPDX-License-Identifier: Apache-2.0
// Weights with a NaN or an infinity are found out wherever it lies.
#include "graph/finite.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace temper {
namespace {

TEST(Finite, OneNumberThatIsNotIsFoundWhereverItLies) {
  constexpr int64_t kCount = (int64_t(1) << 17) + 3;  // several threads' shares
  for (const int64_t at : {int64_t(0), kCount / 2, kCount - 1})
    for (const float other : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::quiet_NaN()}) {
      Tensor x(DType::f32, {kCount});
      std::fill_n(x.data<float>(), kCount, std::numeric_limits<float>::max());
      EXPECT_TRUE(all_finite(x));
      x.data<float>()[at] = other;
      EXPECT_FALSE(all_finite(x));
    }
}

}  // namespace
}  // namespace temper
