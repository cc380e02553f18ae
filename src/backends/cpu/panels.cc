// SPDX-License-Identifier: Apache-2.0
// Up to eight rows of the result times a stripe stay in registers (8 x 48 of AVX-512's 32, 4 x 24 of AVX2's 16, 8 x 12
// of aarch64's 32), so that a step of k loads three vectors and broadcasts eight numbers for 24 fused multiply-adds.
// The sizes are those of the analysis of Goto and van de Geijn, "Anatomy of high-performance matrix multiplication"
// (2008): a slice of the left matrix stays in L2 while panels pass by.
#include "backends/cpu/panels.h"

#include <algorithm>

#include "backends/cpu/isa.h"
#include "backends/cpu/vectors.h"

namespace temper {

namespace {

constexpr int64_t kSliceBytes = 320 << 10;  // of the left matrix that are to stay in L2
constexpr int64_t kLeastSlice = 256;        // steps of k: below, the sums go to memory too often

struct Tile {
  const float* a;
  int64_t a_row, depth;  // steps of k
  const float* weights;
  int64_t step;  // columns of the stripe
  const float* start;
  int64_t start_row;  // 0: the same for all rows, a bias
  float* y;
  int64_t y_row;
  // Weights that come next, which memory takes its time to give: each step of k asks for the line `ahead_step` floats
  // further, so that all rows of a stripe together have asked for the next one. Null: nothing is asked for.
  const float* ahead = nullptr;
  int64_t ahead_step = 0;
};

// y = start + a * weights, for m rows and v vectors of w columns.
template <int w, int m, int v>
inline void multiply(const Tile& tile) {
  using Vector = typename VectorOf<w>::Type;
  Vector sum[m * v];
#pragma GCC unroll 8
  for (int r = 0; r < m; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < v; ++c) load(tile.start + r * tile.start_row + c * w, sum[r * v + c]);
  const float *a = tile.a, *weights = tile.weights;
  const float* ahead = tile.ahead ? tile.ahead : tile.weights;
  for (int64_t k = 0; k < tile.depth; ++k, weights += tile.step, ahead += tile.ahead_step) {
    __builtin_prefetch(ahead, 0, 2);
    Vector column[v];
#pragma GCC unroll 4
    for (int c = 0; c < v; ++c) load(weights + c * w, column[c]);
#pragma GCC unroll 8
    for (int r = 0; r < m; ++r)
#pragma GCC unroll 4
      for (int c = 0; c < v; ++c) sum[r * v + c] += a[r * tile.a_row + k] * column[c];
  }
#pragma GCC unroll 8
  for (int r = 0; r < m; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < v; ++c) store(sum[r * v + c], tile.y + r * tile.y_row + c * w);
}

template <int w, int m>
inline void multiply_columns(const Tile& tile, int64_t columns) {
  switch (columns / w) {
    case 1: return multiply<w, m, 1>(tile);
    case 2: return multiply<w, m, 2>(tile);
    default: return multiply<w, m, 3>(tile);
  }
}

// AVX2 has 16 registers, the others twice as many.
template <int w>
constexpr int64_t kMost = w == 8 ? kPanelRows / 2 : kPanelRows;

// Up to kMost rows; `columns`: one to three vectors.
template <int w>
inline void multiply_rows(const Tile& tile, int64_t rows, int64_t columns) {
  if constexpr (kMost<w> == 8) {
    switch (rows) {
      case 8: return multiply_columns<w, 8>(tile, columns);
      case 7: return multiply_columns<w, 7>(tile, columns);
      case 6: return multiply_columns<w, 6>(tile, columns);
      case 5: return multiply_columns<w, 5>(tile, columns);
      default: break;
    }
  }
  switch (rows) {
    case 4: return multiply_columns<w, 4>(tile, columns);
    case 3: return multiply_columns<w, 3>(tile, columns);
    case 2: return multiply_columns<w, 2>(tile, columns);
    default: return multiply_columns<w, 1>(tile, columns);
  }
}

// All rows of a chunk by a stripe of `columns`: kMost rows at once.
template <int w>
inline void multiply_by(const Tile& tile, int64_t rows, int64_t columns) {
  Tile part = tile;
  for (int64_t row = 0; row < rows; row += kMost<w>) {
    part.ahead = tile.ahead ? tile.ahead + row / kMost<w> * tile.depth * tile.ahead_step : nullptr;
    part.a = tile.a + row * tile.a_row;
    part.start = tile.start + row * tile.start_row;
    part.y = tile.y + row * tile.y_row;
    multiply_rows<w>(part, std::min(kMost<w>, rows - row), columns);
  }
}

void multiply_stripe(const Tile& tile, int64_t rows, int64_t columns) {
  vectorised_by_16_or_8([=] { multiply_by<16>(tile, rows, columns); },
                        [=] { multiply_by<kNarrow>(tile, rows, columns); });
}

// Rows at once of a stripe of so many columns.
int64_t rows_at_once(int64_t stripe) { return stripe == 3 * kNarrow ? kMost<kNarrow> : kMost<16>; }

}  // namespace

int64_t panel_slice(int64_t depth, int64_t rows) {
  const int64_t slices = ceil_div(depth * rows * int64_t(sizeof(float)), kSliceBytes);
  return std::max(ceil_div(depth, slices), std::min(kLeastSlice, depth));
}

int64_t panel_stripe() { return cpu_isa() == Isa::avx512 ? 3 * 16 : 3 * kNarrow; }

void multiply_panels(const Panels& panels, const PanelRows& r, int64_t first, int64_t last) {
  alignas(64) static constexpr float zeros[kPanel] = {};
  const int64_t end = std::min(last * kPanel, panels.columns), groups = ceil_div(r.rows, rows_at_once(panels.stripe));
  for (int64_t k = 0; k < panels.depth; k += r.slice)
    for (int64_t column = first * kPanel; column < end; column += panels.stripe) {
      const int64_t columns = panels.stripe_width(column), inside = std::min(columns, panels.columns - column),
                    next = column + panels.stripe;
      float* const to = r.y + column;
      Tile tile{r.a + k,
                r.a_row,
                std::min(r.slice, panels.depth - k),
                r.weights + panels.place(k, column),
                columns,
                to,
                r.y_row,
                to,
                r.y_row};
      alignas(64) float edge[kPanelRows * kPanel] = {}, start[kPanel] = {};
      if (k == 0) {
        tile.start = zeros, tile.start_row = 0;
        if (r.bias && inside == columns) tile.start = r.bias + column;
        else if (r.bias) std::copy_n(r.bias + column, inside, start), tile.start = start;
      }
      if (next < end) {
        tile.ahead = r.weights + panels.place(k, next);
        tile.ahead_step = std::min<int64_t>(16, ceil_div(panels.stripe_width(next), groups));
      }
      if (inside == columns) {
        multiply_stripe(tile, r.rows, columns);
        continue;
      }
      // The last columns, by way of a buffer that has room for whole vectors.
      for (int64_t row = 0; row < r.rows; row += kPanelRows) {
        const int64_t count = std::min(kPanelRows, r.rows - row);
        Tile part = tile;
        part.a = tile.a + row * r.a_row;
        part.y = edge, part.y_row = kPanel;
        if (k > 0) {
          for (int64_t i = 0; i < count; ++i) std::copy_n(to + (row + i) * r.y_row, inside, edge + i * kPanel);
          part.start = edge, part.start_row = kPanel;
        }
        multiply_stripe(part, count, columns);
        for (int64_t i = 0; i < count; ++i) std::copy_n(edge + i * kPanel, inside, to + (row + i) * r.y_row);
      }
    }
}

}  // namespace temper
