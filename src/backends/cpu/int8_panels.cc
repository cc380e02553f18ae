// SPDX-License-Identifier: Apache-2.0
// Convolutions and products of 8-bit integers by constant weights where the CPU has no VNNI. AVX2's product of bytes
// (vpmaddubsw) saturates at 16 bits; here both sides are widened to 16 bits first, so that vpmaddwd gives exact sums
// of two products, 16 multiply-adds an instruction where FP32 has 8.
//
// Weights are packed in panels of 16 columns, [panel][pair of k][column][2]. A chunk of rows is widened once (a
// convolution's taps become columns of k), and stays in L2 while all panels pass by. Groups with less than 16 columns
// share a panel, whose weights are zero where a column meets another group's channels.
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cstring>

#include "backends/cpu/cpu.h"
#include "backends/cpu/int8_results.h"
#include "backends/cpu/isa.h"
#include "base/checked.h"
#include "base/threads.h"
#include "graph/ops/conv.h"
#include "graph/ops/matmul.h"

namespace temper {

namespace {

constexpr int64_t kPanel = kSumColumns;
constexpr int64_t kRows = 6;            // of the result at once: 6 x 2 sums, 2 weights and 2 more fill 16 registers
constexpr int64_t kSlice = 256;         // pairs of k: 16 KiB of weights of a panel, which stay in L1 for all rows
constexpr int64_t kChunk = 48;          // rows, at most
constexpr int64_t kParallel = 1 << 17;  // multiplications worth a thread

struct Axis {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, begin = 0;
};
// A product is a convolution of one row of pixels.
struct Picture {
  int64_t images = 1, channels = 0, columns = 0;  // columns: of the result
  int64_t groups = 1, shared = 1;                 // how many groups, each of `shared` groups of the model
  Axis height, width;
  int64_t taps() const { return height.kernel * width.kernel; }
  int64_t pixels() const { return images * height.out * width.out; }
  int64_t group_channels() const { return channels / groups; }
  int64_t group_columns() const { return columns / groups; }
  int64_t depth() const { return taps() * group_channels(); }
  int64_t pairs() const { return ceil_div<int64_t>(depth(), 2); }
  int64_t panels() const { return ceil_div(group_columns(), kPanel); }  // of a group
};

const Program& program_of(const Problem& problem) {
  return problem.op.is<ops::Conv>() ? problem.op.get<ops::Conv>().epilogue : problem.op.get<ops::MatMul>().epilogue;
}
Layout layout_of(const Problem& problem) { return problem.op.is<ops::Conv>() ? Layout::channels_last : Layout::plain; }
size_t channel_axis(const Problem& problem) {
  return problem.op.is<ops::Conv>() ? 1 : problem.outputs[0].dims().size() - 1;
}

Picture picture_of(const Problem& problem) {
  const Dims x = problem.inputs[0].dims(), y = problem.outputs[0].dims();
  Picture picture;
  picture.columns = y[channel_axis(problem)];
  if (!problem.op.is<ops::Conv>()) {
    picture.channels = x.back();
    picture.width.in = picture.width.out = element_count(y) / y.back();
    return picture;
  }
  const auto& op = problem.op.get<ops::Conv>();
  const Dims w = problem.inputs[1].dims();
  const ConvGeometry geometry = conv_geometry(problem);
  picture.images = x[0], picture.channels = x[1];
  for (int64_t shared = 1; shared <= op.group && shared * picture.columns <= kPanel * op.group; ++shared)
    if (op.group % shared == 0) picture.shared = shared;
  picture.groups = op.group / picture.shared;
  const auto axis = [&](size_t i) {
    return Axis{x[i + 2], y[i + 2], w[i + 2], op.strides[i], op.dilations[i], geometry.begin[i]};
  };
  if (x.size() == 4) picture.height = axis(0);
  picture.width = axis(x.size() - 3);
  return picture;
}

// 32-bit sums of a block of rows and a panel.
struct Block {
  const int32_t* rows;  // pairs of 16 bits
  int64_t stride;       // pairs from a row to the next
  const int16_t* weights;
  int64_t pairs;
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
  for (int64_t k = 0; k < block.pairs; ++k, weights += 2) {
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

void multiply_plain(const Block& block, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r) {
    const int16_t* w = block.weights;
    int32_t sums[kPanel] = {};
    if (block.adds) std::memcpy(sums, block.sums + r * kPanel, sizeof sums);
    for (int64_t k = 0; k < block.pairs; ++k, w += 2 * kPanel) {
      int16_t x[2];
      std::memcpy(x, block.rows + r * block.stride + k, sizeof x);
      for (int64_t c = 0; c < kPanel; ++c) sums[c] += int32_t(x[0]) * w[2 * c] + int32_t(x[1]) * w[2 * c + 1];
    }
    std::memcpy(block.sums + r * kPanel, sums, sizeof sums);
  }
}

void multiply(const Block& block, int64_t rows) {
#if defined(__x86_64__) && defined(__GNUC__)
  if (cpu_isa() != Isa::base) {
    switch (rows) {
      case 6: return multiply_avx2<6>(block);
      case 5: return multiply_avx2<5>(block);
      case 4: return multiply_avx2<4>(block);
      case 3: return multiply_avx2<3>(block);
      case 2: return multiply_avx2<2>(block);
      default: return multiply_avx2<1>(block);
    }
  }
#endif
  multiply_plain(block, rows);
}

void widen(bool negative, const std::byte* from, int64_t count, int16_t* to) {
#if defined(__x86_64__) && defined(__GNUC__)
  if (cpu_isa() != Isa::base) return negative ? widen_avx2<true>(from, count, to) : widen_avx2<false>(from, count, to);
#endif
  for (int64_t i = 0; i < count; ++i) to[i] = negative ? int16_t(int8_t(from[i])) : int16_t(uint8_t(from[i]));
}

std::optional<IntegerEpilogue> epilogue_of(const Problem& problem) {
  return Int8Results::absorb(problem, program_of(problem), channel_axis(problem), layout_of(problem));
}

Config config_of(const Problem& problem) {
  const Layout layout = layout_of(problem);
  Config config{"", {layout, Layout::plain}, {layout}};
  for (const TensorType& extra : extra_types(problem, 2))
    config.inputs.push_back(extra_layout(extra, problem.outputs[0].type, layout));
  return config;
}

class PanelsInt8Kernel final : public Kernel {
 public:
  PanelsInt8Kernel(const Problem& problem, const Config& config, std::span<const std::byte> packed)
      : picture_(picture_of(problem)),
        threads_(std::max(1, problem.threads)),
        negative_(problem.inputs[0].type.dtype == DType::i8),
        weights_(reinterpret_cast<const int16_t*>(packed.data())) {
    const Config wanted = config_of(problem);
    expect_layouts(config, wanted.inputs, wanted.outputs);
    expect_packed(packed,
                  size_t(picture_.groups * picture_.panels() * picture_.pairs() * kPanel) * 2 * sizeof(int16_t));
    const auto epilogue = epilogue_of(problem);
    if (!epilogue) fail(ErrorKind::bad_file, "its epilogue is not supported");
    results_.emplace(problem, *epilogue, picture_.columns);
    tail_ = EpilogueTail(problem, epilogue->stored, epilogue->rest, layout_of(problem));
    // As many chunks as keep all threads busy, of whole blocks of rows.
    const int64_t rows = picture_.pixels(),
                  chunks = std::max(ceil_div(rows, kChunk), std::min(rows, 2 * threads_ + 0L));
    chunk_ = round_up(ceil_div(rows, chunks), kRows);
    // A line of memory more than a row has: rows that are multiples of 4096 bytes apart would share few places in L1.
    stride_ = round_up<int64_t>(picture_.pairs(), 16) + 16;
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
                  panels = picture_.panels();
    // Where rows are few, threads share out the panels of a chunk.
    const int64_t parts = blocks >= threads_ ? 1 : std::min<int64_t>(panels, ceil_div<int64_t>(threads_, blocks));
    const int64_t each = 2 * chunk_ * picture_.pairs() * picture_.group_columns() / parts;
    parallel_for_threads(threads_, blocks * parts, std::max<int64_t>(1, kParallel / std::max<int64_t>(1, each)),
                         [&](int thread, int64_t begin, int64_t end) {
                           auto* const wide = reinterpret_cast<int32_t*>(scratch + thread * scratch_);
                           for (int64_t task = begin; task < end; ++task) {
                             const int64_t part = task % parts, group = task / parts % picture_.groups;
                             const int64_t first = task / parts / picture_.groups * chunk_;
                             const int64_t count = std::min(chunk_, rows - first);
                             for (int64_t r = 0; r < count; ++r)
                               widen_row(x, first + r, group, reinterpret_cast<int16_t*>(wide + r * stride_));
                             for (int64_t p = part * panels / parts; p < (part + 1) * panels / parts; ++p)
                               run_panel(wide, first, count, group, p, residual, y);
                           }
                         });
    tail_.run(buffers);
  }

 private:
  Picture picture_;
  int threads_;
  bool negative_;
  const int16_t* weights_;
  std::optional<Int8Results> results_;
  int64_t chunk_ = 0, stride_ = 0, scratch_ = 0;  // rows of a chunk; pairs of a row; bytes of a thread
  EpilogueTail tail_;

  // Row `row` of a group's left matrix.
  void widen_row(const std::byte* x, int64_t row, int64_t group, int16_t* to) const {
    const int64_t all = picture_.channels, channels = picture_.group_channels(), depth = picture_.depth();
    const Axis &height = picture_.height, &width = picture_.width;
    if (depth % 2) to[depth] = 0;
    const int64_t column = row % width.out, line = row / width.out % height.out, image = row / width.out / height.out;
    const std::byte* const picture = x + image * height.in * width.in * all + group * channels;
    const int64_t left = column * width.stride - width.begin;
    // The taps within the picture; a run of them lies together where all channels are wanted.
    const int64_t from = std::min(ceil_div<int64_t>(std::max<int64_t>(-left, 0), width.dilation), width.kernel),
                  until = std::clamp(ceil_div<int64_t>(std::max<int64_t>(width.in - left, 0), width.dilation), from,
                                     width.kernel);
    const bool together = width.dilation == 1 && channels == all;
    for (int64_t i = 0; i < height.kernel; ++i, to += width.kernel * channels) {
      const int64_t top = line * height.stride - height.begin + i * height.dilation;
      if (top < 0 || top >= height.in) {
        std::fill_n(to, width.kernel * channels, int16_t(0));
        continue;
      }
      const std::byte* const pixels = picture + top * width.in * all;
      std::fill_n(to, from * channels, int16_t(0));
      if (together) widen(negative_, pixels + (left + from) * all, (until - from) * channels, to + from * channels);
      else
        for (int64_t j = from; j < until; ++j)
          widen(negative_, pixels + (left + j * width.dilation) * all, channels, to + j * channels);
      std::fill_n(to + until * channels, (width.kernel - until) * channels, int16_t(0));
    }
  }

  void run_panel(const int32_t* wide, int64_t first, int64_t count, int64_t group, int64_t panel, const void* residual,
                 void* y) const {
    alignas(64) int32_t sums[kChunk * kPanel];
    const int64_t pairs = picture_.pairs();
    const int16_t* const weights = weights_ + (group * picture_.panels() + panel) * pairs * kPanel * 2;
    for (int64_t k = 0; k < pairs; k += kSlice)
      for (int64_t r = 0; r < count; r += kRows)
        multiply({wide + r * stride_ + k, stride_, weights + k * kPanel * 2, std::min(kSlice, pairs - k),
                  sums + r * kPanel, k > 0},
                 std::min(kRows, count - r));
    const int64_t within = panel * kPanel, columns = picture_.group_columns();
    results_->write(sums, first, count, group * columns + within, std::min(kPanel, columns - within), residual, y);
  }
};

Support supports_any(const Problem& problem, const Device& device) {
  const DType x = problem.inputs[0].type.dtype;
  if (x != DType::i8 && x != DType::u8) return refused("only i8 and u8, not ", x);
  if (problem.inputs[1].type.dtype != DType::i8) return refused("only i8 weights");
  if (device.avx512_vnni) return refused("oneDNN multiplies bytes by VNNI");
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

std::vector<Config> configs(const Problem& problem, const Device&) { return {config_of(problem)}; }

Packed build(const Problem& problem, const Config&, const Device&) {
  const Picture picture = picture_of(problem);
  const int64_t depth = picture.depth(), pairs = picture.pairs(), columns = picture.group_columns(),
                channels = picture.group_channels();
  Packed packed;
  packed.bytes.resize(size_t(picture.groups * picture.panels() * pairs * kPanel) * 2 * sizeof(int16_t));
  std::memset(packed.bytes.data(), 0, packed.bytes.size());
  auto* const to = reinterpret_cast<int16_t*>(packed.bytes.data());
  const int8_t* const weights = problem.inputs[1].constant->data<int8_t>();
  const bool product = problem.op.is<ops::MatMul>(), turned = product && problem.op.get<ops::MatMul>().transpose_b;
  // Of a group of the model.
  const int64_t own_channels = channels / picture.shared, own_columns = columns / picture.shared;
  for (int64_t column = 0; column < picture.columns; ++column)
    for (int64_t k = 0; k < depth; ++k) {
      // Of a convolution k counts [tap][channel], and its weights lie [column][channel of its group][tap].
      const int64_t channel = k % channels, tap = k / channels, group = column / columns, within = column % columns;
      if (channel / own_channels != within / own_columns) continue;
      const int64_t from = !product ? (column * own_channels + channel % own_channels) * picture.taps() + tap
                           : turned ? column * depth + k
                                    : k * picture.columns + column;
      const int64_t panel = group * picture.panels() + within / kPanel;
      to[((panel * pairs + k / 2) * kPanel + within % kPanel) * 2 + k % 2] = weights[from];
    }
  packed.consumed.assign(problem.inputs.size(), false);
  packed.consumed[1] = true;
  return packed;
}

std::unique_ptr<Kernel> load(const Problem& problem, const Config& config, const PackedView& packed, const Device&) {
  return std::make_unique<PanelsInt8Kernel>(problem, config, packed);
}

}  // namespace

extern const Tactic cpu_conv_int8_panels, cpu_matmul_int8_panels;
const Tactic cpu_conv_int8_panels{"cpu.conv.int8_panels", 2, supports_conv, configs, build, load};
const Tactic cpu_matmul_int8_panels{"cpu.matmul.int8_panels", 2, supports_matmul, configs, build, load};

}  // namespace temper
