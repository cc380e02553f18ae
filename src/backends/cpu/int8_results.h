// SPDX-License-Identifier: Apache-2.0
// Makes results of the 32-bit sums of 8-bit products in Temper's own kernels, in oneDNN's order (int8_epilogue.h): rows
// of up to 16 columns, each written where it belongs.
#pragma once
#include <optional>

#include "backends/cpu/int8_epilogue.h"

namespace temper {

constexpr int64_t kSumColumns = 16;

class Int8Results {
 public:
  // As much of the problem's epilogue as is computed here, and by the tail of `layout`; nothing where that fails.
  static std::optional<IntegerEpilogue> absorb(const Problem& problem, const Program& program, size_t channel_axis,
                                               Layout layout);

  // `columns`: of the result, the channels of an image. `pitch`: elements from one row that is written to the next.
  Int8Results(const Problem& problem, const IntegerEpilogue& epilogue, int64_t columns, int64_t pitch);
  Int8Results(const Problem& problem, const IntegerEpilogue& epilogue, int64_t columns)
      : Int8Results(problem, epilogue, columns, columns) {}

  // `count` rows, of which `sums` holds columns [column, column + columns) side by side, kSumColumns apart and 32-byte
  // aligned. columns <= kSumColumns. The first result is element `at` of y. `residual` is null where the epilogue has
  // none.
  void write(const int32_t* sums, int64_t count, int64_t column, int64_t columns, const void* residual, void* y,
             int64_t at) const;
  // Inputs of the problem; null where the epilogue has none.
  const void* residual(const Buffers& buffers) const {
    return epilogue_.residual >= 0 ? buffers.inputs[size_t(epilogue_.residual) + 2] : nullptr;
  }

 private:
  IntegerEpilogue epilogue_;
  int64_t pitch_;
  std::vector<float> bias_, scales_;  // of all columns, and room to read kSumColumns behind them

  void write_avx2(const int32_t* sums, int64_t count, int64_t column, const void* residual, void* y, int64_t at) const;
  void write_row(const int32_t* sums, int64_t at, int64_t column, int64_t columns, const void* residual, void* y) const;
};

}  // namespace temper
