// SPDX-License-Identifier: Apache-2.0
// Convolution of f32 with few output channels, as heads of detectors and filters of signals have, in the plain layout.
// A vector holds pixels of a row, not channels, which would leave most of it empty. Rows of the input are copied into
// L1 with their padding and, for a stride of s, as s rows of every s-th pixel; each goes to all the rows of the output
// that it meets, whose sums stay in L1 as well.
#include <algorithm>

#include "backends/cpu/activation.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/picture.h"
#include "base/checked.h"
#include "base/threads.h"

namespace temper {

namespace {

constexpr int64_t kMostColumns = 8, kMostStride = 4;
constexpr int64_t kLeastWidth = 16;     // pixels of a row: a vector
constexpr int64_t kChunk = 512;         // pixels of a row at once
constexpr int64_t kRows = 16;           // of the output, at most, that share rows of the input
constexpr int64_t kTile = 8;            // vectors of sums in registers
constexpr int64_t kVector = 16;         // floats of the widest vector
constexpr int64_t kParallel = 1 << 15;  // multiplications worth a thread

// sums += taps * x for `tile` vectors; x: as many rows as the stride, `phase` floats apart.
template <int64_t w, int64_t tile>
inline void add_tile(const float* x, int64_t phase, int64_t stride, const float* taps, int64_t count, float* sums) {
  using Vector = typename VectorOf<w>::Type;
  Vector sum[tile];
#pragma GCC unroll 8
  for (int64_t t = 0; t < tile; ++t) load(sums + t * w, sum[t]);
  for (int64_t p = 0; p < stride; ++p) {
    const float* from = x + p * phase;
    for (int64_t k = p; k < count; k += stride, ++from) {
      const float tap = taps[k];
#pragma GCC unroll 8
      for (int64_t t = 0; t < tile; ++t) {
        Vector pixels;
        load(from + t * w, pixels);
        sum[t] += pixels * tap;
      }
    }
  }
#pragma GCC unroll 8
  for (int64_t t = 0; t < tile; ++t) store(sum[t], sums + t * w);
}

// The same for a whole row, in tiles of nearly equal size.
template <int64_t w>
inline void add_row(const float* x, int64_t phase, int64_t stride, const float* taps, int64_t count, float* sums,
                    int64_t pixels) {
  const int64_t vectors = ceil_div(pixels, w), tiles = ceil_div(vectors, kTile);
  for (int64_t i = 0; i < tiles; ++i) {
    const int64_t first = vectors * i / tiles * w;
    const auto run = [&]<int64_t tile>() { add_tile<w, tile>(x + first, phase, stride, taps, count, sums + first); };
    switch (vectors * (i + 1) / tiles - vectors * i / tiles) {
      case 1: run.template operator()<1>(); break;
      case 2: run.template operator()<2>(); break;
      case 3: run.template operator()<3>(); break;
      case 4: run.template operator()<4>(); break;
      case 5: run.template operator()<5>(); break;
      case 6: run.template operator()<6>(); break;
      case 7: run.template operator()<7>(); break;
      default: run.template operator()<8>(); break;
    }
  }
}

// Pixels [first, first + count) of every `stride`-th from `begin` on, zeros where there are none.
void copy_row(const float* row, int64_t pixels, int64_t begin, int64_t stride, int64_t count, float* to) {
  const int64_t from = std::clamp<int64_t>(ceil_div(std::max<int64_t>(-begin, 0), stride), 0, count),
                until = std::clamp<int64_t>(ceil_div(std::max<int64_t>(pixels - begin, 0), stride), from, count);
  std::fill_n(to, from, 0.f);
  if (stride == 1) std::copy_n(row + begin + from, until - from, to + from);
  else
    for (int64_t i = from; i < until; ++i) to[i] = row[begin + i * stride];
  std::fill_n(to + until, count - until, 0.f);
}

Config config_of(const Problem& problem) {
  Config config{"", {Layout::plain, Layout::plain}, {Layout::plain}};
  for (const TensorType& extra : extra_types(problem, 2))
    config.inputs.push_back(extra_layout(extra, problem.outputs[0].type, Layout::plain));
  return config;
}

class FewColumnsKernel final : public Kernel {
 public:
  explicit FewColumnsKernel(const Problem& problem)
      : picture_(picture_of(problem, 1)), threads_(std::max(1, problem.threads)) {
    const ActivatedEpilogue epilogue = activated_epilogue(problem, Layout::plain);
    activation_ = epilogue.activation;
    bias_ = epilogue.absorbed.bias >= 0 ? epilogue.absorbed.bias + 2 : -1;
    tail_ = EpilogueTail(problem, DType::f32, epilogue.absorbed.rest, Layout::plain);
    const PictureAxis &height = picture_.height, &width = picture_.width;
    // Blocks of rows that all threads have the same number of, and pieces of rows of nearly equal size.
    const int64_t blocks = ceil_div(ceil_div(height.out, kRows), int64_t(threads_)) * threads_;
    rows_ = ceil_div(height.out, std::min(blocks, height.out));
    chunk_ = round_up(ceil_div(width.out, ceil_div(width.out, kChunk)), kVector);
    phase_ = round_up(chunk_ + ceil_div(width.kernel, width.stride), kVector);
    scratch_ = phase_ * width.stride + chunk_ * rows_ * picture_.columns;
  }

  int64_t workspace() const override { return tail_.workspace(threads_ * scratch_ * int64_t(sizeof(float))); }

  void launch(const Buffers& buffers) override {
    const auto* const x = static_cast<const float*>(buffers.inputs[0]);
    const auto* const weights = static_cast<const float*>(buffers.inputs[1]);
    const float* const bias = bias_ >= 0 ? static_cast<const float*>(buffers.inputs[size_t(bias_)]) : nullptr;
    auto* const y = static_cast<float*>(tail_.destination(buffers));
    auto* const scratch = static_cast<float*>(tail_.scratch(buffers));
    const int64_t blocks = ceil_div(picture_.height.out, rows_), chunks = ceil_div(picture_.width.out, chunk_);
    const int64_t each = rows_ * chunk_ * picture_.columns * picture_.depth();
    parallel_for_threads(threads_, picture_.images * blocks * chunks,
                         std::max<int64_t>(1, kParallel / std::max<int64_t>(1, each)),
                         [&](int member, int64_t begin, int64_t end) {
                           for (int64_t task = begin; task < end; ++task)
                             run(x, weights, bias, y, scratch + member * scratch_, task / chunks / blocks,
                                 task / chunks % blocks * rows_, task % chunks * chunk_);
                         });
    tail_.run(buffers);
  }

 private:
  Picture picture_;
  int threads_, bias_ = -1;
  int64_t rows_, chunk_, phase_, scratch_;  // rows of a block; floats of a piece of a row, of a phase, of a thread
  Activation activation_;
  EpilogueTail tail_;

  // A block of rows from `top` on, and of them the pixels from `left` on.
  void run(const float* x, const float* weights, const float* bias, float* y, float* scratch, int64_t image,
           int64_t top, int64_t left) const {
    const PictureAxis height = picture_.height, width = picture_.width;
    const int64_t rows = std::min(rows_, height.out - top), pixels = std::min(chunk_, width.out - left),
                  columns = picture_.columns, channels = picture_.channels, plane = height.kernel * width.kernel;
    float* const sums = scratch + phase_ * width.stride;
    for (int64_t column = 0; column < columns; ++column)
      std::fill_n(sums + column * rows_ * chunk_, rows * chunk_, bias ? bias[column] : 0.f);
    const int64_t first = std::max<int64_t>(0, top * height.stride - height.begin),
                  last = std::min(height.in, (top + rows - 1) * height.stride - height.begin +
                                                 (height.kernel - 1) * height.dilation + 1);
    for (int64_t channel = 0; channel < channels; ++channel)
      for (int64_t line = first; line < last; ++line) {
        const float* const row = x + ((image * channels + channel) * height.in + line) * width.in;
        for (int64_t p = 0; p < width.stride; ++p)
          copy_row(row, width.in, left * width.stride + p - width.begin, width.stride, phase_, scratch + p * phase_);
        for (int64_t k = 0; k < height.kernel; ++k) {
          const int64_t at = line + height.begin - k * height.dilation - top * height.stride;
          if (at < 0 || at % height.stride != 0 || at / height.stride >= rows) continue;
          for (int64_t column = 0; column < columns; ++column)
            add(scratch, weights + (column * channels + channel) * plane + k * width.kernel,
                sums + (column * rows_ + at / height.stride) * chunk_, pixels);
        }
      }
    for (int64_t column = 0; column < columns; ++column)
      for (int64_t r = 0; r < rows; ++r) {
        float* const sum = sums + (column * rows_ + r) * chunk_;
        activate_row(activation_, nullptr, sum, pixels);
        std::copy_n(sum, pixels, y + ((image * columns + column) * height.out + top + r) * width.out + left);
      }
  }

  void add(const float* x, const float* taps, float* sums, int64_t pixels) const {
    const int64_t phase = phase_, stride = picture_.width.stride, count = picture_.width.kernel;
    vectorised_by_16_or_8([=] { add_row<16>(x, phase, stride, taps, count, sums, pixels); },
                          [=] { add_row<kNarrow>(x, phase, stride, taps, count, sums, pixels); });
  }
};

Support supports(const Problem& problem, const Device&) {
  if (auto s = needs_op<ops::Conv>(problem); !s.yes()) return s;
  const auto& op = problem.op.get<ops::Conv>();
  const Dims x = problem.inputs[0].dims(), y = problem.outputs[0].dims();
  if (problem.inputs[0].type.dtype != DType::f32) return refused("not of f32");
  if (x.size() > 4) return refused("three spatial axes");
  if (op.group != 1) return refused("groups");
  // One that is infinite would make NaN of the zeros beside the picture.
  if (!problem.inputs[1].is_constant) return refused("the weights are not constant");
  if (y[1] > kMostColumns) return refused("more than ", kMostColumns, " output channels");
  if (element_count(y) == 0 || element_count(x) == 0) return refused("an empty tensor");
  if (y.back() < kLeastWidth) return refused("rows of fewer than ", kLeastWidth, " pixels");
  if (op.dilations.back() != 1) return refused("dilated along the rows");
  if (op.strides.back() > kMostStride) return refused("a stride of more than ", kMostStride);
  if (auto s = EpilogueTail::supports(problem, DType::f32, activated_epilogue(problem, Layout::plain).absorbed.rest,
                                      Layout::plain);
      !s.yes())
    return refused("its epilogue: ", s.reason);
  return supported();
}

std::vector<Config> configs(const Problem& problem, const Device&) { return {config_of(problem)}; }

std::unique_ptr<Kernel> load(const Problem& problem, const Config&, const PackedView&, const Device&) {
  return std::make_unique<FewColumnsKernel>(problem);
}

}  // namespace

extern const Tactic cpu_conv_few;
const Tactic cpu_conv_few{"cpu.conv.few", 1, supports, configs, nullptr, load};

}  // namespace temper
