// SPDX-License-Identifier: Apache-2.0
// The one engine of data movement: copies a box of elements between two strided arrays. Transposes, layout changes,
// slices, concatenations, broadcasts and padding are boxes with the right strides.
#pragma once
#include <cstddef>

#include "backends/axes.h"

namespace temper {

class StridedCopy {
 public:
  StridedCopy() = default;
  // Strides in elements; 0 in `from` repeats an element. Negative strides walk backwards. Outputs must not overlap.
  // `size`: bytes of an element (1, 2, 4 or 8).
  StridedCopy(const Dims& sizes, const Dims& from, const Dims& to, int64_t size);
  // Both point at the element of index 0.
  void run(const std::byte* from, std::byte* to, int threads) const;
  int64_t bytes() const { return count_ * size_; }

 private:
  struct Axis {
    int64_t size, from, to;  // strides in bytes
  };
  void run_outer(const std::byte* from, std::byte* to, int64_t begin, int64_t end) const;
  void run_inner(const std::byte* from, std::byte* to) const;

  std::vector<Axis> outer_;  // walked index by index
  std::vector<Axis> inner_;  // what run_inner does: one axis (a run, a fill, a strided loop) or two (a transpose)
  int64_t run_ = 0;          // bytes that lie together on both sides; 0 where the inner axis is not such a run
  int64_t size_ = 1, count_ = 0, outer_count_ = 1;
};

}  // namespace temper
