// SPDX-License-Identifier: Apache-2.0
// Rows of bf16 times packed columns of bf16, summed in f32: on AMX's tiles, or by AVX-512's dot products of pairs. Both
// read the same packed columns. A product by weights and an attention are made of it.
#pragma once
#include <cstdint>
#include <optional>

#include "backends/cpu/tiles.h"
#include "backends/tactic.h"
#include "base/checked.h"
#include "base/dtype.h"

namespace temper {

constexpr int64_t kBf16Rows = 32;     // of a block, at most
constexpr int64_t kBf16Columns = 32;  // of a panel
constexpr int64_t kBf16Depth = 32;    // what a panel's depth is a multiple of, filled up with zeros

using Bf16Panels = TilePanels<BFloat16>;
static_assert(kBf16Columns == kTileBlock && kBf16Depth == Bf16Panels::kDepth);

// sums[r][c] = the sum over k < 32 * steps of a[r][k] * b[k][c], for `rows` rows and the 32 columns of a panel.
struct Bf16Block {
  const BFloat16* a;
  int64_t a_row, rows;  // from one row to the next; 1 to 32 rows
  const BFloat16* b;    // a panel, on a multiple of 64 bytes
  int64_t steps;
  float* sums;
  int64_t sums_row;
  bool first = false;  // nothing was multiplied by this panel yet: it lies in L2, not in L1
  // Lines of 64 bytes that are wanted soon: `fetched` of them are brought into L2 meanwhile.
  const BFloat16* next = nullptr;
  int64_t fetched = 0;
};

// Products on the calling thread, whose tiles it holds while it lives.
class Bf16Multiplier {
 public:
  explicit Bf16Multiplier(bool tiles) {
    if (tiles) tiles_.emplace(TileRows::bf16);
  }
  void multiply(const Bf16Block& block);

 private:
  std::optional<TileMultiplier> tiles_;
};

// Why this CPU cannot; the caller is asked before anything else of this file runs.
Support bf16_blocks_supported(const Device& device);

// to[i] = from[i], rounded to nearest even; numbers below the normal ones become zeros, as in products.
void round_row(const float* from, BFloat16* to, int64_t n);

// Columns of a panel that are rows in memory, `pitch` apart: to.place(k, column + c) = from[c * pitch + k] for up to 16
// columns c and all k. What the panel's 16 columns have beside them is set to zeros. `column` is a multiple of 16.
void pack_rows_as_columns(const BFloat16* from, int64_t pitch, int64_t columns, const Bf16Panels& panels,
                          int64_t column, BFloat16* to);
// Rows of a panel that are rows in memory: to.place(row + r, c) = from[r * pitch + c] for up to two rows r and all
// columns c; likewise. `row` is even.
void pack_two_rows(const BFloat16* from, int64_t pitch, int64_t rows, const Bf16Panels& panels, int64_t row,
                   BFloat16* to);

}  // namespace temper
