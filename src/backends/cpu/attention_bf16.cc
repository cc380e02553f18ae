// SPDX-License-Identifier: Apache-2.0
// attention of bf16 on CPUs that multiply it: both products are of blocks of 32 queries (bf16_blocks.h), for which the
// keys and values of a head are packed once. The scores of a block's queries are rows of f32 in L2, all keys long, so
// that a row's largest score is known before the first exp; what the values are multiplied by is rounded to bf16.
#include <cmath>
#include <cstring>

#include "backends/cpu/attention_on_cpu.h"
#include "backends/cpu/bf16_blocks.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/vmath.h"
#include "base/checked.h"
#include "base/threads.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace temper {

namespace {

constexpr int64_t kMostRows = 512;   // queries of a task: each packs the keys and values that it reads
constexpr int64_t kMostKeys = 8192;  // whose scores, keys and values are to stay in L2, or near it

// The scores of one query before the softmax.
struct Row {
  float* scores;       // from key 0 of the block on
  int64_t keys;        // a multiple of 32
  int64_t first, end;  // that take part; all others get no share
  float scale, softcap;
  const float* bias;  // by key; null: none
  bool chosen;        // by a mask of bool: -inf is a score, not an addend
};
struct Peak {
  float peak, sum;
};

#if defined(__x86_64__)
#define TEMPER_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

// 2^x for x <= 0 within 3e-6 of it, which bf16 does not see; its Taylor series around the nearest integer. NaN stays.
TEMPER_AVX512 inline __m512 exp2_below_one(__m512 x) {
  x = _mm512_maskz_max_ps(0xffff, _mm512_set1_ps(-160.f), x);  // gives its second operand where one is a NaN
  const __m512 n = _mm512_maskz_roundscale_ps(0xffff, x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), f = x - n;
  __m512 p = _mm512_set1_ps(0x1.5d8800p-10f);  // ln(2)^5 / 5!
  p = p * f + 0x1.3b2ab6p-7f;
  p = p * f + 0x1.c6b08ep-5f;
  p = p * f + 0x1.ebfbe0p-3f;
  p = p * f + 0x1.62e430p-1f;
  p = p * f + 1.f;
  return _mm512_maskz_scalef_ps(0xffff, p, n);
}

// Lanes i to i + 15 that are in [first, end).
TEMPER_AVX512 inline __mmask16 lanes_of(const Row& row, int64_t i) {
  if (i >= row.first && i + 16 <= row.end) return 0xffff;
  const int64_t low = std::clamp<int64_t>(row.first - i, 0, 16), high = std::clamp<int64_t>(row.end - i, 0, 16);
  return low < high ? __mmask16((1u << high) - (1u << low)) : __mmask16(0);
}

// Scores become what the softmax is of; returns the largest.
TEMPER_AVX512 float finish_scores(const Row& row) {
  const __m512 none = _mm512_set1_ps(kNone), scale = _mm512_set1_ps(row.scale);
  __m512 top = none;
  for (int64_t i = 0; i < row.keys; i += 16) {
    const __mmask16 lanes = lanes_of(row, i);
    __m512 s = _mm512_loadu_ps(row.scores + i) * scale;
    if (row.softcap > 0) {
      alignas(64) float capped[16];
      _mm512_store_ps(capped, s);
      for (float& score : capped) score = row.softcap * vmath::tanh(score / row.softcap);
      s = _mm512_load_ps(capped);
    }
    if (row.bias) {
      const __m512 bias = _mm512_maskz_loadu_ps(lanes, row.bias + i);
      if (row.chosen) s = _mm512_mask_mov_ps(s, _mm512_cmp_ps_mask(bias, _mm512_setzero_ps(), _CMP_LT_OQ), bias);
      else s += bias;
    }
    s = _mm512_mask_mov_ps(none, lanes, s);
    _mm512_storeu_ps(row.scores + i, s);
    top = _mm512_mask_mov_ps(top, _mm512_cmp_ps_mask(s, top, _CMP_GT_OQ), s);
  }
  alignas(64) float each[16];
  _mm512_store_ps(each, top);
  return *std::max_element(each, each + 16);
}

// Shares of the keys, not yet divided by their sum.
TEMPER_AVX512 Peak softmax_row(const Row& row, BFloat16* shares) {
  const float peak = finish_scores(row);
  // No key takes part: every share below is then 0 rather than NaN.
  const __m512 base = _mm512_set1_ps(peak == kNone ? 0.f : peak), log2e = _mm512_set1_ps(vmath::kLog2e);
  __m512 sums = _mm512_setzero_ps();
  for (int64_t i = 0; i < row.keys; i += 16) {
    const __m512 share = exp2_below_one((_mm512_loadu_ps(row.scores + i) - base) * log2e);
    sums += share;
    _mm512_storeu_ps(row.scores + i, share);
  }
  round_row(row.scores, shares, row.keys);
  alignas(64) float each[16];
  _mm512_store_ps(each, sums);
  for (int width = 8; width > 0; width /= 2)
    for (int l = 0; l < width; ++l) each[l] += each[l + width];
  return {peak, each[0]};
}
#else
Peak softmax_row(const Row&, BFloat16*) { fail(ErrorKind::unsupported, "this CPU has no products of bf16"); }
#endif

// Memory of one thread, in bytes.
struct Scratch {
  int64_t keys, values, queries, bias, scores, shares, sums, total;
  Scratch(const AttentionPorts& s, int64_t keys_in_block) {
    int64_t at = 0;
    const int64_t depth = round_up(s.key_size, kBf16Depth), columns = round_up(s.value_size, kBf16Columns);
    auto take = [&](int64_t elements, size_t size) {
      return std::exchange(at, at + round_up<int64_t>(elements * int64_t(size), 64));
    };
    keys = take(keys_in_block * depth, sizeof(BFloat16));
    values = take(keys_in_block * columns, sizeof(BFloat16));
    queries = take(kBf16Rows * depth, sizeof(BFloat16));
    bias = take(keys_in_block, sizeof(float));
    // Rows do not begin at the same place of a page, which caches would keep in few places.
    scores = take(kBf16Rows * (keys_in_block + 16), sizeof(float));
    shares = take(kBf16Rows * (keys_in_block + 32), sizeof(BFloat16));
    sums = take(kBf16Rows * columns, sizeof(float));
    total = at;
  }
};

class Bf16AttentionKernel final : public AttentionOnCpu {
 public:
  Bf16AttentionKernel(const Problem& problem, const Device& device)
      : AttentionOnCpu(problem), tiles_(may_use_tiles(device)), padded_keys_(round_up(s_.keys, kBf16Depth)) {
    const int64_t heads = std::max<int64_t>(1, s_.batch * s_.heads);
    const int64_t wanted = std::max(ceil_div(s_.queries, kMostRows), ceil_div<int64_t>(2 * threads_, heads));
    rows_ = round_up(std::max<int64_t>(1, ceil_div(s_.queries, wanted)), kBf16Rows);
    tasks_ = ceil_div(s_.queries, rows_);
  }

  int64_t workspace() const override { return threads_ * Scratch(s_, padded_keys_).total; }

  void launch(const Buffers& buffers) override {
    const Scratch at(s_, padded_keys_);
    parallel_for_threads(threads_, s_.batch * s_.heads * tasks_, 1, [&](int member, int64_t begin, int64_t end) {
      std::byte* const scratch = static_cast<std::byte*>(buffers.workspace) + member * at.total;
      Bf16Multiplier multiplier(tiles_);
      for (int64_t task = begin; task < end; ++task) {
        const int64_t first = task % tasks_ * rows_;
        run(multiplier, head_of<BFloat16>(buffers, task / tasks_), first, std::min(rows_, s_.queries - first), at,
            scratch);
      }
    });
  }

 private:
  using Head = AttentionHead<BFloat16>;

  // The keys that queries [first, first + rows) may see, from a multiple of 32 on.
  ops::KeyRange range_of_rows(const Head& head, int64_t first, int64_t rows) const {
    ops::KeyRange all{s_.keys, 0};
    for (int64_t i = first; i < first + rows; ++i) {
      const ops::KeyRange range = range_of(i, head.length);
      if (range.first >= range.end) continue;
      all.first = std::min(all.first, range.first), all.end = std::max(all.end, range.end);
    }
    if (all.first >= all.end) return {0, 0};
    all.first = all.first / kBf16Depth * kBf16Depth;
    return all;
  }

  void run(Bf16Multiplier& multiplier, const Head& head, int64_t first, int64_t rows, const Scratch& at,
           std::byte* scratch) const {
    BFloat16* const keys = reinterpret_cast<BFloat16*>(scratch + at.keys);
    BFloat16* const values = reinterpret_cast<BFloat16*>(scratch + at.values);
    const ops::KeyRange seen = range_of_rows(head, first, rows);
    const int64_t count = seen.end - seen.first;
    const Bf16Panels of_keys{s_.key_size, round_up(count, kBf16Columns)},
        of_values{round_up(count, kBf16Depth), s_.value_size};
    for (int64_t j = 0; j < of_keys.columns; j += 16)
      pack_rows_as_columns(head.k + (seen.first + j) * s_.k_pitch, s_.k_pitch, std::clamp<int64_t>(count - j, 0, 16),
                           of_keys, j, keys);
    for (int64_t j = 0; j < of_values.depth; j += 2)
      pack_two_rows(head.v + (seen.first + j) * s_.v_pitch, s_.v_pitch, std::clamp<int64_t>(count - j, 0, 2), of_values,
                    j, values);
    float* const bias = reinterpret_cast<float*>(scratch + at.bias);
    if (head.mask.data && head.mask.query == 0) head.mask.row(0, seen.first, count, bias);
    for (int64_t i = first; i < first + rows; i += kBf16Rows)
      run_block(multiplier, head, i, std::min(kBf16Rows, first + rows - i), seen, of_keys, of_values, at, scratch);
  }

  void run_block(Bf16Multiplier& multiplier, const Head& head, int64_t first, int64_t rows, const ops::KeyRange& packed,
                 const Bf16Panels& of_keys, const Bf16Panels& of_values, const Scratch& at, std::byte* scratch) const {
    const BFloat16 *const keys = reinterpret_cast<const BFloat16*>(scratch + at.keys),
                          *const values = reinterpret_cast<const BFloat16*>(scratch + at.values);
    float *const scores = reinterpret_cast<float*>(scratch + at.scores),
                 *const bias = reinterpret_cast<float*>(scratch + at.bias),
                 *const sums = reinterpret_cast<float*>(scratch + at.sums);
    BFloat16* const shares = reinterpret_cast<BFloat16*>(scratch + at.shares);
    const ops::KeyRange seen = range_of_rows(head, first, rows);
    const int64_t begin = seen.first < seen.end ? seen.first : packed.first,
                  length = round_up(std::max<int64_t>(0, seen.end - begin), kBf16Columns),
                  scores_row = padded_keys_ + 16, shares_row = padded_keys_ + 32,
                  sums_row = round_up(s_.value_size, kBf16Columns);

    const BFloat16* queries = head.q + first * s_.q_pitch;
    int64_t queries_row = s_.q_pitch;
    if (s_.key_size % kBf16Depth != 0) {
      BFloat16* const padded = reinterpret_cast<BFloat16*>(scratch + at.queries);
      const int64_t depth = round_up(s_.key_size, kBf16Depth);
      for (int64_t r = 0; r < rows; ++r) {
        std::memcpy(padded + r * depth, queries + r * s_.q_pitch, size_t(s_.key_size) * sizeof(BFloat16));
        std::memset(static_cast<void*>(padded + r * depth + s_.key_size), 0,
                    size_t(depth - s_.key_size) * sizeof(BFloat16));
      }
      queries = padded, queries_row = depth;
    }
    for (int64_t j = 0; j < length; j += kBf16Columns)
      multiplier.multiply({queries, queries_row, rows,
                           keys + (begin - packed.first + j) / kBf16Columns * of_keys.of_panel(), of_keys.steps(),
                           scores + j, scores_row});

    float scales[kBf16Rows];
    for (int64_t r = 0; r < rows; ++r) {
      const ops::KeyRange range = range_of(first + r, head.length);
      Row row{scores + r * scores_row,
              length,
              range.first - begin,
              range.end - begin,
              float(op_.scale),
              float(op_.softcap),
              nullptr,
              head.mask.dtype == DType::boolean};
      if (head.mask.data) {
        row.bias = bias;
        if (head.mask.query == 0) row.bias += begin - packed.first;
        else head.mask.row(first + r, begin, std::min(length, s_.keys - begin), bias);
      }
      const Peak peak = softmax_row(row, shares + r * shares_row);
      scales[r] = scale_of(peak.peak, peak.sum);
    }
    if (length == 0) std::memset(sums, 0, size_t(rows * sums_row) * sizeof(float));
    else
      for (int64_t e = 0; e < s_.value_size; e += kBf16Columns)
        multiplier.multiply({shares, shares_row, rows,
                             values + e / kBf16Columns * of_values.of_panel() +
                                 (begin - packed.first) / kBf16Depth * kBf16Depth * kBf16Columns,
                             length / kBf16Depth, sums + e, sums_row});
    for (int64_t r = 0; r < rows; ++r) {
      float* const sum = sums + r * sums_row;
      const bool zero = op_.zero_nan && scales[r] != scales[r];
      const float scale = scales[r];
      const int64_t size = s_.value_size;
      vectorised([=] {
        for (int64_t e = 0; e < size; ++e) sum[e] = zero ? 0.f : sum[e] * scale;
      });
      round_row(sum, head.y + (first + r) * s_.y_pitch, size);
    }
  }

  bool tiles_;
  int64_t padded_keys_, rows_, tasks_;
};

Support supports(const Problem& problem, const Device& device) {
  if (auto s = needs_op<ops::Attention>(problem); !s.yes()) return s;
  if (auto s = bf16_blocks_supported(device); !s.yes()) return s;
  if (problem.inputs[0].type.dtype != DType::bf16) return refused("not of bf16");
  if (const int64_t keys = problem.inputs[1].dims()[1]; keys > kMostKeys)
    return refused("more than ", kMostKeys, " keys");
  return supported();
}

std::vector<Config> configs(const Problem& problem, const Device&) { return {uniform_config(problem, Layout::plain)}; }

std::unique_ptr<Kernel> load(const Problem& problem, const Config&, const PackedView&, const Device& device) {
  return std::make_unique<Bf16AttentionKernel>(problem, device);
}

}  // namespace

extern const Tactic cpu_attention_bf16;
const Tactic cpu_attention_bf16{"cpu.attention.bf16", 1, supports, configs, nullptr, load, false, nullptr,
                                attention_takes_parts};

}  // namespace temper
