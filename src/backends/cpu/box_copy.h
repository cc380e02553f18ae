// SPDX-License-Identifier: Apache-2.0
// Copies boxes of a logical tensor between layouts.
#pragma once
#include "backends/cpu/strided_copy.h"

namespace temper {

// The elements start, start + step, ... along each axis of a tensor in a layout.
struct BoxSide {
  Dims dims;
  Layout layout = Layout::plain;
  Dims start;           // empty: zeros
  Dims step;            // empty: ones
  bool repeat = false;  // one element stands for all (the source of a fill)
};

class BoxCopy {
 public:
  BoxCopy() = default;
  // `sizes`: the box's extent along each axis. In blocked layouts the channels must start at a multiple of 16 (or take
  // up the rest of their side) and have step 1: see can_copy_box.
  BoxCopy(const Dims& sizes, const BoxSide& from, const BoxSide& to, int64_t size);
  void run(const void* from, void* to, int threads) const;

 private:
  struct Piece {
    StridedCopy copy;
    int64_t from, to;  // bytes from the beginning of the tensors
  };
  std::vector<Piece> pieces_;
};
bool can_copy_box(const Dims& sizes, const BoxSide& side);

// Writes zeros to the padding channels of a blocked tensor; nothing for other tensors.
class ZeroPadding {
 public:
  ZeroPadding() = default;
  ZeroPadding(const Dims& dims, Layout layout, int64_t size);
  void run(void* to) const;

 private:
  int64_t images_ = 0, positions_ = 0, image_ = 0, block_ = 0, first_ = 0, bytes_ = 0;  // the last four in bytes
};

}  // namespace temper
