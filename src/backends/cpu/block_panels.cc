// SPDX-License-Identifier: Apache-2.0
// A product of few rows is bound by the memory that its weights come from: they are read once, in one stream, and made
// floats in registers. A vector of words has several steps of k for each of its columns, so that two shifts and a
// conversion make a vector of floats on any instruction set; sums of a block are scaled as a whole.
#include "backends/cpu/block_panels.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/isa.h"
#include "backends/cpu/vectors.h"

namespace temper {

namespace {

// One block of a panel, from its scales on.
struct Block {
  const std::byte* at;
  int64_t width;  // columns of the panel
  int64_t steps;
};

// Calls f(k, step, x) for v vectors x of each step of k: what the integers of `columns`, v * w of them, are, less their
// zero points. `step` is that within a word, and a constant where the call is inlined: sums that it chooses are
// registers, not an array in memory.
template <int w, int v, int bits, bool zeros, class F>
inline void each_step(const Block& block, int64_t column, F&& f) {
  using Float = typename VectorOf<w>::Type;
  using Int = typename VectorOf<w, int32_t>::Type;
  const std::byte* at = block.at + block.width * int64_t(sizeof(float));
  Float zero[v];
  if constexpr (zeros) {
#pragma GCC unroll 3
    for (int c = 0; c < v; ++c) load(at + (column + c * w) * 4, zero[c]);
    at += block.width * int64_t(sizeof(float));
  }
  at += column * int64_t(sizeof(int32_t));
  constexpr int kSteps = 32 / bits;  // of a word
  Int words[v];
  const auto load_words = [&] {
#pragma GCC unroll 3
    for (int c = 0; c < v; ++c) load(at + c * w * 4, words[c]);
  };
  const auto each_of = [&](int64_t k, int step) {
    Float x[v];
#pragma GCC unroll 3
    for (int c = 0; c < v; ++c) {
      x[c] = __builtin_convertvector((words[c] << (32 - bits - step * bits)) >> (32 - bits), Float);
      if constexpr (zeros) x[c] -= zero[c];
    }
    f(k + step, step, x);
  };
  int64_t k = 0;
  for (; k + kSteps <= block.steps; k += kSteps, at += block.width * int64_t(sizeof(int32_t))) {
    load_words();
#pragma GCC unroll 8
    for (int i = 0; i < kSteps; ++i) each_of(k, i);
  }
  if (k == block.steps) return;
  load_words();
#pragma GCC unroll 8
  for (int i = 0; i < kSteps; ++i)
    if (k + i < block.steps) each_of(k, i);
}

// sums += scale * (a * integers) of m rows and v vectors of columns.
template <int w, int m, int v, int bits, bool zeros>
inline void multiply_tile(const Block& block, int64_t column, const float* a, int64_t a_row, float* sums) {
  using Float = typename VectorOf<w>::Type;
  // One row alone would wait for each of its sums: it has two of each.
  constexpr int kSets = m == 1 ? 2 : 1;
  Float sum[kSets * m * v] = {};
  each_step<w, v, bits, zeros>(block, column, [&](int64_t k, int step, const Float* x) {
    const int set = step % kSets;
#pragma GCC unroll 4
    for (int r = 0; r < m; ++r)
#pragma GCC unroll 3
      for (int c = 0; c < v; ++c) sum[(set * m + r) * v + c] += a[r * a_row + k] * x[c];
  });
#pragma GCC unroll 3
  for (int c = 0; c < v; ++c) {
    Float scale;
    load(block.at + (column + c * w) * 4, scale);
#pragma GCC unroll 4
    for (int r = 0; r < m; ++r) {
      float* const place = sums + r * kPanel + column + c * w;
      Float total = sum[r * v + c], before;
      if constexpr (kSets == 2) total += sum[(m + r) * v + c];
      load(place, before);
      store(Float(before + scale * total), place);
    }
  }
}

template <int w, int m, int bits, bool zeros>
inline void multiply_columns(const Block& block, const float* a, int64_t a_row, float* sums) {
  for (int64_t column = 0; column < block.width; column += 3 * w) switch ((block.width - column) / w) {
      case 1: multiply_tile<w, m, 1, bits, zeros>(block, column, a, a_row, sums); break;
      case 2: multiply_tile<w, m, 2, bits, zeros>(block, column, a, a_row, sums); break;
      default: multiply_tile<w, m, 3, bits, zeros>(block, column, a, a_row, sums);
    }
}

template <int w, int bits, bool zeros>
inline void multiply_rows(const Block& block, const float* a, int64_t a_row, int64_t rows, float* sums) {
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) multiply_columns<w, 4, bits, zeros>(block, a + r * a_row, a_row, sums + r * kPanel);
  for (; r + 2 <= rows; r += 2) multiply_columns<w, 2, bits, zeros>(block, a + r * a_row, a_row, sums + r * kPanel);
  if (r < rows) multiply_columns<w, 1, bits, zeros>(block, a + r * a_row, a_row, sums + r * kPanel);
}

// Its steps are those of the panel `to` from `first` on.
template <int w, int bits, bool zeros>
inline void unpack(const Block& block, const Panels& panel, int64_t first, float* to) {
  using Float = typename VectorOf<w>::Type;
  for (int64_t column = 0; column < block.width; column += w) {
    Float scale;
    load(block.at + column * 4, scale);
    float* const own = to + panel.place(first, column);
    const int64_t step = panel.stripe_width(column);
    each_step<w, 1, bits, zeros>(block, column,
                                 [&](int64_t k, int, const Float* x) { store(Float(x[0] * scale), own + k * step); });
  }
}

// The blocks of a panel, one behind the other.
struct PanelBlocks {
  const std::byte* at;
  int64_t width, count, block, bytes, last;  // columns; blocks, the steps and bytes of each but the last, its steps
  PanelBlocks(const BlockPanels& p, const std::byte* weights, int64_t panel)
      : at(weights + p.place(panel, 0)),
        width(p.panels.width(panel)),
        count(p.blocks()),
        block(p.block),
        bytes(width * p.block_bytes(p.block)),
        last(p.steps(count - 1)) {}
  Block operator[](int64_t i) const { return {at + i * bytes, width, i + 1 < count ? block : last}; }
};

template <int w, int bits, bool zeros>
inline void multiply_all(const PanelBlocks& blocks, const float* a, int64_t a_row, int64_t rows, float* sums) {
  for (int64_t i = 0; i < blocks.count; ++i)
    multiply_rows<w, bits, zeros>(blocks[i], a + i * blocks.block, a_row, rows, sums);
}

template <int w, int bits, bool zeros>
inline void unpack_all(const PanelBlocks& blocks, const Panels& panel, float* to) {
  for (int64_t i = 0; i < blocks.count; ++i) unpack<w, bits, zeros>(blocks[i], panel, i * blocks.block, to);
}

template <int bits, bool zeros>
void multiply_form(const PanelBlocks& blocks, const float* a, int64_t a_row, int64_t rows, float* sums) {
  vectorised_by_16_or_8([=] { multiply_all<16, bits, zeros>(blocks, a, a_row, rows, sums); },
                        [=] { multiply_all<kNarrow, bits, zeros>(blocks, a, a_row, rows, sums); });
}

template <int bits, bool zeros>
void unpack_form(const PanelBlocks& blocks, const Panels& panel, float* to) {
  vectorised_by_16_or_8([=] { unpack_all<16, bits, zeros>(blocks, panel, to); },
                        [=] { unpack_all<kNarrow, bits, zeros>(blocks, panel, to); });
}

}  // namespace

void put_element(const BlockPanels& p, std::byte* to, int64_t k, int64_t column, const BlockElement& element) {
  const int64_t panel = column / kPanel, within = column % kPanel, width = p.panels.width(panel), step = k % p.block;
  std::byte* at = to + p.place(panel, k / p.block);
  if (step == 0) {
    std::memcpy(at + within * 4, &element.scale, sizeof(float));
    if (p.zeros) std::memcpy(at + (width + within) * 4, &element.zero, sizeof(float));
  }
  uint32_t word;
  at += (width * (p.zeros ? 2 : 1) + step / p.word_steps() * width + within) * 4;
  std::memcpy(&word, at, sizeof word);
  const uint32_t mask = p.bits == 8 ? 255 : 15;
  word |= (uint32_t(element.integer) & mask) << (step % p.word_steps() * p.bits);
  std::memcpy(at, &word, sizeof word);
}

void multiply_blocks(const BlockPanels& p, const std::byte* weights, int64_t panel, const FewRows& rows) {
  alignas(64) float sums[kFewRows * kPanel];
  const int64_t width = p.panels.width(panel), inside = std::min(width, p.panels.columns - panel * kPanel);
  for (int64_t r = 0; r < rows.rows; ++r) {
    float* const row = sums + r * kPanel;
    std::fill_n(row, width, 0.f);
    if (rows.bias) std::copy_n(rows.bias, inside, row);
  }
  const PanelBlocks blocks(p, weights, panel);
  const auto multiply = p.bits == 8 ? (p.zeros ? multiply_form<8, true> : multiply_form<8, false>)
                                    : (p.zeros ? multiply_form<4, true> : multiply_form<4, false>);
  multiply(blocks, rows.a, rows.a_row, rows.rows, sums);
  for (int64_t r = 0; r < rows.rows; ++r) std::copy_n(sums + r * kPanel, inside, rows.y + r * rows.y_row);
}

void unpack_panel(const BlockPanels& p, const std::byte* weights, int64_t panel, float* to) {
  const PanelBlocks blocks(p, weights, panel);
  const auto unpack = p.bits == 8 ? (p.zeros ? unpack_form<8, true> : unpack_form<8, false>)
                                  : (p.zeros ? unpack_form<4, true> : unpack_form<4, false>);
  unpack(blocks, {p.panels.depth, blocks.width}, to);
}

}  // namespace temper
