// SPDX-License-Identifier: Apache-2.0
// Rows times a packed panel of columns on AMX's tile registers. 32 by 32 sums are four tiles; a step of the depth, 64
// bytes of each row, loads two tiles of either side for four products.
#pragma once
#include <cstddef>
#include <cstdint>

#include "backends/tactic.h"
#include "base/checked.h"

namespace temper {

// What the eight tiles hold (Intel's manual, "AMX", palette 1): rows of 64 bytes, 16 of them unless that is changed.
struct alignas(64) TileShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// GCC does not know that tiles and their shapes are loaded from memory: nothing that was written there waits behind
// this.
inline void written(const void* there) { asm volatile("" : : "r"(there) : "memory"); }

// Whether products run on tiles. Linux lets a process use them once it has asked, which this does.
bool may_use_tiles(const Device& device);

// The elements of rows; panels are of bf16, or of i8.
enum class TileRows : uint8_t { bf16, i8, u8 };

constexpr int64_t kTileBlock = 32;        // rows at most, and columns, of a block
constexpr int64_t kTileStep = 64;         // bytes of a row that a step multiplies
constexpr int64_t kTilePanelStep = 2048;  // bytes of a panel for them

// `depth` rows and `columns` columns of T, of 1 or 2 bytes: [panel][step][half of 16 columns][word of rows][column][row
// of the word], a word being four bytes, with zeros where there is no row or column.
template <class T>
struct TilePanels {
  static constexpr int64_t kWord = 4 / sizeof(T), kDepth = kTileStep / sizeof(T);  // rows of a word, and of a step
  int64_t depth, columns;
  int64_t steps() const { return ceil_div(depth, kDepth); }
  int64_t count() const { return ceil_div(columns, kTileBlock); }
  int64_t of_panel() const { return steps() * kDepth * kTileBlock; }  // elements
  int64_t elements() const { return count() * of_panel(); }
  int64_t place(int64_t row, int64_t column) const {
    return column / kTileBlock * of_panel() + row / kDepth * kDepth * kTileBlock +
           column % kTileBlock / 16 * 16 * kDepth + row % kDepth / kWord * 16 * kWord + column % 16 * kWord +
           row % kWord;
  }
};

// For r < rows and each column c of a panel, the sum of all products of row r and column c.
struct TileBlock {
  const void* a;
  int64_t a_row, rows;  // bytes from one row to the next; 1 to 32 rows
  const void* b;        // a panel, on a multiple of 64 bytes: [step][half of 16 columns][16 words of k][column]
  int64_t steps;
  void* sums;                   // f32, or i32 of bytes
  int64_t sums_row, sums_half;  // bytes from one row to the next, and from column 0 to column 16
  bool first = false;           // nothing was multiplied by this panel yet: it lies in L2, not in L1
  // Lines of 64 bytes that are wanted soon: `fetched` of them are brought into L2 meanwhile.
  const void* next = nullptr;
  int64_t fetched = 0;
};

// Products on the calling thread, whose tiles it holds while it lives.
class TileMultiplier {
 public:
  explicit TileMultiplier(TileRows kind) : kind_(kind) {}
  ~TileMultiplier();
  TileMultiplier(const TileMultiplier&) = delete;
  void multiply(const TileBlock& block);

 private:
  TileRows kind_;
  int64_t rows_ = 0;  // that the tiles are shaped for; 0: none
};

}  // namespace temper
