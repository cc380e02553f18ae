// SPDX-License-Identifier: Apache-2.0
// Convolutions and products of 8-bit integers by constant weights where the CPU has no AVX512-VNNI. Sums are exact:
//
// * AVX2's product of bytes (vpmaddubsw) saturates at 16 bits; here both sides are widened to 16 bits first, so that
//   vpmaddwd gives exact sums of two products, 16 multiply-adds an instruction where FP32 has 8.
// * A dot product adds four products of bytes to 32 bits. aarch64's takes signed bytes: unsigned ones are moved by 128,
//   and sums begin at 128 times the sum of their column's weights. AVX-VNNI's (vpdpbusd in 256 bits, which CPUs have
//   that lack AVX-512) takes unsigned bytes on the left, so signed ones are moved, and the sign turns round.
//
// Weights are packed in panels of 16 columns, [panel][word of k][column][2 or 4]. A chunk of rows is brought into words
// once (a convolution's taps become columns of k), and stays in L2 while all panels pass by. Groups with less than 16
// columns share a panel, whose weights are zero where a column meets another group's channels.
#if defined(__aarch64__)
#include <arm_neon.h>
#endif
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cstring>

#include "backends/cpu/cpu.h"
#include "backends/cpu/int8_results.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/picture.h"
#include "base/threads.h"

namespace temper {

namespace {

constexpr int64_t kPanel = kSumColumns;
constexpr int64_t kRows = 6;            // of the result at once: 6 x 2 sums, 2 weights and 2 more fill 16 registers
constexpr int64_t kSlice = 256;         // words of k: 16 KiB of weights of a panel, which stay in L1 for all rows
constexpr int64_t kChunk = 48;          // rows, at most
constexpr int64_t kParallel = 1 << 17;  // multiplications worth a thread

Layout layout_of(const Problem& problem) { return problem.op.is<ops::Conv>() ? Layout::channels_last : Layout::plain; }
size_t channel_axis(const Problem& problem) {
  return problem.op.is<ops::Conv>() ? 1 : problem.outputs[0].dims().size() - 1;
}

// How many numbers of k a word of 32 bits has: two of 16 bits, or four bytes for the dot product.
enum class Word : uint8_t { pair, quad };
int64_t words_of(const Picture& picture, Word word) {
  return ceil_div<int64_t>(picture.depth(), word == Word::pair ? 2 : 4);
}
int64_t panels_of(const Picture& picture) { return ceil_div(picture.group_columns(), kPanel); }  // of a group
// What the left side of a dot product may be, and what sums begin at, times the sum of a column's weights, where bytes
// of the other sign were moved by 128.
#if defined(__aarch64__)
constexpr DType kLeft = DType::i8;
constexpr int kBegin = 128;
#else
constexpr DType kLeft = DType::u8;
constexpr int kBegin = -128;
#endif
// Where bytes are moved, what the sums of each column begin at lies behind the weights.
bool is_moved(const Problem& problem, Word word) { return word == Word::quad && problem.inputs[0].type.dtype != kLeft; }
int64_t packed_words(const Problem& problem, const Picture& picture, Word word) {
  return picture.groups * panels_of(picture) * kPanel * (words_of(picture, word) + is_moved(problem, word));
}

// 32-bit sums of a block of rows and a panel.
struct Block {
  const int32_t* rows;
  int64_t stride;  // words from a row to the next
  const int32_t* weights;
  int64_t words;
  int32_t* sums;  // [row][kPanel]
  bool adds;      // to what is there
};

#if defined(__x86_64__) && defined(__GNUC__)
template <int m>
__attribute__((target("avx2,fma"))) void multiply_avx2(const Block& block) {
  __m256i low[m], high[m];
  auto* const sums = reinterpret_cast<__m256i*>(block.sums);
#pragma GCC unroll 8
  for (int r = 0; r < m; ++r) low[r] = high[r] = _mm256_setzero_si256();
  if (block.adds) {
#pragma GCC unroll 8
    for (int r = 0; r < m; ++r)
      low[r] = _mm256_loadu_si256(sums + 2 * r), high[r] = _mm256_loadu_si256(sums + 2 * r + 1);
  }
  const auto* weights = reinterpret_cast<const __m256i*>(block.weights);
  const int32_t* rows[m];
#pragma GCC unroll 8
  for (int r = 0; r < m; ++r) rows[r] = block.rows + r * block.stride;
  for (int64_t k = 0; k < block.words; ++k, weights += 2) {
    const __m256i first = _mm256_loadu_si256(weights), second = _mm256_loadu_si256(weights + 1);
#pragma GCC unroll 8
    for (int r = 0; r < m; ++r) {
      const __m256i both = _mm256_set1_epi32(rows[r][k]);
      low[r] = _mm256_add_epi32(low[r], _mm256_madd_epi16(both, first));
      high[r] = _mm256_add_epi32(high[r], _mm256_madd_epi16(both, second));
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < m; ++r) _mm256_storeu_si256(sums + 2 * r, low[r]), _mm256_storeu_si256(sums + 2 * r + 1, high[r]);
}

template <int m>
__attribute__((target("avx2,fma,avxvnni"))) void multiply_quads(const Block& block) {
  __m256i low[m], high[m];
  auto* const sums = reinterpret_cast<__m256i*>(block.sums);
#pragma GCC unroll 8
  for (int r = 0; r < m; ++r) {
    low[r] = block.adds ? _mm256_loadu_si256(sums + 2 * r) : _mm256_setzero_si256();
    high[r] = block.adds ? _mm256_loadu_si256(sums + 2 * r + 1) : _mm256_setzero_si256();
  }
  const auto* weights = reinterpret_cast<const __m256i*>(block.weights);
  for (int64_t k = 0; k < block.words; ++k, weights += 2) {
    const __m256i first = _mm256_loadu_si256(weights), second = _mm256_loadu_si256(weights + 1);
#pragma GCC unroll 8
    for (int r = 0; r < m; ++r) {
      const __m256i quad = _mm256_set1_epi32(block.rows[r * block.stride + k]);
      low[r] = _mm256_dpbusd_avx_epi32(low[r], quad, first);
      high[r] = _mm256_dpbusd_avx_epi32(high[r], quad, second);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < m; ++r) _mm256_storeu_si256(sums + 2 * r, low[r]), _mm256_storeu_si256(sums + 2 * r + 1, high[r]);
}

// Vectors overlap where `count` is no multiple of theirs.
template <bool negative>
__attribute__((target("avx2"))) void widen_avx2(const std::byte* from, int64_t count, int16_t* to) {
  const auto widen_8 = [](__m128i bytes) __attribute__((target("avx2"))) {
    return negative ? _mm_cvtepi8_epi16(bytes) : _mm_cvtepu8_epi16(bytes);
  };
  const auto move_16 = [=](int64_t i) __attribute__((target("avx2"))) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i),
                        negative ? _mm256_cvtepi8_epi16(bytes) : _mm256_cvtepu8_epi16(bytes));
  };
  const auto move_8 = [=](int64_t i) __attribute__((target("avx2"))) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     widen_8(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + i))));
  };
  const auto move_4 = [=](int64_t i) __attribute__((target("avx2"))) {
    int32_t bytes;
    std::memcpy(&bytes, from + i, sizeof bytes);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to + i), widen_8(_mm_cvtsi32_si128(bytes)));
  };
  if (count >= 16) {
    for (int64_t i = 0; i + 16 < count; i += 16) move_16(i);
    move_16(count - 16);
  } else if (count >= 8) {
    move_8(0), move_8(count - 8);
  } else if (count >= 4) {
    move_4(0), move_4(count - 4);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = negative ? int8_t(from[i]) : uint8_t(from[i]);
  }
}
#endif

#if defined(__aarch64__)
template <int m>
__attribute__((target("arch=armv8.2-a+dotprod"))) void multiply_quads(const Block& block) {
  constexpr int kVectors = kPanel / 4;
  int32x4_t sums[m * kVectors];
#pragma GCC unroll 32
  for (int i = 0; i < m * kVectors; ++i) sums[i] = block.adds ? vld1q_s32(block.sums + 4 * i) : vdupq_n_s32(0);
  const auto* weights = reinterpret_cast<const int8_t*>(block.weights);
  for (int64_t k = 0; k < block.words; ++k, weights += 4 * kPanel) {
    int8x16_t columns[kVectors];
#pragma GCC unroll 4
    for (int c = 0; c < kVectors; ++c) columns[c] = vld1q_s8(weights + 16 * c);
#pragma GCC unroll 8
    for (int r = 0; r < m; ++r) {
      const int8x16_t quad = vreinterpretq_s8_s32(vld1q_dup_s32(block.rows + r * block.stride + k));
#pragma GCC unroll 4
      for (int c = 0; c < kVectors; ++c) sums[r * kVectors + c] = vdotq_s32(sums[r * kVectors + c], columns[c], quad);
    }
  }
#pragma GCC unroll 32
  for (int i = 0; i < m * kVectors; ++i) vst1q_s32(block.sums + 4 * i, sums[i]);
}
#endif

void multiply_plain(const Block& block, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r) {
    const auto* w = reinterpret_cast<const int16_t*>(block.weights);
    int32_t sums[kPanel] = {};
    if (block.adds) std::memcpy(sums, block.sums + r * kPanel, sizeof sums);
    for (int64_t k = 0; k < block.words; ++k, w += 2 * kPanel) {
      int16_t x[2];
      std::memcpy(x, block.rows + r * block.stride + k, sizeof x);
      for (int64_t c = 0; c < kPanel; ++c) sums[c] += int32_t(x[0]) * w[2 * c] + int32_t(x[1]) * w[2 * c + 1];
    }
    std::memcpy(block.sums + r * kPanel, sums, sizeof sums);
  }
}

// `run` for as many rows: run.operator()<rows>().
template <class Run>
void with_rows(int64_t rows, Run&& run) {
  switch (rows) {
    case 6: return run.template operator()<6>();
    case 5: return run.template operator()<5>();
    case 4: return run.template operator()<4>();
    case 3: return run.template operator()<3>();
    case 2: return run.template operator()<2>();
    default: return run.template operator()<1>();
  }
}

void multiply(Word word, const Block& block, int64_t rows) {
#if defined(__aarch64__) || (defined(__x86_64__) && defined(__GNUC__))
  if (word == Word::quad) return with_rows(rows, [&]<int m>() { multiply_quads<m>(block); });
#endif
#if defined(__x86_64__) && defined(__GNUC__)
  if (cpu_isa() != Isa::base) return with_rows(rows, [&]<int m>() { multiply_avx2<m>(block); });
#endif
  multiply_plain(block, rows);
}

void widen(bool negative, const std::byte* from, int64_t count, int16_t* to) {
#if defined(__x86_64__) && defined(__GNUC__)
  if (cpu_isa() != Isa::base) return negative ? widen_avx2<true>(from, count, to) : widen_avx2<false>(from, count, to);
#endif
  for (int64_t i = 0; i < count; ++i) to[i] = negative ? int16_t(int8_t(from[i])) : int16_t(uint8_t(from[i]));
}

void move_bytes(const std::byte* from, int64_t count, std::byte sign, std::byte* to) {
  if (sign == std::byte(0)) {
    std::memcpy(to, from, size_t(count));
    return;
  }
  vectorised_by_8([=] {
    TEMPER_NO_ALIAS
    for (int64_t i = 0; i < count; ++i) to[i] = from[i] ^ sign;
  });
}

std::optional<IntegerEpilogue> epilogue_of(const Problem& problem) {
  return Int8Results::absorb(problem, *temper::epilogue_of(problem.op), channel_axis(problem), layout_of(problem));
}

Config config_of(const Problem& problem, Word word) {
  const Layout layout = layout_of(problem);
  Config config{word == Word::pair ? "" : "quads", {layout, Layout::plain}, {layout}};
  for (const TensorType& extra : extra_types(problem, 2))
    config.inputs.push_back(extra_layout(extra, problem.outputs[0].type, layout));
  return config;
}
Word word_of(const Config& config, const Device& device) {
  if (config.text.empty()) return Word::pair;
  if (config.text != "quads" || !device.dot_product)
    fail(ErrorKind::bad_file, "cpu.int8_panels: the configuration '", config.text, "' is not one of this CPU's");
  return Word::quad;
}

class PanelsInt8Kernel final : public Kernel {
 public:
  PanelsInt8Kernel(const Problem& problem, const Config& config, std::span<const std::byte> packed, Word word)
      : picture_(picture_of(problem, kPanel)),
        word_(word),
        threads_(std::max(1, problem.threads)),
        words_(words_of(picture_, word)),
        negative_(problem.inputs[0].type.dtype == DType::i8),
        weights_(reinterpret_cast<const int32_t*>(packed.data())) {
    const Config wanted = config_of(problem, word);
    expect_layouts(config, wanted.inputs, wanted.outputs);
    expect_packed(packed, size_t(packed_words(problem, picture_, word)) * sizeof(int32_t));
    if (is_moved(problem, word)) begins_ = weights_ + picture_.groups * panels_of(picture_) * kPanel * words_;
    const auto epilogue = epilogue_of(problem);
    if (!epilogue) fail(ErrorKind::bad_file, "its epilogue is not supported");
    results_.emplace(problem, *epilogue, picture_.columns);
    tail_ = EpilogueTail(problem, epilogue->stored, epilogue->rest, layout_of(problem));
    // As many chunks as keep all threads busy, of whole blocks of rows.
    const int64_t rows = picture_.pixels(),
                  chunks = std::max(ceil_div(rows, kChunk), std::min(rows, 2 * threads_ + 0L));
    chunk_ = round_up(ceil_div(rows, chunks), kRows);
    // A line of memory more than a row has: rows that are multiples of 4096 bytes apart would share few places in L1.
    stride_ = round_up<int64_t>(words_, 16) + 16;
    scratch_ = chunk_ * stride_ * int64_t(sizeof(int32_t));
  }

  int64_t workspace() const override { return tail_.workspace(threads_ * scratch_); }
  bool reads(size_t input) const override { return input != 1; }

  void launch(const Buffers& buffers) override {
    const auto* const x = static_cast<const std::byte*>(buffers.inputs[0]);
    const void* const residual = results_->residual(buffers);
    void* const y = tail_.destination(buffers);
    std::byte* const scratch = static_cast<std::byte*>(tail_.scratch(buffers));
    const int64_t rows = picture_.pixels(), blocks = ceil_div(rows, chunk_) * picture_.groups,
                  panels = panels_of(picture_);
    // Where rows are few, threads share out the panels of a chunk.
    const int64_t parts = blocks >= threads_ ? 1 : std::min<int64_t>(panels, ceil_div<int64_t>(threads_, blocks));
    const int64_t each = chunk_ * picture_.depth() * picture_.group_columns() / parts;
    parallel_for_threads(threads_, blocks * parts, std::max<int64_t>(1, kParallel / std::max<int64_t>(1, each)),
                         [&](int thread, int64_t begin, int64_t end) {
                           auto* const wide = reinterpret_cast<int32_t*>(scratch + thread * scratch_);
                           for (int64_t task = begin; task < end; ++task) {
                             const int64_t part = task % parts, group = task / parts % picture_.groups;
                             const int64_t first = task / parts / picture_.groups * chunk_;
                             const int64_t count = std::min(chunk_, rows - first);
                             for (int64_t r = 0; r < count; ++r) bring_row(x, first + r, group, wide + r * stride_);
                             for (int64_t p = part * panels / parts; p < (part + 1) * panels / parts; ++p)
                               run_panel(wide, first, count, group, p, residual, y);
                           }
                         });
    tail_.run(buffers);
  }

 private:
  Picture picture_;
  Word word_;
  int threads_;
  int64_t words_;  // of a row
  bool negative_;
  const int32_t *weights_, *begins_ = nullptr;  // begins_: what the sums of each column begin at; null: at zero
  std::optional<Int8Results> results_;
  int64_t chunk_ = 0, stride_ = 0, scratch_ = 0;  // rows of a chunk; words from a row to the next; bytes of a thread
  EpilogueTail tail_;

  // Row `row` of a group's left matrix.
  void bring_row(const std::byte* x, int64_t row, int64_t group, int32_t* to) const {
    to[words_ - 1] = 0;  // behind the last number weights are zero
    if (word_ == Word::pair) {
      gather_row(picture_, x, row, group, reinterpret_cast<int16_t*>(to), int16_t(0),
                 [this](const std::byte* from, int64_t count, int16_t* wide) { widen(negative_, from, count, wide); });
      return;
    }
    const auto sign = std::byte(begins_ ? 0x80 : 0);
    gather_row(picture_, x, row, group, reinterpret_cast<std::byte*>(to), sign,
               [=](const std::byte* from, int64_t count, std::byte* moved) { move_bytes(from, count, sign, moved); });
  }

  void run_panel(const int32_t* wide, int64_t first, int64_t count, int64_t group, int64_t panel, const void* residual,
                 void* y) const {
    alignas(64) int32_t sums[kChunk * kPanel];
    const int64_t place = (group * panels_of(picture_) + panel) * kPanel;
    const int32_t* const weights = weights_ + place * words_;
    if (begins_)
      for (int64_t r = 0; r < count; ++r) std::copy_n(begins_ + place, kPanel, sums + r * kPanel);
    for (int64_t k = 0; k < words_; k += kSlice)
      for (int64_t r = 0; r < count; r += kRows)
        multiply(word_,
                 {wide + r * stride_ + k, stride_, weights + k * kPanel, std::min(kSlice, words_ - k),
                  sums + r * kPanel, k > 0 || begins_},
                 std::min(kRows, count - r));
    const int64_t within = panel * kPanel, columns = picture_.group_columns(), column = group * columns + within;
    results_->write(sums, count, column, std::min(kPanel, columns - within), residual, y,
                    first * picture_.columns + column);
  }
};

Support supports_any(const Problem& problem, const Device& device) {
  const DType x = problem.inputs[0].type.dtype;
  if (x != DType::i8 && x != DType::u8) return refused("only i8 and u8, not ", x);
  if (problem.inputs[1].type.dtype != DType::i8) return refused("only i8 weights");
  if (device.avx512_vnni) return refused("oneDNN multiplies bytes by AVX512-VNNI");
  if (!problem.inputs[1].is_constant) return refused("the weights are not constant");
  if (element_count(problem.outputs[0].dims()) == 0 || element_count(problem.inputs[0].dims()) == 0)
    return refused("an empty tensor");
  if (!epilogue_of(problem)) return refused("its epilogue is not supported");
  return supported();
}

Support supports_conv(const Problem& problem, const Device& device) {
  if (auto s = needs_op<ops::Conv>(problem); !s.yes()) return s;
  if (problem.inputs[0].dims().size() > 4) return refused("three spatial axes");
  return supports_any(problem, device);
}

Support supports_matmul(const Problem& problem, const Device& device) {
  if (auto s = needs_op<ops::MatMul>(problem); !s.yes()) return s;
  if (problem.op.get<ops::MatMul>().transpose_a) return refused("the left matrix is transposed");
  if (problem.inputs[1].dims().size() != 2) return refused("not one matrix of weights");
  return supports_any(problem, device);
}

std::vector<Config> configs(const Problem& problem, const Device& device) {
  return {config_of(problem, device.dot_product ? Word::quad : Word::pair)};
}

Packed build(const Problem& problem, const Config& config, const Device& device) {
  const Word word = word_of(config, device);
  const Picture picture = picture_of(problem, kPanel);
  const int64_t columns = picture.group_columns(), words = words_of(picture, word), panels = panels_of(picture);
  Packed packed;
  packed.bytes.resize(size_t(packed_words(problem, picture, word)) * sizeof(int32_t));
  std::memset(packed.bytes.data(), 0, packed.bytes.size());
  auto* const pairs = reinterpret_cast<int16_t*>(packed.bytes.data());
  auto* const quads = reinterpret_cast<int8_t*>(packed.bytes.data());
  auto* const begins = reinterpret_cast<int32_t*>(packed.bytes.data()) + picture.groups * panels * kPanel * words;
  const bool moved = is_moved(problem, word);
  const int8_t* const weights = problem.inputs[1].constant->data<int8_t>();
  each_weight(problem, picture, [&](int64_t k, int64_t column, int64_t from) {
    const int64_t panel = column / columns * panels + column % columns / kPanel, within = column % columns % kPanel;
    if (word == Word::pair) pairs[((panel * words + k / 2) * kPanel + within) * 2 + k % 2] = weights[from];
    else quads[((panel * words + k / 4) * kPanel + within) * 4 + k % 4] = weights[from];
    if (moved) begins[panel * kPanel + within] += kBegin * weights[from];
  });
  packed.consumed.assign(problem.inputs.size(), false);
  packed.consumed[1] = true;
  return packed;
}

std::unique_ptr<Kernel> load(const Problem& problem, const Config& config, const PackedView& packed,
                             const Device& device) {
  return std::make_unique<PanelsInt8Kernel>(problem, config, packed, word_of(config, device));
}

}  // namespace

extern const Tactic cpu_conv_int8_panels, cpu_matmul_int8_panels;
const Tactic cpu_conv_int8_panels{"cpu.conv.int8_panels", 2, supports_conv, configs, build, load};
const Tactic cpu_matmul_int8_panels{"cpu.matmul.int8_panels", 2, supports_matmul, configs, build, load};

}  // namespace temper
