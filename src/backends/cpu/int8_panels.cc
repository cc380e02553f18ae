// SPDX-License-Identifier: Apache-2.0
// Convolutions and products of 8-bit integers by constant weights where the CPU has no VNNI. AVX2's product of bytes
// (vpmaddubsw) saturates at 16 bits; here both sides are widened to 16 bits first, so that vpmaddwd gives exact sums
// of two products, 16 multiply-adds an instruction where FP32 has 8.
//
// Weights are packed in panels of 16 columns, [panel][pair of k][column][2]. A chunk of rows is widened and laid side
// by side once (a convolution's taps become columns of k), and stays in L2 while all panels pass by.
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/cpu.h"
#include "backends/cpu/int8_epilogue.h"
#include "backends/cpu/isa.h"
#include "base/checked.h"
#include "base/threads.h"
#include "graph/ops/conv.h"
#include "graph/ops/matmul.h"

namespace temper {

namespace {

constexpr int64_t kPanel = 16;          // columns
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
  Axis height, width;
  int64_t taps() const { return height.kernel * width.kernel; }
  int64_t pixels() const { return images * height.out * width.out; }
  int64_t pairs() const { return ceil_div<int64_t>(taps() * channels, 2); }
  int64_t panels() const { return ceil_div(columns, kPanel); }
  // The rows of the input are the rows of the product.
  bool is_flat() const {
    return taps() == 1 && height.stride == 1 && width.stride == 1 && height.begin == 0 && width.begin == 0 &&
           height.in == height.out && width.in == width.out;
  }
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
  const auto axis = [&](size_t i) {
    return Axis{x[i + 2], y[i + 2], w[i + 2], op.strides[i], op.dilations[i], geometry.begin[i]};
  };
  if (x.size() == 4) picture.height = axis(0);
  picture.width = axis(x.size() - 3);
  return picture;
}

// 32-bit sums of a block of rows and a panel, with those that `sums` holds.
struct Block {
  const int32_t* rows;  // [pair][kRows]: two numbers of 16 bits
  const int16_t* weights;
  int64_t pairs;
  int32_t* sums;  // [row][kPanel]
};

#if defined(__x86_64__) && defined(__GNUC__)
template <int m>
__attribute__((target("avx2,fma"))) void multiply_avx2(const Block& block) {
  __m256i low[m], high[m];
  auto* const sums = reinterpret_cast<__m256i*>(block.sums);
#pragma GCC unroll 8
  for (int r = 0; r < m; ++r) low[r] = _mm256_loadu_si256(sums + 2 * r), high[r] = _mm256_loadu_si256(sums + 2 * r + 1);
  const auto* weights = reinterpret_cast<const __m256i*>(block.weights);
  const int32_t* rows = block.rows;
  for (int64_t k = 0; k < block.pairs; ++k, weights += 2, rows += kRows) {
    const __m256i first = _mm256_loadu_si256(weights), second = _mm256_loadu_si256(weights + 1);
#pragma GCC unroll 8
    for (int r = 0; r < m; ++r) {
      const __m256i both = _mm256_set1_epi32(rows[r]);
      low[r] = _mm256_add_epi32(low[r], _mm256_madd_epi16(both, first));
      high[r] = _mm256_add_epi32(high[r], _mm256_madd_epi16(both, second));
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < m; ++r) _mm256_storeu_si256(sums + 2 * r, low[r]), _mm256_storeu_si256(sums + 2 * r + 1, high[r]);
}
#endif

void multiply_plain(const Block& block, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r) {
    const int16_t* w = block.weights;
    int32_t sums[kPanel];
    std::memcpy(sums, block.sums + r * kPanel, sizeof sums);
    for (int64_t k = 0; k < block.pairs; ++k, w += 2 * kPanel) {
      int16_t x[2];
      std::memcpy(x, block.rows + k * kRows + r, sizeof x);
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

std::optional<IntegerEpilogue> epilogue_of(const Problem& problem) {
  for (const IntegerAbsorb absorb : {IntegerAbsorb::all, IntegerAbsorb::scale, IntegerAbsorb::nothing}) {
    auto epilogue = absorb_integer_epilogue(problem, program_of(problem), channel_axis(problem), absorb);
    if (epilogue && EpilogueTail::supports(problem, epilogue->stored, epilogue->rest, layout_of(problem)).yes())
      return epilogue;
  }
  return std::nullopt;
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
        is_signed_(problem.inputs[0].type.dtype == DType::i8),
        weights_(reinterpret_cast<const int16_t*>(packed.data())) {
    const Config wanted = config_of(problem);
    expect_layouts(config, wanted.inputs, wanted.outputs);
    expect_packed(packed, size_t(picture_.panels() * picture_.pairs() * kPanel) * 2 * sizeof(int16_t));
    const auto epilogue = epilogue_of(problem);
    if (!epilogue) fail(ErrorKind::bad_file, "its epilogue is not supported");
    epilogue_ = *epilogue;
    if (epilogue_.stored != DType::i32) {
      bias_ = bias_of(problem, epilogue_, picture_.columns);
      scales_ = scales_of(problem, epilogue_);
      if (scales_.size() == 1) scales_.assign(size_t(picture_.columns), scales_[0]);
      bias_.resize(size_t(picture_.panels() * kPanel));
      scales_.resize(size_t(picture_.panels() * kPanel));
    }
    tail_ = EpilogueTail(problem, epilogue_.stored, epilogue_.rest, layout_of(problem));
    // As many chunks as keep all threads busy, of whole blocks of rows.
    const int64_t rows = picture_.pixels(),
                  chunks = std::max(ceil_div(rows, kChunk), std::min(rows, 2 * threads_ + 0L));
    chunk_ = round_up(ceil_div(rows, chunks), kRows);
    scratch_ = round_up<int64_t>((chunk_ + 1) * picture_.pairs() * int64_t(sizeof(int32_t)), 64);
  }

  int64_t workspace() const override { return tail_.workspace(threads_ * scratch_); }
  bool reads(size_t input) const override { return input != 1; }

  void launch(const Buffers& buffers) override {
    const auto* const x = static_cast<const std::byte*>(buffers.inputs[0]);
    const void* const residual = epilogue_.residual >= 0 ? buffers.inputs[size_t(epilogue_.residual) + 2] : nullptr;
    void* const y = tail_.destination(buffers);
    std::byte* const scratch = static_cast<std::byte*>(tail_.scratch(buffers));
    const int64_t rows = picture_.pixels(), chunks = ceil_div(rows, chunk_), panels = picture_.panels();
    // Where rows are few, threads share out the panels of a chunk.
    const int64_t groups = chunks >= threads_ ? 1 : std::min<int64_t>(panels, ceil_div<int64_t>(threads_, chunks));
    const int64_t each = 2 * chunk_ * picture_.pairs() * picture_.columns / groups;
    parallel_for_threads(threads_, chunks * groups, std::max<int64_t>(1, kParallel / std::max<int64_t>(1, each)),
                         [&](int thread, int64_t begin, int64_t end) {
                           auto* const blocks = reinterpret_cast<int32_t*>(scratch + thread * scratch_);
                           auto* const row = reinterpret_cast<int16_t*>(blocks + chunk_ * picture_.pairs());
                           for (int64_t task = begin; task < end; ++task) {
                             const int64_t first = task / groups * chunk_, group = task % groups;
                             const int64_t count = std::min(chunk_, rows - first);
                             widen(x, first, count, row, blocks);
                             for (int64_t p = group * panels / groups; p < (group + 1) * panels / groups; ++p)
                               run_panel(blocks, first, count, p, residual, y);
                           }
                         });
    tail_.run(buffers);
  }

 private:
  Picture picture_;
  int threads_;
  bool is_signed_;
  const int16_t* weights_;
  IntegerEpilogue epilogue_;
  std::vector<float> bias_, scales_;
  int64_t chunk_ = 0, scratch_ = 0;  // rows of a chunk; bytes of a thread
  EpilogueTail tail_;

  void widen_run(const std::byte* from, int64_t count, int16_t* to) const {
    if (is_signed_) {
      const auto* const bytes = reinterpret_cast<const int8_t*>(from);
      vectorised_by_8([=] {
        for (int64_t i = 0; i < count; ++i) to[i] = bytes[i];
      });
    } else {
      const auto* const bytes = reinterpret_cast<const uint8_t*>(from);
      vectorised_by_8([=] {
        for (int64_t i = 0; i < count; ++i) to[i] = bytes[i];
      });
    }
  }

  // Row `row` of the product's left matrix.
  void widen_row(const std::byte* x, int64_t row, int16_t* to) const {
    const int64_t channels = picture_.channels, depth = picture_.taps() * channels;
    const Axis &height = picture_.height, &width = picture_.width;
    if (depth < 2 * picture_.pairs()) to[depth] = 0;
    if (picture_.is_flat()) return widen_run(x + row * channels, channels, to);
    const int64_t column = row % width.out, line = row / width.out % height.out, image = row / width.out / height.out;
    const std::byte* const picture = x + image * height.in * width.in * channels;
    for (int64_t i = 0; i < height.kernel; ++i) {
      const int64_t top = line * height.stride - height.begin + i * height.dilation;
      for (int64_t j = 0; j < width.kernel; ++j, to += channels) {
        const int64_t left = column * width.stride - width.begin + j * width.dilation;
        const bool inside = top >= 0 && top < height.in && left >= 0 && left < width.in;
        if (inside) widen_run(picture + (top * width.in + left) * channels, channels, to);
        else std::fill_n(to, channels, int16_t(0));
      }
    }
  }

  // Rows [first, first + count) in blocks; `row`: room for one.
  void widen(const std::byte* x, int64_t first, int64_t count, int16_t* row, int32_t* blocks) const {
    const int64_t pairs = picture_.pairs();
    for (int64_t r = 0; r < count; ++r) {
      widen_row(x, first + r, row);
      int32_t* const to = blocks + r / kRows * pairs * kRows + r % kRows;
      for (int64_t k = 0; k < pairs; ++k) std::memcpy(to + k * kRows, row + 2 * k, sizeof *to);
    }
  }

  void run_panel(const int32_t* blocks, int64_t first, int64_t count, int64_t panel, const void* residual,
                 void* y) const {
    alignas(64) int32_t sums[kChunk * kPanel] = {};
    const int64_t pairs = picture_.pairs();
    const int16_t* const weights = weights_ + panel * pairs * kPanel * 2;
    for (int64_t k = 0; k < pairs; k += kSlice)
      for (int64_t r = 0; r < count; r += kRows)
        multiply({blocks + (r * pairs + k * kRows), weights + k * kPanel * 2, std::min(kSlice, pairs - k),
                  sums + r * kPanel},
                 std::min(kRows, count - r));
    const int64_t column = panel * kPanel, columns = std::min(kPanel, picture_.columns - column);
#if defined(__x86_64__) && defined(__GNUC__)
    if (epilogue_.stored != DType::i32 && columns == kPanel && cpu_isa() != Isa::base)
      return finish_avx2(sums, first, count, column, residual, y);
#endif
    for (int64_t r = 0; r < count; ++r)
      finish(sums + r * kPanel, (first + r) * picture_.columns + column, column, columns, residual, y);
  }

#if defined(__x86_64__) && defined(__GNUC__)
  // finish() for all rows of a whole panel.
  __attribute__((target("avx2,fma"))) void finish_avx2(const int32_t* sums, int64_t first, int64_t count,
                                                       int64_t column, const void* residual, void* y) const {
    const __m256 zero = _mm256_setzero_ps(), shift = _mm256_set1_ps(float(epilogue_.zero_point)),
                 limit = _mm256_set1_ps(epilogue_.limit >= 0 ? float(epilogue_.limit) : INFINITY),
                 beside = _mm256_set1_ps(float(epilogue_.residual_scale)),
                 least = _mm256_set1_ps(epilogue_.stored == DType::i8 ? -128.f : 0.f),
                 most = _mm256_set1_ps(epilogue_.stored == DType::i8 ? 127.f : 255.f);
    const __m256i residual_zero = _mm256_set1_epi32(epilogue_.residual_zero);
    const bool active = epilogue_.relu || epilogue_.limit >= 0, signed_residual = epilogue_.residual_dtype == DType::i8;
    for (int64_t r = 0; r < count; ++r) {
      const int64_t at = (first + r) * picture_.columns + column;
      __m256 values[2];
      for (int64_t half = 0; half < 2; ++half) {
        const __m256i sum = _mm256_load_si256(reinterpret_cast<const __m256i*>(sums + r * kPanel) + half);
        __m256 value =
            _mm256_mul_ps(_mm256_add_ps(_mm256_cvtepi32_ps(sum), _mm256_loadu_ps(bias_.data() + column + 8 * half)),
                          _mm256_loadu_ps(scales_.data() + column + 8 * half));
        if (residual) {
          const __m128i bytes = _mm_loadl_epi64(
              reinterpret_cast<const __m128i*>(static_cast<const std::byte*>(residual) + at + 8 * half));
          const __m256i other = signed_residual ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes);
          value = _mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(other, residual_zero)), beside, value);
        }
        if (active) value = _mm256_min_ps(_mm256_max_ps(value, zero), limit);
        values[half] = value;
      }
      if (epilogue_.stored == DType::f32) {
        _mm256_storeu_ps(static_cast<float*>(y) + at, values[0]);
        _mm256_storeu_ps(static_cast<float*>(y) + at + 8, values[1]);
        continue;
      }
      __m256i whole[2];
      for (int64_t half = 0; half < 2; ++half) {
        const __m256 rounded =
            _mm256_add_ps(_mm256_round_ps(values[half], _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), shift);
        whole[half] = _mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(rounded, least), most));
      }
      // Both halves' lanes: [0-3, 8-11 | 4-7, 12-15], then in order.
      const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(whole[0], whole[1]), 0xd8);
      const __m128i low = _mm256_castsi256_si128(words), high = _mm256_extracti128_si256(words, 1);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(static_cast<std::byte*>(y) + at),
                       epilogue_.stored == DType::i8 ? _mm_packs_epi16(low, high) : _mm_packus_epi16(low, high));
    }
  }
#endif

  // What follows the sums of a row's columns, in oneDNN's order (int8_epilogue.h).
  void finish(const int32_t* sums, int64_t at, int64_t column, int64_t columns, const void* residual, void* y) const {
    if (epilogue_.stored == DType::i32) {
      std::copy_n(sums, columns, static_cast<int32_t*>(y) + at);
      return;
    }
    float values[kPanel] = {}, beside[kPanel] = {};
    if (residual) {
      const bool negative = epilogue_.residual_dtype == DType::i8;
      for (int64_t c = 0; c < columns; ++c)
        beside[c] = float((negative ? int32_t(static_cast<const int8_t*>(residual)[at + c])
                                    : int32_t(static_cast<const uint8_t*>(residual)[at + c])) -
                          epilogue_.residual_zero);
    }
    const float *bias = bias_.data() + column, *scales = scales_.data() + column;
    const bool whole = epilogue_.stored != DType::f32, relu = epilogue_.relu, clips = epilogue_.limit >= 0;
    const float least = epilogue_.stored == DType::i8 ? -128.f : 0.f,
                most = epilogue_.stored == DType::i8 ? 127.f : 255.f, zero = float(epilogue_.zero_point),
                limit = float(epilogue_.limit), residual_scale = float(epilogue_.residual_scale);
    const bool adds = residual != nullptr;
    float* const out = values;
    const float* const other = beside;
    vectorised_by_8([=] {
      for (int64_t c = 0; c < kPanel; ++c) {
        float value = (float(sums[c]) + bias[c]) * scales[c];
        if (adds) value = std::fma(other[c], residual_scale, value);
        if (relu || clips) value = value > 0 ? value : 0;
        if (clips) value = value < limit ? value : limit;
        if (whole) {
          value = std::nearbyint(value) + zero;
          value = value > least ? value : least;
          value = value < most ? value : most;
        }
        out[c] = value;
      }
    });
    switch (epilogue_.stored) {
      case DType::i8:
        for (int64_t c = 0; c < columns; ++c) static_cast<int8_t*>(y)[at + c] = int8_t(values[c]);
        break;
      case DType::u8:
        for (int64_t c = 0; c < columns; ++c) static_cast<uint8_t*>(y)[at + c] = uint8_t(values[c]);
        break;
      default: std::copy_n(values, columns, static_cast<float*>(y) + at);
    }
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
  if (problem.op.get<ops::Conv>().group != 1) return refused("groups");
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
  const int64_t depth = picture.taps() * picture.channels, pairs = picture.pairs();
  Packed packed;
  packed.bytes.resize(size_t(picture.panels() * pairs * kPanel) * 2 * sizeof(int16_t));
  std::memset(packed.bytes.data(), 0, packed.bytes.size());
  auto* const to = reinterpret_cast<int16_t*>(packed.bytes.data());
  const int8_t* const weights = problem.inputs[1].constant->data<int8_t>();
  const bool product = problem.op.is<ops::MatMul>(), turned = product && problem.op.get<ops::MatMul>().transpose_b;
  for (int64_t column = 0; column < picture.columns; ++column)
    for (int64_t k = 0; k < depth; ++k) {
      // Of a convolution k counts [tap][channel], and its weights lie [column][channel][tap].
      const int64_t channel = k % picture.channels, tap = k / picture.channels;
      const int64_t from = !product ? (column * picture.channels + channel) * picture.taps() + tap
                           : turned ? column * depth + k
                                    : k * picture.columns + column;
      to[((column / kPanel * pairs + k / 2) * kPanel + column % kPanel) * 2 + k % 2] = weights[from];
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
const Tactic cpu_conv_int8_panels{"cpu.conv.int8_panels", 1, supports_conv, configs, build, load};
const Tactic cpu_matmul_int8_panels{"cpu.matmul.int8_panels", 1, supports_matmul, configs, build, load};

}  // namespace temper
