// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/vectors.h"

#include <gtest/gtest.h>

#include <array>

#include "backends/cpu/isa.h"

namespace temper {
namespace {

// So many sums that registers do not hold them: some lie on the stack, where their type says how.
template <int w>
void sums_at(const float* from, float* to) {
  using Vector = typename VectorOf<w>::Type;
  Vector sum[40];
  for (int i = 0; i < 40; ++i) load(from + i, sum[i]);
  for (int k = 0; k < 40; ++k)
    for (int i = 0; i < 40; ++i) sum[i] += sum[(i + k) % 40] * from[k];
  for (int i = 0; i < 40; ++i) store(sum[i], to + i * w);
}

// Each of the w columns by itself.
template <int w>
void expect_sums(const float* from) {
  std::array<float, 40 * w + 1> to{};
  vectorised_by_8([=, place = to.data()] { sums_at<w>(from, place + 1); });  // neither end is aligned
  for (int column = 0; column < w; ++column) {
    float sum[40];
    for (int i = 0; i < 40; ++i) sum[i] = from[i + column];
    for (int k = 0; k < 40; ++k)
      for (int i = 0; i < 40; ++i) sum[i] += sum[(i + k) % 40] * from[k];
    for (int i = 0; i < 40; ++i) EXPECT_NEAR(to[size_t(1 + i * w + column)], sum[i], 1e-5 * std::abs(sum[i])) << i;
  }
}

TEST(Vectors, AreReadFromAndWrittenToAnyAddressAndLieWhereTheirTypeSaysWhenRegistersRunOut) {
  alignas(64) float numbers[80];
  for (int i = 0; i < 80; ++i) numbers[i] = 0.001f * float(i % 17);
  for (int offset = 0; offset < 16; ++offset) {
    expect_sums<4>(numbers + offset);
    expect_sums<kNarrow>(numbers + offset);
    expect_sums<16>(numbers + offset);
  }
  EXPECT_GE(alignof(VectorOf<kNarrow>::Type), 16u) << "a type with the alignment of an element is none for variables";
  EXPECT_GE(alignof(VectorOf<16>::Type), 16u);
}

}  // namespace
}  // namespace temper
