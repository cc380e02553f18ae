// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution of f32, each channel with its own filter, where channels lie side by side. A tile of pixels of
// a row stays in registers for a vector of channels; every pixel of the input is loaded once for each row of the filter
// and goes to all the taps that it meets, so that arithmetic is the limit and not loads (oneDNN's kernel loads a pixel
// once for each tap).
#include <cstring>

#include "backends/cpu/activation.h"
#include "backends/cpu/box_copy.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/picture.h"
#include "base/checked.h"
#include "base/threads.h"
#include "graph/ops/conv.h"

namespace temper {

namespace {

constexpr int64_t kTile = 7;            // pixels of the output at once: rows of image nets are multiples of it
constexpr int64_t kParallel = 1 << 15;  // multiplications worth a thread

// Distances in floats. A row of filters: [tap][channel of the group].
struct Place {
  int64_t pixel_in, row_in, pixel_out, row_out, tap;
};

// Pixels [first, first + kTile) of a row of the output, for w channels. `inside`: all that they read lies in the row.
// Taps of rows [from, to) of the filter; x: where row `from` meets the input.
template <int64_t w, int taps, int stride, bool inside>
inline void tile(const float* x, const PictureAxis& width, int64_t first, int64_t from, int64_t to, const float* filter,
                 const float* bias, const Activation& activation, const Place& place, float* y) {
  using Vector = typename VectorOf<w>::Type;
  constexpr int64_t columns = (kTile - 1) * stride + taps;
  const int64_t left = first * stride - width.begin;
  Vector sum[kTile];
#pragma GCC unroll 8
  for (int64_t t = 0; t < kTile; ++t) load(bias, sum[t]);
  const float* row = x + left * place.pixel_in;
  const float* weights = filter + from * taps * place.tap;
  for (int64_t k = from; k < to; ++k, row += place.row_in, weights += taps * place.tap) {
    Vector tap[taps];
#pragma GCC unroll 8
    for (int i = 0; i < taps; ++i) load(weights + i * place.tap, tap[i]);
#pragma GCC unroll 32
    for (int64_t c = 0; c < columns; ++c) {
      if (!inside && uint64_t(left + c) >= uint64_t(width.in)) continue;
      Vector pixel;
      load(row + c * place.pixel_in, pixel);
#pragma GCC unroll 8
      for (int64_t t = 0; t < kTile; ++t)
        if (c - t * stride >= 0 && c - t * stride < taps) sum[t] += pixel * tap[c - t * stride];
    }
  }
  const int64_t count = inside ? kTile : std::min(kTile, width.out - first);
#pragma GCC unroll 8
  for (int64_t t = 0; t < kTile; ++t) activate_quickly<w>(activation, sum[t]);
#pragma GCC unroll 8
  for (int64_t t = 0; t < kTile; ++t)
    if (t < count) store(sum[t], y + (first + t) * place.pixel_out);
  if (activation.kind != Activation::Kind::swish) return;
#pragma GCC unroll 1
  for (int64_t t = 0; t < count; ++t) {
    float* const pixel = y + (first + t) * place.pixel_out;
    Vector value;
    load(pixel, value);
    swish<w>(value);
    store(value, pixel);
  }
}

// Rows [begin, end) of the output for w channels.
template <int64_t w, int taps, int stride>
inline void rows(const float* x, const Picture& picture, int64_t begin, int64_t end, const float* filter,
                 const float* bias, const Activation& activation, const Place& place, float* y) {
  const PictureAxis height = picture.height, width = picture.width;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t top = row * height.stride - height.begin;
    const int64_t from = std::clamp<int64_t>(-top, 0, height.kernel),
                  to = std::clamp<int64_t>(height.in - top, from, height.kernel);
    const float* const in = x + (top + from) * place.row_in;
    float* const out = y + row * place.row_out;
    for (int64_t first = 0; first < width.out; first += kTile) {
      const int64_t left = first * stride - width.begin;
      const bool inside = left >= 0 && left + (kTile - 1) * stride + taps <= width.in && first + kTile <= width.out;
      if (inside) tile<w, taps, stride, true>(in, width, first, from, to, filter, bias, activation, place, out);
      else tile<w, taps, stride, false>(in, width, first, from, to, filter, bias, activation, place, out);
    }
  }
}

template <int64_t w>
inline void rows_of(const float* x, const Picture& picture, int64_t begin, int64_t end, const float* filter,
                    const float* bias, const Activation& activation, const Place& place, float* y) {
  const auto run = [&]<int taps>() {
    if (picture.width.stride == 1) rows<w, taps, 1>(x, picture, begin, end, filter, bias, activation, place, y);
    else rows<w, taps, 2>(x, picture, begin, end, filter, bias, activation, place, y);
  };
  switch (picture.width.kernel) {
    case 3: return run.template operator()<3>();
    case 5: return run.template operator()<5>();
    default: return run.template operator()<7>();
  }
}

// Channels that are packed together: 16 while there are, then 8.
int64_t group_at(int64_t channel, int64_t channels) { return channels - channel >= 16 ? 16 : 8; }

// Floats of the packed filters: those of the channels and zeros up to a whole block, then as many biases.
int64_t packed_channels(const Problem& problem, Layout layout) {
  return round_up<int64_t>(problem.inputs[0].dims()[1], block_of(layout));
}

class DepthwiseKernel final : public Kernel {
 public:
  DepthwiseKernel(const Problem& problem, const Config& config, std::span<const std::byte> packed)
      : picture_(picture_of(problem, 1)),
        layout_(config.inputs[0]),
        threads_(problem.threads),
        channels_(packed_channels(problem, layout_)),
        filters_(reinterpret_cast<const float*>(packed.data())),
        padding_(problem.outputs[0].dims(), layout_, sizeof(float)) {
    const int64_t taps = picture_.height.kernel * picture_.width.kernel;
    expect_packed(packed, size_t(channels_ * (taps + 1)) * sizeof(float));
    biases_ = filters_ + channels_ * taps;
    const ActivatedEpilogue epilogue = activated_epilogue(problem, layout_);
    activation_ = epilogue.activation;
    bias_input_ = epilogue.absorbed.bias >= 0 ? epilogue.absorbed.bias + 2 : -1;
    tail_ = EpilogueTail(problem, DType::f32, epilogue.absorbed.rest, layout_);
    for (int64_t c = 0; c < channels_; c += group_at(c, channels_)) ++groups_;
  }

  int64_t workspace() const override { return tail_.workspace(0); }
  bool reads(size_t input) const override { return input != 1 && int64_t(input) != bias_input_; }

  void launch(const Buffers& buffers) override {
    const float* const x = static_cast<const float*>(buffers.inputs[0]);
    float* const y = static_cast<float*>(tail_.destination(buffers));
    const PictureAxis height = picture_.height, width = picture_.width;
    const int64_t per_row = width.out * 16 * height.kernel * width.kernel;
    // Groups of channels one after another, each with its rows, so that a thread's rows are neighbours.
    parallel_for_threads(threads_, picture_.images * groups_ * height.out, std::max<int64_t>(1, kParallel / per_row),
                         [&](int, int64_t begin, int64_t end) {
                           while (begin < end) {
                             const int64_t row = begin % height.out, last = std::min(height.out, row + end - begin);
                             run(x, y, begin / height.out, row, last);
                             begin += last - row;
                           }
                         });
    padding_.run(y);
    tail_.run(buffers);
  }

 private:
  // Rows [begin, end) of one image and group of channels.
  void run(const float* x, float* y, int64_t task, int64_t begin, int64_t end) const {
    const int64_t image = task / groups_, channel = task % groups_ * 16, group = group_at(channel, channels_);
    const PictureAxis &height = picture_.height, &width = picture_.width;
    const int64_t in = height.in * width.in, out = height.out * width.out;
    const int64_t block = layout_ == Layout::channels_last ? channels_ : block_of(layout_);
    const Place place{block, width.in * block, block, width.out * block, group};
    const float* const filter = filters_ + channel * height.kernel * width.kernel;
    const float* const bias = biases_ + channel;
    const Activation activation = activation_;
    const Picture picture = picture_;
    for (int64_t lane = 0; lane < group; lane += kNarrow) {
      // Blocks of 8 channels are planes of their own.
      const int64_t c = channel + lane, plane = layout_ == Layout::channels_last ? 0 : c / block,
                    within = layout_ == Layout::channels_last ? c : c % block;
      const float* const from = x + image * in * channels_ + plane * in * block + within;
      float* const to = y + image * out * channels_ + plane * out * block + within;
      const auto narrow = [=] {
        rows_of<kNarrow>(from, picture, begin, end, filter + lane, bias + lane, activation, place, to);
      };
      if (group == 16 && block >= 16 && cpu_isa() == Isa::avx512)
        return vectorised_by_16_or_8(
            [=] { rows_of<16>(from, picture, begin, end, filter, bias, activation, place, to); }, narrow);
      vectorised_by_8(narrow);
    }
  }

  Picture picture_;
  Layout layout_;
  int threads_;
  int64_t channels_, groups_ = 0, bias_input_ = -1;
  const float *filters_, *biases_ = nullptr;
  Activation activation_;
  ZeroPadding padding_;
  EpilogueTail tail_;
};

Support supports(const Problem& problem, const Device&) {
  if (auto s = needs_op<ops::Conv>(problem); !s.yes()) return s;
  const auto& op = problem.op.get<ops::Conv>();
  const Dims x = problem.inputs[0].dims(), y = problem.outputs[0].dims(), w = problem.inputs[1].dims();
  if (problem.inputs[0].type.dtype != DType::f32) return refused("not of f32");
  if (x.size() > 4) return refused("three spatial axes");
  if (op.group == 1 || op.group != x[1] || x[1] != y[1]) return refused("not depthwise");
  if (!problem.inputs[1].is_constant) return refused("the weights are not constant");
  if (element_count(y) == 0 || element_count(x) == 0) return refused("an empty tensor");
  for (const int64_t dilation : op.dilations)
    if (dilation != 1) return refused("dilated");
  const int64_t taps = w.back(), stride = op.strides.back();
  if (taps != 3 && taps != 5 && taps != 7) return refused("a filter of other than 3, 5 or 7 columns");
  if (stride != 1 && stride != 2) return refused("a stride of more than 2");
  const ActivatedEpilogue epilogue = activated_epilogue(problem, Layout::channels_last);
  if (epilogue.absorbed.bias >= 0 && !problem.inputs[size_t(epilogue.absorbed.bias) + 2].is_constant)
    return refused("its bias is not constant");
  if (auto s = EpilogueTail::supports(problem, DType::f32, epilogue.absorbed.rest, Layout::plain); !s.yes())
    return refused("its epilogue: ", s.reason);
  return supported();
}

std::vector<Config> configs(const Problem& problem, const Device& device) {
  std::vector<Config> result;
  for (const Layout layout : useful_layouts(problem.inputs[0].dims(), device)) {
    if (layout == Layout::plain || !layout_fits(problem.outputs[0].dims(), layout)) continue;
    if (layout == Layout::channels_last && problem.inputs[0].dims()[1] % 8) continue;
    if (!EpilogueTail::supports(problem, DType::f32, activated_epilogue(problem, layout).absorbed.rest, layout).yes())
      continue;
    Config config;
    config.inputs = {layout, Layout::plain};
    for (const TensorType& extra : extra_types(problem, 2))
      config.inputs.push_back(extra_layout(extra, problem.outputs[0].type, layout));
    config.outputs = {layout};
    result.push_back(std::move(config));
  }
  return result;
}

// Packed: of each group of channels [row][column][channel], then the bias of each channel; zeros where there is none.
Packed build(const Problem& problem, const Config& config, const Device&) {
  const Picture picture = picture_of(problem, 1);
  const int64_t taps = picture.height.kernel * picture.width.kernel,
                channels = packed_channels(problem, config.inputs[0]);
  const int bias = activated_epilogue(problem, config.inputs[0]).absorbed.bias;
  Packed packed;
  packed.bytes.resize(size_t(channels * (taps + 1)) * sizeof(float));
  std::memset(packed.bytes.data(), 0, packed.bytes.size());
  float* const to = reinterpret_cast<float*>(packed.bytes.data());
  const float* const filters = problem.inputs[1].constant->data<float>();
  for (int64_t c = 0; c < picture.channels; ++c) {
    const int64_t first = c / 16 * 16, group = group_at(first, channels);
    // Behind the last 16 channels there may be 8 more.
    for (int64_t tap = 0; tap < taps; ++tap) to[first * taps + tap * group + c - first] = filters[c * taps + tap];
  }
  packed.consumed.assign(problem.inputs.size(), false);
  packed.consumed[1] = true;
  if (bias >= 0) {
    const Tensor& tensor = *problem.inputs[size_t(bias) + 2].constant;
    std::copy_n(tensor.data<float>(), picture.channels, to + channels * taps);
    packed.consumed[size_t(bias) + 2] = true;
  }
  return packed;
}

std::unique_ptr<Kernel> load(const Problem& problem, const Config& config, const PackedView& packed, const Device&) {
  return std::make_unique<DepthwiseKernel>(problem, config, packed);
}

}  // namespace

extern const Tactic cpu_conv_depthwise;
const Tactic cpu_conv_depthwise{"cpu.conv.depthwise", 2, supports, configs, build, load};

}  // namespace temper
