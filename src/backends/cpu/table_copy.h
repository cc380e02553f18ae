// SPDX-License-Identifier: Apache-2.0
// out[i, j, ...] = in[table0[i], table1[j], ...]: nearest resizing, mirrored padding. Where a table counts up by one,
// or the axes within it are untouched, whole runs move.
#pragma once
#include <cstddef>

#include "backends/axes.h"

namespace temper {

class TableCopy {
 public:
  TableCopy() = default;
  // `from`: sizes of the source; tables[axis] has one source index for each index of the output; an empty table stands
  // for an untouched axis. Both in memory order. `size`: bytes of an element.
  TableCopy(const Dims& from, std::vector<Dims> tables, int64_t size);
  void run(const void* from, void* to, int threads) const;

 private:
  struct Run {
    int64_t from, to, bytes;
  };
  struct Axis {
    int64_t size, to;           // of the output; stride in bytes
    std::vector<int64_t> from;  // offset in bytes of each index
  };
  std::vector<Axis> outer_;
  std::vector<Run> runs_;  // the innermost axis that has a table, with everything within it
  int64_t outer_count_ = 1, row_bytes_ = 0, element_ = 0;
};

}  // namespace temper
