// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/unique.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "backends/cpu/eager.h"

namespace temper {
namespace {

std::vector<Tensor> run(const Tensor& x, int64_t axis, bool sorted) {
  ops::Unique op;
  op.axis = axis;
  op.sorted = sorted;
  return prepare_eager(op, "unique", 1)({x});
}

// Few and many elements are sorted in different ways.
template <class T>
std::vector<T> taken_in_turns(const std::vector<T>& from, size_t count) {
  std::vector<T> out(count);
  for (size_t i = 0; i < count; ++i) out[i] = from[i % from.size()];
  return out;
}

TEST(Unique, SignsZerosInfinitiesAndNaNAreInOrderAndEqualOnesAreOne) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> values{3, -0.f, nan, -infinity, 0, -2, infinity, -nan, 1e-40f, -1e-40f};
  for (const int64_t count : {10, 5000}) {
    const Tensor x = Tensor::of<float>({count}, taken_in_turns(values, size_t(count)));
    const std::vector<Tensor> got = run(x, -1, true);
    ASSERT_EQ(got[0].dims(), (Dims{8})) << count;
    const float* y = got[0].data<float>();
    const std::vector<float> want{-infinity, -2, -1e-40f, 0, 1e-40f, 3, infinity};
    for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(y[i], want[i]) << i;
    EXPECT_TRUE(std::signbit(y[3])) << "the first of equal ones";
    EXPECT_TRUE(std::isnan(y[7]));
    EXPECT_EQ(got[1].to_doubles(), (std::vector<double>{3, 5, 9, 1, 8, 0, 6, 2}));
    EXPECT_EQ(got[3].data<int64_t>()[3], count / 5);
    for (int64_t i = 0; i < count; ++i) {
      const float own = x.data<float>()[i], one = y[got[2].data<int64_t>()[i]];
      EXPECT_TRUE(own == one || (std::isnan(own) && std::isnan(one))) << i;
    }
  }
}

TEST(Unique, IntegersOfEachSignAndSizeAreInOrder) {
  const std::vector<int64_t> values{5, INT64_MIN, -1, INT64_MAX, 0, 256, -256};
  for (const int64_t count : {7, 7000})
    EXPECT_EQ(run(Tensor::of<int64_t>({count}, taken_in_turns(values, size_t(count))), -1, true)[0].same_bits(
                  Tensor::of<int64_t>({7}, {INT64_MIN, -256, -1, 0, 5, 256, INT64_MAX})),
              true)
        << count;
  const uint64_t top = uint64_t(1) << 63;
  EXPECT_TRUE(
      run(Tensor::of<uint64_t>({2000}, taken_in_turns<uint64_t>({top, 1, top - 1}, 2000)), -1, true)[0].same_bits(
          Tensor::of<uint64_t>({3}, {1, top - 1, top})));
}

// Along each axis, against a map.
TEST(Unique, SlicesAreTheDifferentOnesWithTheirPlacesAndCounts) {
  for (const int64_t n : {50, 1100})
    for (const int64_t axis : {0, 1, 2}) {
      Dims dims{2, 3, 2};
      dims[size_t(axis)] = n;
      Tensor x(DType::i32, dims);
      for (int64_t i = 0; i < x.count(); ++i) x.data<int32_t>()[i] = int32_t(uint32_t(i) * 2654435761u >> 31) - 1;
      const auto slice_of = [&](const Tensor& of, int64_t k) {
        std::vector<int32_t> slice;
        for_each_index(of.dims(), [&](const Dims& at, int64_t i) {
          if (at[size_t(axis)] == k) slice.push_back(of.data<int32_t>()[i]);
        });
        return slice;
      };
      std::map<std::vector<int32_t>, std::pair<int64_t, int64_t>> want;  // first, count
      for (int64_t k = 0; k < n; ++k) ++want.try_emplace(slice_of(x, k), k, 0).first->second.second;
      for (const bool sorted : {true, false}) {
        const std::vector<Tensor> got = run(x, axis, sorted);
        ASSERT_EQ(got[0].dims()[size_t(axis)], int64_t(want.size()));
        int64_t last = -1;
        auto next = want.begin();
        for (int64_t i = 0; i < int64_t(want.size()); ++i, ++next) {
          const auto slice = slice_of(got[0], i);
          const int64_t first = got[1].data<int64_t>()[i];
          if (sorted) EXPECT_EQ(slice, next->first);
          else EXPECT_GT(first, std::exchange(last, first));
          EXPECT_EQ(first, want.at(slice).first);
          EXPECT_EQ(got[3].data<int64_t>()[i], want.at(slice).second);
        }
        for (int64_t k = 0; k < n; ++k) EXPECT_EQ(slice_of(got[0], got[2].data<int64_t>()[k]), slice_of(x, k));
      }
    }
}

}  // namespace
}  // namespace temper
