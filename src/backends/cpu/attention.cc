// SPDX-License-Identifier: Apache-2.0
// attention on CPUs in one go: scores are computed for a block of keys and some queries, and leave the cache for
// nowhere. The softmax is the online one (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018):
// a running maximum and sum for each query, by which what was summed before is scaled when the maximum grows.
// Scores lie transposed, [key][query]: queries fill the vectors, so maxima and sums need no step across lanes, and both
// products read one operand from rows that lie as the model has them. A few queries alone go row by row.
#include "graph/ops/attention.h"

#include <cmath>
#include <limits>

#include "backends/cpu/attention_on_cpu.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/half.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/lanes.h"
#include "backends/cpu/transpose_tiles.h"
#include "backends/cpu/vectors.h"
#include "backends/cpu/vmath.h"
#include "base/checked.h"
#include "base/threads.h"

namespace temper {

namespace {

constexpr int64_t kKeys = 64;        // keys of a block
constexpr int64_t kLane = 16;        // queries of a vector
constexpr int64_t kMostRows = 128;   // queries of a task: each copies the keys and values that it reads
constexpr int64_t kFewQueries = 7;   // up to so many go row by row
constexpr int64_t kRowPadding = 24;  // a multiple of the rows of all tiles

// c[m][n] = c[m][n] * factor[n] + sum over d of a[m * a_row + d * a_step] * b[d][n] for m < M, and N vectors of W
// elements n, W being the width of a register; c counts as 0 where there is no factor. b, c and factor are as wide as
// that. The sums are an array for each vector, not one of arrays: so compilers keep them in registers.
template <int W, int M, int N>
inline void multiply_tile(const float* a, int64_t a_row, int64_t a_step, const float* b, float* c, const float* factor,
                          int64_t depth) {
  static_assert(N >= 1 && N <= 4);
  using Vector = typename VectorOf<W>::Type;
  Vector one[M], two[M], three[M], four[M];
  Vector* to = reinterpret_cast<Vector*>(c);
  const Vector *scale = reinterpret_cast<const Vector*>(factor), *row = reinterpret_cast<const Vector*>(b);
  for (int m = 0; m < M; ++m) {
    one[m] = factor ? to[m * N] * scale[0] : Vector{};
    if constexpr (N > 1) two[m] = factor ? to[m * N + 1] * scale[1] : Vector{};
    if constexpr (N > 2) three[m] = factor ? to[m * N + 2] * scale[2] : Vector{};
    if constexpr (N > 3) four[m] = factor ? to[m * N + 3] * scale[3] : Vector{};
  }
  for (int64_t d = 0; d < depth; ++d, row += N)
    for (int m = 0; m < M; ++m) {
      const float element = a[m * a_row + d * a_step];
      one[m] += element * row[0];
      if constexpr (N > 1) two[m] += element * row[1];
      if constexpr (N > 2) three[m] += element * row[2];
      if constexpr (N > 3) four[m] += element * row[3];
    }
  for (int m = 0; m < M; ++m) {
    to[m * N] = one[m];
    if constexpr (N > 1) to[m * N + 1] = two[m];
    if constexpr (N > 2) to[m * N + 2] = three[m];
    if constexpr (N > 3) to[m * N + 3] = four[m];
  }
}

// All rows of a, a multiple of M.
template <int W, int M, int N>
inline void multiply(const float* a, int64_t rows, int64_t a_row, int64_t a_step, const float* b, float* c,
                     const float* factor, int64_t depth) {
  for (int64_t m = 0; m < rows; m += M)
    multiply_tile<W, M, N>(a + m * a_row, a_row, a_step, b, c + m * N * W, factor, depth);
}

// What is done to the scores of `keys` keys before the softmax; the scale is in the queries.
struct Scores {
  float softcap = 0;
  const float* bias = nullptr;  // [key] or, where `each`, [key][query]; the latter -inf and 0 where `chosen`
  bool each = false, chosen = false;
  const int32_t *first = nullptr, *end = nullptr;  // by query: its range of keys; null: all take part
  int32_t key = 0;                                 // of the first row
  bool none() const { return softcap <= 0 && !bias && !first; }
};

// s [keys][W]: what `how` says beside the softmax.
template <int W>
inline void change_scores(float* s, int64_t keys, const Scores& how) {
  for (int64_t j = 0; j < keys; ++j) {
    float* row = s + j * W;
    if (how.softcap > 0)
      for (int l = 0; l < W; ++l) row[l] = how.softcap * vmath::tanh(row[l] / how.softcap);
    if (how.bias && !how.each) {
      const float bias = how.bias[j];
      if (how.chosen && bias < 0)
        for (int l = 0; l < W; ++l) row[l] = bias;
      else
        for (int l = 0; l < W; ++l) row[l] += bias;
    } else if (how.bias) {
      const float* bias = how.bias + j * W;
      if (how.chosen)
        for (int l = 0; l < W; ++l) row[l] = bias[l] < 0 ? bias[l] : row[l];
      else
        for (int l = 0; l < W; ++l) row[l] += bias[l];
    }
    if (how.first) {
      const int32_t key = how.key + int32_t(j);
      for (int l = 0; l < W; ++l) row[l] = ((key >= how.first[l]) & (key < how.end[l])) ? row[l] : kNone;
    }
  }
}

// s [keys][N * V], V being the width of a register: scores become exp(score - peak), with the peak and sum of each
// query brought up to date; `factor` is what earlier sums are multiplied by.
template <int V, int N>
inline void softmax_block(float* s, int64_t keys, float* peak, float* sum, float* factor) {
  constexpr int W = V * N;
  using Vector = typename VectorOf<V>::Type;
  Vector most[N];
  for (int n = 0; n < N; ++n) load(peak + n * V, most[n]);
  const Vector* scores = reinterpret_cast<const Vector*>(s);
  for (int64_t j = 0; j < keys; ++j, scores += N)
    for (int n = 0; n < N; ++n) most[n] = scores[n] > most[n] ? scores[n] : most[n];
  float top[W], base[W], total[W];
  for (int n = 0; n < N; ++n) store(most[n], top + n * V);
  for (int l = 0; l < W; ++l) {
    base[l] = top[l] == kNone ? 0.f : top[l];  // no key so far: every exp below is then 0 rather than NaN
    factor[l] = vmath::exp(peak[l] - base[l]);
    peak[l] = top[l];
    total[l] = sum[l] * factor[l];
  }
  for (int64_t j = 0; j < keys; ++j) {
    float* row = s + j * W;
    for (int l = 0; l < W; ++l) {
      const float e = vmath::exp_below_zero(row[l] - base[l]);
      row[l] = e;
      total[l] += e;
    }
  }
  for (int l = 0; l < W; ++l) sum[l] = total[l];
}

// to[c * to_stride + r] = from[r * from_stride + c] for so many rows r and columns c.
template <class From, class To>
void transpose(const From* from, int64_t from_stride, int64_t rows, int64_t columns, To* to, int64_t to_stride) {
  int64_t whole = 0;
  if constexpr (std::is_same_v<From, float> && std::is_same_v<To, float>) {
    const int64_t side = cpu_isa() == Isa::avx512 ? 16 : cpu_isa() == Isa::avx2 ? 8 : 0;
    whole = side ? rows / side * side : 0;
    vectorised([=] {
      for (int64_t r = 0; r < whole; r += side) {
        int64_t c = 0;
        for (; c + side <= columns; c += side) {
          const From* piece = from + r * from_stride + c;
          To* place = to + c * to_stride + r;
          if (side == 16) transpose_16x16(piece, from_stride, place, to_stride);
          else
            transpose_8x8(reinterpret_cast<const std::byte*>(piece), from_stride * int64_t(sizeof(float)),
                          reinterpret_cast<std::byte*>(place), to_stride * int64_t(sizeof(float)));
        }
        for (; c < columns; ++c)
          for (int64_t i = r; i < r + side; ++i) to[c * to_stride + i] = from[i * from_stride + c];
      }
    });
  }
  for (int64_t r = whole; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      if constexpr (std::is_same_v<From, bool>) to[c * to_stride + r] = from[r * from_stride + c] ? 0.f : kNone;
      else to[c * to_stride + r] = static_cast<To>(static_cast<float>(from[r * from_stride + c]));
    }
}

// The tiles for the registers of an instruction set: rows, and queries in units of kLane.
struct Tiles {
  int rows, lanes;
};
constexpr int64_t kMostLanes = 3;
Tiles tiles_of(Isa isa) {
  if (isa == Isa::avx512) return {8, 2};
  return isa == Isa::avx2 || kNarrow == 4 ? Tiles{6, 1} : Tiles{2, 1};  // aarch64 has twice the registers of x86
}

// A panel of queries, and a block of `count` keys.
struct Panel {
  const float *keys, *values, *queries;  // [key][d]; [key][value_width]; [d][query]
  float *scores, *sums;                  // [key][query]; [e][query]
  float* states;                         // peak of each query; `state_stride` further its sum, then its factor
  int64_t state_stride, count, key_size, value_size, value_width;
};

template <int W, int M, int N>
inline void run_panel(const Panel& p, const Scores& how) {
  float *peak = p.states, *sum = peak + p.state_stride, *factor = sum + p.state_stride;
  multiply<W, M, N>(p.keys, round_up<int64_t>(p.count, M), p.key_size, 1, p.queries, p.scores, nullptr, p.key_size);
  if (!how.none()) change_scores<N * W>(p.scores, p.count, how);
  softmax_block<W, N>(p.scores, p.count, peak, sum, factor);
  multiply<W, M, N>(p.values, round_up<int64_t>(p.value_size, M), 1, p.value_width, p.scores, p.sums, factor, p.count);
}

void run_panel(const Panel& data, const Scores& how, Tiles tiles, int64_t width) {
  if (tiles.rows == 8 && width == 3 * kLane) vectorised([=] { run_panel<16, 8, 3>(data, how); });
  else if (tiles.rows == 8 && width == 2 * kLane) vectorised([=] { run_panel<16, 8, 2>(data, how); });
  else if (tiles.rows == 8) vectorised([=] { run_panel<16, 8, 1>(data, how); });
  else if (tiles.rows == 6) vectorised([=] { run_panel<kNarrow, 6, kLane / kNarrow>(data, how); });
  else vectorised([=] { run_panel<4, 2, 4>(data, how); });
}

// to[j * width + l] for `keys` keys and `queries` queries from (query, key) on; mask_to() gives to[j] of a mask of one
// row.
template <class T>
inline void copy_mask(const AttentionMask& mask, int64_t query, int64_t queries, int64_t width, int64_t key,
                      int64_t keys, float* to) {
  const T* from = static_cast<const T*>(mask.data) + query * mask.query + key * mask.key;
  if (mask.key == 1) transpose(from, mask.query, queries, keys, to, width);
  else
    for (int64_t l = 0; l < queries; ++l)
      for (int64_t j = 0; j < keys; ++j) to[j * width + l] = AttentionMask::value(from[l * mask.query]);
  for (int64_t j = 0; j < keys; ++j)
    for (int64_t l = queries; l < width; ++l) to[j * width + l] = 0;
}

// Rows of `size` elements, `pitch` apart, as f32 rows of `width`; the rest, and rows up to `padded`, are zeros.
template <class T>
inline void copy_rows(const T* from, int64_t pitch, int64_t rows, int64_t size, float* to, int64_t width,
                      int64_t padded) {
  vectorised([=] {
    for (int64_t r = 0; r < rows; ++r) {
      const T* const row = from + r * pitch;
      float* const copy = to + r * width;
      TEMPER_NO_ALIAS
      for (int64_t i = 0; i < size; ++i) copy[i] = widened<float>(row[i]);
      for (int64_t i = size; i < width; ++i) copy[i] = 0;
    }
    for (int64_t i = rows * width; i < padded * width; ++i) to[i] = 0;
  });
}

// Queries of the panel that begins at `panel` of `padded`. An odd number of vectors begins with three: one by itself
// would leave most of the registers empty.
int64_t width_of(int64_t panel, int64_t padded, Tiles tiles) {
  const int64_t left = (padded - panel) / kLane;
  if (tiles.lanes == 2 && left % 2 == 1 && left > 1) return 3 * kLane;
  return std::min<int64_t>(tiles.lanes, left) * kLane;
}

int64_t padded_value(const AttentionPorts& s) { return round_up(s.value_size, kRowPadding); }
constexpr int64_t padded_keys() { return (kKeys + kRowPadding - 1) / kRowPadding * kRowPadding; }

// Memory of one thread, in floats.
struct Scratch {
  int64_t keys, values, queries, scores, sums, bias, states, total;
  Scratch(const AttentionPorts& s, int64_t rows) {
    int64_t at = 0;
    auto take = [&](int64_t floats) { return std::exchange(at, at + round_up(floats, kLane)); };
    keys = take(padded_keys() * s.key_size);
    values = take(kKeys * padded_value(s));
    queries = take(rows * s.key_size);
    scores = take(std::max(padded_keys() * kMostLanes * kLane, s.keys));
    sums = take(rows * padded_value(s));
    bias = take(std::max(kKeys * kMostLanes * kLane, s.keys));
    states = take(5 * rows);  // peak, sum, factor; first and end key
    total = at;
  }
};

class AttentionKernel final : public AttentionOnCpu {
 public:
  explicit AttentionKernel(const Problem& problem) : AttentionOnCpu(problem) {
    // Blocks of equal size, enough of them for all threads.
    const int64_t heads = std::max<int64_t>(1, s_.batch * s_.heads);
    const int64_t wanted = std::max((s_.queries + kMostRows - 1) / kMostRows, (2 * threads_ + heads - 1) / heads);
    rows_ = std::min(kMostRows, round_up(std::max<int64_t>(1, (s_.queries + wanted - 1) / wanted), kLane));
    blocks_ = (s_.queries + rows_ - 1) / rows_;
    scratch_ = Scratch(s_, rows_).total;
  }

  int64_t workspace() const override { return threads_ * scratch_ * int64_t(sizeof(float)); }

  void launch(const Buffers& buffers) override {
    const Tiles tiles = tiles_of(cpu_isa());
    visit_dtype(dtype_, [&]<class T>() {
      if constexpr (is_float(dtype_of<T>) && sizeof(T) <= 4)
        parallel_for_threads(threads_, s_.batch * s_.heads * blocks_, 1, [&](int member, int64_t begin, int64_t end) {
          float* scratch = static_cast<float*>(buffers.workspace) + member * scratch_;
          for (int64_t task = begin; task < end; ++task) {
            const AttentionHead<T> head = head_of<T>(buffers, task / blocks_);
            const int64_t first = task % blocks_ * rows_, rows = std::min(rows_, s_.queries - first);
            if (s_.queries <= kFewQueries) run_rows(head, first, rows, scratch);
            else run_block(head, first, rows, tiles, scratch);
          }
        });
    });
  }

 private:
  int64_t rows_, blocks_, scratch_;

  // One query after the other: its scores as a row, then the sum of the values.
  template <class T>
  void run_rows(const AttentionHead<T>& head, int64_t first, int64_t rows, float* scratch) const {
    const Scratch at(s_, rows_);
    float *scores = scratch + at.scores, *bias = scratch + at.bias, *query = scratch + at.queries,
          *sums = scratch + at.sums;
    const int64_t key_size = s_.key_size, value_size = s_.value_size, k_pitch = s_.k_pitch, v_pitch = s_.v_pitch;
    const float scale = float(op_.scale), softcap = float(op_.softcap);
    for (int64_t i = first; i < first + rows; ++i) {
      const ops::KeyRange range = range_of(i, head.length);
      const int64_t keys = std::max<int64_t>(0, range.end - range.first);
      copy_rows(head.q + i * s_.q_pitch, 0, 1, key_size, query, key_size, 1);
      const T *k = head.k + range.first * k_pitch, *v = head.v + range.first * v_pitch;
      vectorised([=] {
        for (int64_t j = 0; j < keys; ++j) scores[j] = scale * dot(query, k + j * k_pitch, key_size);
        if (softcap > 0)
          for (int64_t j = 0; j < keys; ++j) scores[j] = softcap * vmath::tanh(scores[j] / softcap);
      });
      if (head.mask.data) {
        head.mask.row(i, range.first, keys, bias);
        const bool chosen = head.mask.dtype == DType::boolean;
        for (int64_t j = 0; j < keys; ++j) scores[j] = chosen && bias[j] < 0 ? bias[j] : scores[j] + bias[j];
      }
      float peak = kNone, sum = 0;
      float *const to_peak = &peak, *const to_sum = &sum;
      vectorised([=] {
        auto add = [](float a, float b) { return a + b; };
        *to_peak = reduce_row(
            scores, keys, kNone, [](float a, float b) { return b > a ? b : a; },
            [](float a, float b) { return b > a ? b : a; });
        const float base = *to_peak == kNone ? 0.f : *to_peak;
        for (int64_t j = 0; j < keys; ++j) scores[j] = vmath::exp(scores[j] - base);
        *to_sum = reduce_row(scores, keys, 0.f, add, add);
        for (int64_t e = 0; e < value_size; ++e) sums[e] = 0;
        for (int64_t j = 0; j < keys; ++j) {
          const T* value = v + j * v_pitch;
          const float weight = scores[j];
          TEMPER_NO_ALIAS
          for (int64_t e = 0; e < value_size; ++e) sums[e] += weight * widened<float>(value[e]);
        }
      });
      store(sums, 1, scale_of(peak, sum), head.y + i * s_.y_pitch);
    }
  }

  template <class T>
  static float dot(const float* a, const T* b, int64_t n) {
    float few[kLane] = {}, rest = 0;
    int64_t i = 0;
    for (; i + kLane <= n; i += kLane)
      for (int64_t l = 0; l < kLane; ++l) few[l] += a[i + l] * static_cast<float>(b[i + l]);
    for (; i < n; ++i) rest += a[i] * static_cast<float>(b[i]);
    for (int64_t width = kLane / 2; width > 0; width /= 2)
      for (int64_t l = 0; l < width; ++l) few[l] += few[l + width];
    return few[0] + rest;
  }

  // A row of the output from its sums, which are `stride` apart.
  template <class T>
  void store(const float* sums, int64_t stride, float scale, T* y) const {
    const bool zero = op_.zero_nan && scale != scale;
    for (int64_t e = 0; e < s_.value_size; ++e) y[e] = static_cast<T>(zero ? 0.f : sums[e * stride] * scale);
  }

  static void mask_to(const AttentionMask& mask, int64_t query, int64_t queries, int64_t width, int64_t key,
                      int64_t keys, float* to) {
    if (mask.query == 0) return mask.row(query, key, keys, to);
    switch (mask.dtype) {
      case DType::boolean: return copy_mask<bool>(mask, query, queries, width, key, keys, to);
      case DType::f16: return copy_mask<Half>(mask, query, queries, width, key, keys, to);
      case DType::bf16: return copy_mask<BFloat16>(mask, query, queries, width, key, keys, to);
      case DType::f64: return copy_mask<double>(mask, query, queries, width, key, keys, to);
      default: return copy_mask<float>(mask, query, queries, width, key, keys, to);
    }
  }

  // Queries `first` to `first + rows`, a panel of some vectors at a time, against one block of keys after the other.
  template <class T>
  void run_block(const AttentionHead<T>& head, int64_t first, int64_t rows, Tiles tiles, float* scratch) const {
    const Scratch at(s_, rows_);
    const int64_t padded = round_up(rows, kLane);
    float *keys = scratch + at.keys, *values = scratch + at.values, *states = scratch + at.states;
    int32_t *from = reinterpret_cast<int32_t*>(states + 3 * rows_), *to = from + rows_;
    int64_t least = s_.keys, most = 0;
    for (int64_t l = 0; l < padded; ++l) {
      const ops::KeyRange range = range_of(first + std::min(l, rows - 1), head.length);
      from[l] = int32_t(range.first), to[l] = int32_t(range.end);
      least = std::min(least, range.first), most = std::max(most, range.end);
      states[l] = kNone, states[rows_ + l] = 0;
    }
    for (int64_t panel = 0, width; panel < padded; panel += width) {  // [d][query of the panel]
      width = width_of(panel, padded, tiles);
      const int64_t count = std::min(width, rows - panel);
      float* to_queries = scratch + at.queries + panel * s_.key_size;
      transpose(head.q + (first + panel) * s_.q_pitch, s_.q_pitch, count, s_.key_size, to_queries, width);
      for (int64_t d = 0; d < s_.key_size && count < width; ++d)
        for (int64_t l = count; l < width; ++l) to_queries[d * width + l] = 0;
      const float scale = float(op_.scale);
      const int64_t elements = s_.key_size * width;
      vectorised([=] {
        for (int64_t i = 0; i < elements; ++i) to_queries[i] *= scale;
      });
    }
    std::fill_n(scratch + at.sums, padded * padded_value(s_), 0.f);
    for (int64_t key = least / kKeys * kKeys; key < most; key += kKeys) {
      const int64_t count = std::min(kKeys, s_.keys - key);
      copy_rows(head.k + key * s_.k_pitch, s_.k_pitch, count, s_.key_size, keys, s_.key_size,
                round_up<int64_t>(count, tiles.rows));
      copy_rows(head.v + key * s_.v_pitch, s_.v_pitch, count, s_.value_size, values, padded_value(s_), count);
      for (int64_t panel = 0, width; panel < padded; panel += width) {
        width = width_of(panel, padded, tiles);
        const auto [lowest, last_first] = std::minmax_element(from + panel, from + panel + width);
        const auto [first_end, highest] = std::minmax_element(to + panel, to + panel + width);
        if (*highest <= key || *lowest >= key + count) continue;
        Scores how{float(op_.softcap)};
        how.key = int32_t(key);
        if (*last_first > key || *first_end < key + count) how.first = from + panel, how.end = to + panel;
        if (head.mask.data) {
          how.bias = scratch + at.bias;
          how.each = head.mask.query != 0, how.chosen = head.mask.dtype == DType::boolean;
          mask_to(head.mask, first + panel, std::min(width, rows - panel), width, key, count, scratch + at.bias);
        }
        const Panel data{keys,
                         values,
                         scratch + at.queries + panel * s_.key_size,
                         scratch + at.scores,
                         scratch + at.sums + panel * padded_value(s_),
                         states + panel,
                         rows_,
                         count,
                         s_.key_size,
                         s_.value_size,
                         padded_value(s_)};
        run_panel(data, how, tiles, width);
      }
    }
    for (int64_t panel = 0, width; panel < padded; panel += width) {
      width = width_of(panel, padded, tiles);
      float *sums = scratch + at.sums + panel * padded_value(s_), *scales = states + 2 * rows_ + panel;
      for (int64_t l = 0; l < width; ++l) scales[l] = scale_of(states[panel + l], states[rows_ + panel + l]);
      const int64_t value_size = s_.value_size, lanes = width;
      const bool zero_nan = op_.zero_nan;
      vectorised([=] {
        for (int64_t e = 0; e < value_size; ++e)
          for (int64_t l = 0; l < lanes; ++l) {
            const float y = sums[e * lanes + l] * scales[l];
            sums[e * lanes + l] = zero_nan && scales[l] != scales[l] ? 0.f : y;
          }
      });
      transpose(sums, width, value_size, std::min(width, rows - panel), head.y + (first + panel) * s_.y_pitch,
                s_.y_pitch);
    }
  }
};

// Where the CPU multiplies bf16, products of that are faster than this kernel, which computes in f32; of a few queries,
// reading the keys and values is what takes the time.
Support supports(const Problem& problem, const Device& device) {
  if (auto s = needs_op<ops::Attention>(problem); !s.yes()) return s;
  if (problem.inputs[0].type.dtype == DType::f64) return refused("f64 is left to the reference");
  if (problem.inputs[0].type.dtype == DType::bf16 && device.avx512_bf16 && problem.inputs[0].dims()[1] > kFewQueries)
    return refused("products of bf16 are faster on this CPU");
  if (problem.inputs[1].dims()[1] > std::numeric_limits<int32_t>::max() - kKeys) return refused("too many keys");
  return supported();
}

std::vector<Config> configs(const Problem& problem, const Device&) { return {uniform_config(problem, Layout::plain)}; }

std::unique_ptr<Kernel> load(const Problem& problem, const Config&, const PackedView&, const Device&) {
  return std::make_unique<AttentionKernel>(problem);
}

}  // namespace

extern const Tactic cpu_attention;
const Tactic cpu_attention{"cpu.attention", 2, supports, configs, nullptr, load, false, nullptr, attention_takes_parts};

}  // namespace temper
