// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution of 8-bit integers, each channel with its own filter, where the CPU has AVX2 and no VNNI. Rows
// of the filter go in pairs: the bytes of two rows of the input are laid side by side and widened to 16 bits, so that
// vpmaddwd adds two exact products of each channel. A tile of pixels of a row stays in registers for 16 channels, and
// every pair of pixels is widened once for all taps that it meets.
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cstring>

#include "backends/cpu/cpu.h"
#include "backends/cpu/int8_results.h"
#include "backends/cpu/picture.h"
#include "base/checked.h"
#include "base/threads.h"
#include "graph/ops/conv.h"

namespace temper {

namespace {

#if defined(__x86_64__) && defined(__GNUC__)
constexpr Layout kLayout = Layout::channels_last;
constexpr int64_t kChannels = kSumColumns;  // at once
constexpr int64_t kTile = 4;                // pixels of the output at once: 4 x 2 sums, and what is widened
constexpr int64_t kPixels = 8 * kTile;      // pixels whose sums are kept before they are written
constexpr int64_t kParallel = 1 << 16;      // multiplications worth a thread

// Pairs of rows of the filter.
int64_t pairs_of(const Picture& picture) { return ceil_div<int64_t>(picture.height.kernel, 2); }
int64_t blocks_of(const Picture& picture) { return ceil_div(picture.channels, kChannels); }
// The last block overlaps the one before where channels are no multiple of 16.
int64_t first_of(const Picture& picture, int64_t block) {
  return std::min(block * kChannels, picture.channels - kChannels);
}
// Weights of a block: [pair of rows][column][channel][2].
int64_t block_weights(const Picture& picture) { return pairs_of(picture) * picture.width.kernel * kChannels * 2; }

// Two rows of the input and the taps that meet them. A row outside of the picture is `step` 0 and zeros.
struct RowPair {
  const std::byte *first, *second;
  int64_t first_step, second_step;  // bytes from a pixel to the next
  const int16_t* weights;
};

// Sums of kTile pixels from column `left` of the input on, for 16 channels; columns outside of the picture are zeros.
template <int taps, int stride, bool negative>
__attribute__((target("avx2"))) void tile(const RowPair* rows, int64_t count, int64_t left, int64_t width,
                                          int32_t* sums) {
  __m256i low[kTile], high[kTile];
#pragma GCC unroll 8
  for (int64_t t = 0; t < kTile; ++t) low[t] = high[t] = _mm256_setzero_si256();
  for (int64_t k = 0; k < count; ++k) {
    const RowPair& row = rows[k];
    const auto* const weights = reinterpret_cast<const __m256i*>(row.weights);
#pragma GCC unroll 16
    for (int64_t c = 0; c < (kTile - 1) * stride + taps; ++c) {
      const int64_t column = left + c;
      if (uint64_t(column) >= uint64_t(width)) continue;
      const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row.first + column * row.first_step)),
                    b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row.second + column * row.second_step));
      const __m128i begin = _mm_unpacklo_epi8(a, b), end = _mm_unpackhi_epi8(a, b);
      const __m256i first = negative ? _mm256_cvtepi8_epi16(begin) : _mm256_cvtepu8_epi16(begin),
                    second = negative ? _mm256_cvtepi8_epi16(end) : _mm256_cvtepu8_epi16(end);
#pragma GCC unroll 8
      for (int64_t t = 0; t < kTile; ++t) {
        const int64_t tap = c - t * stride;
        if (tap < 0 || tap >= taps) continue;
        low[t] = _mm256_add_epi32(low[t], _mm256_madd_epi16(first, _mm256_loadu_si256(weights + 2 * tap)));
        high[t] = _mm256_add_epi32(high[t], _mm256_madd_epi16(second, _mm256_loadu_si256(weights + 2 * tap + 1)));
      }
    }
  }
  auto* const to = reinterpret_cast<__m256i*>(sums);
#pragma GCC unroll 8
  for (int64_t t = 0; t < kTile; ++t)
    _mm256_store_si256(to + 2 * t, low[t]), _mm256_store_si256(to + 2 * t + 1, high[t]);
}

using Tile = void (*)(const RowPair*, int64_t, int64_t, int64_t, int32_t*);
template <bool negative>
Tile tile_of(int64_t taps, int64_t stride) {
  switch (taps * 2 + stride) {
    case 7: return tile<3, 1, negative>;
    case 8: return tile<3, 2, negative>;
    case 11: return tile<5, 1, negative>;
    case 12: return tile<5, 2, negative>;
    case 15: return tile<7, 1, negative>;
    default: return tile<7, 2, negative>;
  }
}

std::optional<IntegerEpilogue> epilogue_of(const Problem& problem) {
  return Int8Results::absorb(problem, problem.op.get<ops::Conv>().epilogue, 1, kLayout);
}

Config config_of(const Problem& problem) {
  Config config{"", {kLayout, Layout::plain}, {kLayout}};
  for (const TensorType& extra : extra_types(problem, 2))
    config.inputs.push_back(extra_layout(extra, problem.outputs[0].type, kLayout));
  return config;
}

class DepthwiseInt8Kernel final : public Kernel {
 public:
  DepthwiseInt8Kernel(const Problem& problem, const Config& config, std::span<const std::byte> packed)
      : picture_(picture_of(problem, 1)),
        threads_(problem.threads),
        weights_(reinterpret_cast<const int16_t*>(packed.data())) {
    const Config wanted = config_of(problem);
    expect_layouts(config, wanted.inputs, wanted.outputs);
    expect_packed(packed, size_t(blocks_of(picture_) * block_weights(picture_)) * sizeof(int16_t));
    const auto epilogue = epilogue_of(problem);
    if (!epilogue) fail(ErrorKind::bad_file, "its epilogue is not supported");
    results_.emplace(problem, *epilogue, picture_.channels);
    tail_ = EpilogueTail(problem, epilogue->stored, epilogue->rest, kLayout);
    const PictureAxis& width = picture_.width;
    tile_ = problem.inputs[0].type.dtype == DType::i8 ? tile_of<true>(width.kernel, width.stride)
                                                      : tile_of<false>(width.kernel, width.stride);
  }

  int64_t workspace() const override { return tail_.workspace(0); }
  bool reads(size_t input) const override { return input != 1; }

  void launch(const Buffers& buffers) override {
    const auto* const x = static_cast<const std::byte*>(buffers.inputs[0]);
    const void* const residual = results_->residual(buffers);
    void* const y = tail_.destination(buffers);
    const PictureAxis &height = picture_.height, &width = picture_.width;
    const int64_t each = width.out * picture_.channels * height.kernel * width.kernel;
    parallel_for_threads(threads_, picture_.images * height.out, std::max<int64_t>(1, kParallel / each),
                         [&](int, int64_t begin, int64_t end) {
                           for (int64_t line = begin; line < end; ++line)
                             for (int64_t block = 0; block < blocks_of(picture_); ++block)
                               run(x, line, block, residual, y);
                         });
    tail_.run(buffers);
  }

 private:
  Picture picture_;
  int threads_;
  const int16_t* weights_;
  Tile tile_;
  std::optional<Int8Results> results_;
  EpilogueTail tail_;

  // A line of the output for 16 channels.
  void run(const std::byte* x, int64_t line, int64_t block, const void* residual, void* y) const {
    constexpr int64_t kPairs = 4;  // of 7 rows
    static const std::byte zeros[kChannels] = {};
    const PictureAxis &height = picture_.height, &width = picture_.width;
    const int64_t image = line / height.out, top = line % height.out * height.stride - height.begin;
    const int64_t channel = first_of(picture_, block), step = picture_.channels;
    const std::byte* const from = x + image * height.in * width.in * step + channel;
    const int16_t* const weights = weights_ + block * block_weights(picture_);
    RowPair rows[kPairs];
    int64_t count = 0;
    for (int64_t pair = 0; pair < pairs_of(picture_); ++pair) {
      const int64_t a = top + 2 * pair, b = a + 1;
      const bool has_a = a >= 0 && a < height.in, has_b = b >= 0 && b < height.in && 2 * pair + 1 < height.kernel;
      if (!has_a && !has_b) continue;
      rows[count++] = {has_a ? from + a * width.in * step : zeros, has_b ? from + b * width.in * step : zeros,
                       has_a ? step : 0, has_b ? step : 0, weights + pair * width.kernel * kChannels * 2};
    }
    alignas(64) int32_t sums[kPixels * kChannels];
    for (int64_t first = 0; first < width.out; first += kPixels) {
      const int64_t pixels = std::min(kPixels, width.out - first);
      for (int64_t t = 0; t < pixels; t += kTile)
        tile_(rows, count, (first + t) * width.stride - width.begin, width.in, sums + t * kChannels);
      results_->write(sums, pixels, channel, kChannels, residual, y,
                      (line * width.out + first) * picture_.columns + channel);
    }
  }
};

Support supports(const Problem& problem, const Device& device) {
  if (auto s = needs_op<ops::Conv>(problem); !s.yes()) return s;
  const auto& op = problem.op.get<ops::Conv>();
  const Dims x = problem.inputs[0].dims(), y = problem.outputs[0].dims(), w = problem.inputs[1].dims();
  const DType dtype = problem.inputs[0].type.dtype;
  if (dtype != DType::i8 && dtype != DType::u8) return refused("only i8 and u8, not ", dtype);
  if (problem.inputs[1].type.dtype != DType::i8) return refused("only i8 weights");
  if (device.avx512_vnni) return refused("oneDNN multiplies bytes by VNNI");
  if (!device.avx2) return refused("no AVX2");
  if (x.size() > 4) return refused("three spatial axes");
  if (op.group == 1 || op.group != x[1] || x[1] != y[1]) return refused("not depthwise");
  if (x[1] < kChannels) return refused("fewer than 16 channels");
  if (!problem.inputs[1].is_constant) return refused("the weights are not constant");
  if (element_count(y) == 0 || element_count(x) == 0) return refused("an empty tensor");
  for (const int64_t dilation : op.dilations)
    if (dilation != 1) return refused("dilated");
  const int64_t taps = w.back(), stride = op.strides.back();
  if (taps != 3 && taps != 5 && taps != 7) return refused("a filter of other than 3, 5 or 7 columns");
  if (stride != 1 && stride != 2) return refused("a stride of more than 2");
  if (w.size() == 4 && w[2] > 7) return refused("a filter of more than 7 rows");
  if (!epilogue_of(problem)) return refused("its epilogue is not supported");
  return supported();
}

std::vector<Config> configs(const Problem& problem, const Device&) { return {config_of(problem)}; }

Packed build(const Problem& problem, const Config&, const Device&) {
  const Picture picture = picture_of(problem, 1);
  const int64_t height = picture.height.kernel, width = picture.width.kernel;
  Packed packed;
  packed.bytes.resize(size_t(blocks_of(picture) * block_weights(picture)) * sizeof(int16_t));
  std::memset(packed.bytes.data(), 0, packed.bytes.size());
  auto* to = reinterpret_cast<int16_t*>(packed.bytes.data());
  const int8_t* const weights = problem.inputs[1].constant->data<int8_t>();
  for (int64_t block = 0; block < blocks_of(picture); ++block, to += block_weights(picture))
    for (int64_t c = 0; c < kChannels; ++c)
      for (int64_t row = 0; row < height; ++row)
        for (int64_t column = 0; column < width; ++column)
          to[((row / 2 * width + column) * kChannels + c) * 2 + row % 2] =
              weights[((first_of(picture, block) + c) * height + row) * width + column];
  packed.consumed.assign(problem.inputs.size(), false);
  packed.consumed[1] = true;
  return packed;
}

std::unique_ptr<Kernel> load(const Problem& problem, const Config& config, const PackedView& packed, const Device&) {
  return std::make_unique<DepthwiseInt8Kernel>(problem, config, packed);
}
#else
Support supports(const Problem&, const Device&) { return refused("not an x86 CPU"); }
std::vector<Config> configs(const Problem&, const Device&) { return {}; }
Packed build(const Problem&, const Config&, const Device&) { return {}; }
std::unique_ptr<Kernel> load(const Problem&, const Config&, const PackedView&, const Device&) { return nullptr; }
#endif

}  // namespace

extern const Tactic cpu_conv_depthwise_int8;
const Tactic cpu_conv_depthwise_int8{"cpu.conv.depthwise_int8", 1, supports, configs, build, load};

}  // namespace temper
