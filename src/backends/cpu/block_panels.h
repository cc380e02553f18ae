// SPDX-License-Identifier: Apache-2.0
// Constant weights of few bits in panels of columns: a few rows of f32 times such weights, which are unpacked in
// registers, and weights unpacked for many rows.
#pragma once
#include <cstddef>
#include <cstdint>

#include "backends/cpu/panels.h"

namespace temper {

// Weights of `depth` steps of k and `columns` columns; `block` steps share a scale, and a zero point where there are
// `zeros`. Packed: [panel][block]{scale f32 [column], zero f32 [column], integers}. A word of 32 bits holds 4 integers
// of 8 bits, or 8 of 4, of as many steps of one column, the first lowest; words are [step][column]. Behind the last
// column and the last step are zeros.
struct BlockPanels {
  Panels panels;  // their columns and widths
  int64_t bits;   // 4 or 8
  int64_t block;  // steps of k; whole words but for a block that holds all
  bool zeros;

  int64_t blocks() const { return ceil_div(panels.depth, block); }
  int64_t steps(int64_t index) const { return index + 1 < blocks() ? block : panels.depth - index * block; }
  int64_t word_steps() const { return 32 / bits; }
  // Bytes of a block, for one column.
  int64_t block_bytes(int64_t of_steps) const { return ((zeros ? 2 : 1) + ceil_div(of_steps, word_steps())) * 4; }
  int64_t column_bytes() const { return (blocks() - 1) * block_bytes(block) + block_bytes(steps(blocks() - 1)); }
  int64_t bytes() const { return panels.wide() * column_bytes(); }
  // Where a block of a panel begins.
  int64_t place(int64_t panel, int64_t index) const {
    return panel * kPanel * column_bytes() + panels.width(panel) * index * block_bytes(block);
  }
};

struct BlockElement {
  int integer;  // -128 to 127, of 4 bits -8 to 7
  float zero, scale;
};
// Writes one element; scale and zero point go with the first of its block. `to` was all zeros before.
void put_element(const BlockPanels& panels, std::byte* to, int64_t k, int64_t column, const BlockElement& element);

constexpr int64_t kFewRows = 16;  // that multiply_blocks takes at most

// y = bias + a * weights for up to kFewRows rows, of the columns of a panel. y and bias, where there is one, begin at
// the panel's first column.
struct FewRows {
  const float* a;
  int64_t a_row;
  const float* bias;  // null: none
  float* y;
  int64_t y_row, rows;
};
void multiply_blocks(const BlockPanels& panels, const std::byte* weights, int64_t panel, const FewRows& rows);

// (integer - zero) * scale of a panel, as multiply_panels takes it alone.
void unpack_panel(const BlockPanels& panels, const std::byte* weights, int64_t panel, float* to);

}  // namespace temper
