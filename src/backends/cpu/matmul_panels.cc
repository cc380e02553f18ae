// SPDX-License-Identifier: Apache-2.0
// Products of f32 with constant weights, packed in panels of 48 columns, [panel][k][column]. Up to eight rows of the
// result times a panel stay in registers (8 x 48 of AVX-512's 32, 4 x 24 of AVX2's 16), so that a step of k loads three
// vectors and broadcasts eight numbers for 24 fused multiply-adds. The sizes are those of the analysis of Goto and van
// de Geijn, "Anatomy of high-performance matrix multiplication" (2008): a slice of the left matrix stays in L2 while
// panels pass by.
#include <cstring>

#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/onednn.h"
#include "base/checked.h"
#include "base/threads.h"
#include "graph/ops/matmul.h"

namespace temper {

namespace {

constexpr int64_t kPanel = 48;              // columns of a panel; the last one has a multiple of 16
constexpr int64_t kRows = 8;                // rows of the result at once
constexpr int64_t kChunk = 192;             // rows that a thread takes through all its panels
constexpr int64_t kSliceBytes = 320 << 10;  // of the left matrix that are to stay in L2
constexpr int64_t kLeastSlice = 256;        // steps of k: below, the sums go to memory too often

template <int w>
struct VectorOf {
  typedef float Type __attribute__((vector_size(w * sizeof(float)), may_alias, aligned(4)));
};

struct Tile {
  const float* a;
  int64_t a_row, depth;  // steps of k
  const float* weights;
  int64_t step;  // columns of the panel
  const float* start;
  int64_t start_row;  // 0: the same for all rows, a bias
  float* y;
  int64_t y_row;
};

// y = start + a * weights, for m rows and v vectors of w columns.
template <int w, int m, int v>
inline void multiply(const Tile& tile) {
  using Vector = typename VectorOf<w>::Type;
  Vector sum[m * v];
#pragma GCC unroll 8
  for (int r = 0; r < m; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < v; ++c)
      sum[r * v + c] = *reinterpret_cast<const Vector*>(tile.start + r * tile.start_row + c * w);
  const float *a = tile.a, *weights = tile.weights;
  for (int64_t k = 0; k < tile.depth; ++k, weights += tile.step) {
    Vector column[v];
#pragma GCC unroll 4
    for (int c = 0; c < v; ++c) column[c] = *reinterpret_cast<const Vector*>(weights + c * w);
#pragma GCC unroll 8
    for (int r = 0; r < m; ++r)
#pragma GCC unroll 4
      for (int c = 0; c < v; ++c) sum[r * v + c] += a[r * tile.a_row + k] * column[c];
  }
#pragma GCC unroll 8
  for (int r = 0; r < m; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < v; ++c) *reinterpret_cast<Vector*>(tile.y + r * tile.y_row + c * w) = sum[r * v + c];
}

template <int w, int m>
inline void multiply_columns(const Tile& tile, int64_t columns) {
  switch (columns / w) {
    case 1: return multiply<w, m, 1>(tile);
    case 2: return multiply<w, m, 2>(tile);
    default: return multiply<w, m, 3>(tile);
  }
}

// Up to eight rows with AVX-512, up to four elsewhere; `columns`: one to three vectors.
template <int w>
inline void multiply_rows(const Tile& tile, int64_t rows, int64_t columns) {
  if constexpr (w == 16) {
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

// All rows of a chunk by a panel of `columns`, a multiple of 16: `most` rows and three vectors of w columns at once.
template <int w>
inline void multiply_by(const Tile& tile, int64_t rows, int64_t columns) {
  constexpr int64_t most = w == 16 ? kRows : kRows / 2, vectors = 3 * w;
  Tile part = tile;
  for (int64_t row = 0; row < rows; row += most) {
    const int64_t count = std::min(most, rows - row);
    for (int64_t c = 0; c < columns; c += vectors) {
      part.a = tile.a + row * tile.a_row;
      part.weights = tile.weights + c;
      part.start = tile.start + row * tile.start_row + c;
      part.y = tile.y + row * tile.y_row + c;
      multiply_rows<w>(part, count, std::min(vectors, columns - c));
    }
  }
}

void multiply_panel(const Tile& tile, int64_t rows, int64_t columns) {
  vectorised_by_16_or_8([=] { multiply_by<16>(tile, rows, columns); }, [=] { multiply_by<8>(tile, rows, columns); });
}

struct Sizes {
  int64_t m, k, n;
  explicit Sizes(const Problem& problem) {
    k = problem.inputs[0].dims().back(), n = problem.outputs[0].dims().back();
    m = element_count(problem.outputs[0].dims()) / n;
  }
  int64_t wide() const { return round_up<int64_t>(n, 16); }
  int64_t panels() const { return ceil_div(n, kPanel); }
};

AbsorbedEpilogue epilogue_of(const Problem& problem) {
  const Dims y = problem.outputs[0].dims();
  return absorb_epilogue(problem.op.get<ops::MatMul>().epilogue, DType::f32, extra_types(problem, 2),
                         problem.outputs[0].type, y.size() - 1, Layout::plain, Absorb::bias_only);
}

class PanelsKernel final : public Kernel {
 public:
  PanelsKernel(const Problem& problem, const Config& config, std::span<const std::byte> packed)
      : s_(problem), threads_(std::max(1, problem.threads)), weights_(reinterpret_cast<const float*>(packed.data())) {
    const Config plain = uniform_config(problem, Layout::plain);
    expect_layouts(config, plain.inputs, plain.outputs);
    expect_packed(packed, size_t(s_.wide() * s_.k) * sizeof(float));
    const AbsorbedEpilogue epilogue = epilogue_of(problem);
    bias_ = epilogue.bias >= 0 ? epilogue.bias + 2 : -1;
    tail_ = EpilogueTail(problem, DType::f32, epilogue.rest, Layout::plain);
    // Threads share out the panels; where those are few, chunks of rows too, all of nearly one size.
    by_panels_ = s_.panels() % threads_ == 0 || s_.panels() >= 4 * threads_;
    int64_t chunks = ceil_div(s_.m, kChunk);
    if (!by_panels_) chunks = std::max(chunks, ceil_div<int64_t>(4 * threads_, s_.panels()));
    chunk_ = round_up(ceil_div(s_.m, chunks), kRows);
    const int64_t slices = ceil_div(s_.k * chunk_ * int64_t(sizeof(float)), kSliceBytes);
    slice_ = std::max(ceil_div(s_.k, slices), std::min(kLeastSlice, s_.k));
  }

  int64_t workspace() const override { return tail_.workspace(0); }
  bool reads(size_t input) const override { return input != 1; }

  void launch(const Buffers& buffers) override {
    const float* const a = static_cast<const float*>(buffers.inputs[0]);
    const float* const bias = bias_ >= 0 ? static_cast<const float*>(buffers.inputs[size_t(bias_)]) : nullptr;
    float* const y = static_cast<float*>(tail_.destination(buffers));
    const int64_t panels = s_.panels(), chunks = ceil_div(s_.m, chunk_), each = 2 * kPanel * s_.k;
    if (by_panels_) {
      parallel_for_threads(threads_, panels, std::max<int64_t>(1, kParallel / (each * s_.m)),
                           [&](int, int64_t begin, int64_t end) {
                             for (int64_t i = 0; i < chunks; ++i) run(a, bias, y, i * chunk_, begin, end);
                           });
      return tail_.run(buffers);
    }
    parallel_for_threads(threads_, panels * chunks, std::max<int64_t>(1, kParallel / (each * chunk_)),
                         [&](int, int64_t begin, int64_t end) {
                           while (begin < end) {
                             const int64_t first = begin % panels, last = std::min(panels, first + end - begin);
                             run(a, bias, y, begin / panels * chunk_, first, last);
                             begin += last - first;
                           }
                         });
    tail_.run(buffers);
  }

 private:
  static constexpr int64_t kParallel = 1 << 16;  // operations worth a thread

  // Rows from `row` on by the panels [first, last), a slice of k after the other.
  void run(const float* a, const float* bias, float* y, int64_t row, int64_t first, int64_t last) const {
    const int64_t rows = std::min(chunk_, s_.m - row);
    alignas(64) static constexpr float zeros[kPanel] = {};
    for (int64_t k = 0; k < s_.k; k += slice_)
      for (int64_t panel = first; panel < last; ++panel) {
        const int64_t column = panel * kPanel, columns = std::min(kPanel, s_.wide() - column),
                      inside = std::min(columns, s_.n - column);
        float* const to = y + row * s_.n + column;
        Tile tile{a + row * s_.k + k,
                  s_.k,
                  std::min(slice_, s_.k - k),
                  weights_ + column * s_.k + k * columns,
                  columns,
                  to,
                  s_.n,
                  to,
                  s_.n};
        alignas(64) float edge[kRows * kPanel] = {}, start[kPanel] = {};
        if (k == 0) {
          tile.start = zeros, tile.start_row = 0;
          if (bias && inside == columns) tile.start = bias + column;
          else if (bias) std::copy_n(bias + column, inside, start), tile.start = start;
        }
        if (inside == columns) {
          multiply_panel(tile, rows, columns);
          continue;
        }
        // The last columns, by way of a buffer that has room for whole vectors.
        for (int64_t r = 0; r < rows; r += kRows) {
          const int64_t count = std::min(kRows, rows - r);
          Tile part = tile;
          part.a = tile.a + r * s_.k;
          part.y = edge, part.y_row = kPanel;
          if (k > 0) {
            for (int64_t i = 0; i < count; ++i) std::copy_n(to + (r + i) * s_.n, inside, edge + i * kPanel);
            part.start = edge, part.start_row = kPanel;
          }
          multiply_panel(part, count, columns);
          for (int64_t i = 0; i < count; ++i) std::copy_n(edge + i * kPanel, inside, to + (r + i) * s_.n);
        }
      }
  }

  Sizes s_;
  int threads_;
  const float* weights_;
  int bias_ = -1;
  bool by_panels_ = false;
  int64_t chunk_ = 0, slice_ = 0;
  EpilogueTail tail_;
};

Support supports(const Problem& problem, const Device&) {
  if (auto s = needs_op<ops::MatMul>(problem); !s.yes()) return s;
  const Dims b = problem.inputs[1].dims();
  if (problem.inputs[0].type.dtype != DType::f32) return refused("not of f32");
  if (problem.op.get<ops::MatMul>().transpose_a) return refused("the left operand is transposed");
  if (!problem.inputs[1].is_constant) return refused("the weights are not constant");
  for (size_t i = 0; i + 2 < b.size(); ++i)
    if (b[i] != 1) return refused("a batch of weights");
  if (problem.inputs[0].dims().size() != problem.outputs[0].dims().size()) return refused("the weights have more axes");
  if (element_count(problem.outputs[0].dims()) == 0 || element_count(problem.inputs[0].dims()) == 0)
    return refused("an empty tensor");
  if (auto s = EpilogueTail::supports(problem, DType::f32, epilogue_of(problem).rest, Layout::plain); !s.yes())
    return refused("its epilogue: ", s.reason);
  return supported();
}

std::vector<Config> configs(const Problem& problem, const Device&) { return {uniform_config(problem, Layout::plain)}; }

// Packed: [panel][k][column], with zeros behind the last column up to a multiple of 16.
Packed build(const Problem& problem, const Config&, const Device&) {
  const Sizes s(problem);
  const bool transposed = problem.op.get<ops::MatMul>().transpose_b;
  const float* const from = problem.inputs[1].constant->data<float>();
  Packed packed;
  packed.bytes.resize(size_t(s.wide() * s.k) * sizeof(float));
  std::memset(packed.bytes.data(), 0, packed.bytes.size());
  float* const to = reinterpret_cast<float*>(packed.bytes.data());
  for (int64_t column = 0; column < s.n; ++column) {
    const int64_t first = column / kPanel * kPanel, columns = std::min(kPanel, s.wide() - first);
    float* const place = to + first * s.k + column - first;
    for (int64_t k = 0; k < s.k; ++k) place[k * columns] = transposed ? from[column * s.k + k] : from[k * s.n + column];
  }
  packed.consumed.assign(problem.inputs.size(), false);
  packed.consumed[1] = true;
  return packed;
}

std::unique_ptr<Kernel> load(const Problem& problem, const Config& config, const PackedView& packed, const Device&) {
  return std::make_unique<PanelsKernel>(problem, config, packed);
}

}  // namespace

extern const Tactic cpu_matmul_panels;
const Tactic cpu_matmul_panels{"cpu.matmul.panels", 1, supports, configs, build, load};

}  // namespace temper
