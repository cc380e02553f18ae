// SPDX-License-Identifier: Apache-2.0
// Transposed convolution of f32, as ONNX's definition has it: a product of the transposed weights and the picture gives
// what each tap adds, and each row of the output gathers its taps. So no thread adds where another one does, and
// outputs without a tap, of which a stride above the window leaves most, cost a store. Where a group has few channels,
// rows are gathered from the picture itself, for the product would be a copy of it for each tap.
//
// A pass makes convolutions of transposed ones where weights are constant and most taps are no zeros then
// (passes/expand_conv_transpose.cc): here come the others.
#include "graph/ops/conv_transpose.h"

#include <dnnl.h>

#include "backends/cpu/activation.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/onednn.h"
#include "backends/cpu/vectors.h"
#include "base/threads.h"

namespace temper {

namespace {

constexpr int64_t kProducts = 128 << 10;  // floats of the products of a block of channels, which are to stay in L2
constexpr int64_t kLeastRows = 16;        // of a product: below, most of its kernel's registers would be empty
constexpr int64_t kFewChannels = 4;       // of a group
constexpr int64_t kPiece = 512;           // elements of a phase that are gathered at once, which stay in L1
constexpr int64_t kParallel = 1 << 14;    // elements worth a thread

// One axis: output o sums the taps k with inputs i where o + pad = i * stride + k * dilation.
struct Axis {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad = 0;
};

// The taps k, with the inputs i that they are for, of each output of an axis.
class TapsOfOutputs {
 public:
  struct Tap {
    int64_t k, i;
  };
  explicit TapsOfOutputs(const Axis& axis) : begins_{0} {
    for (int64_t output = 0; output < axis.out; ++output) {
      for (int64_t k = 0; k < axis.kernel; ++k) {
        const int64_t scaled = output + axis.pad - k * axis.dilation;
        if (scaled >= 0 && scaled % axis.stride == 0 && scaled / axis.stride < axis.in)
          taps_.push_back({k, scaled / axis.stride});
      }
      begins_.push_back(taps_.size());
    }
  }
  std::span<const Tap> of(int64_t output) const {
    const size_t begin = begins_[size_t(output)];
    return {taps_.data() + begin, begins_[size_t(output) + 1] - begin};
  }

 private:
  std::vector<size_t> begins_;
  std::vector<Tap> taps_;
};

// The outputs q * stride + phase of the last axis read tap k at input q - shift.
struct Tap {
  int64_t phase, k, shift;
};

struct Geometry {
  std::array<Axis, 3> axes;                                 // the first ones are of size 1 where there are fewer
  int64_t images = 1, groups = 1, inputs = 1, outputs = 1;  // channels of a group
  int64_t positions() const { return axes[0].in * axes[1].in * axes[2].in; }
  int64_t taps() const { return axes[0].kernel * axes[1].kernel * axes[2].kernel; }
  int64_t rows() const { return axes[0].out * axes[1].out; }  // of a channel
};

Geometry geometry_of(const Problem& problem) {
  const auto& op = problem.op.get<ops::ConvTranspose>();
  const Dims x = problem.inputs[0].dims(), w = problem.inputs[1].dims(), y = problem.outputs[0].dims();
  Geometry geometry;
  geometry.images = x[0];
  geometry.groups = op.group;
  geometry.inputs = w[0] / op.group;
  geometry.outputs = w[1];
  const size_t spatial = op.strides.size();
  for (size_t i = 0; i < spatial; ++i)
    geometry.axes[3 - spatial + i] = {x[i + 2], y[i + 2], w[i + 2], op.strides[i], op.dilations[i], op.pads[i]};
  return geometry;
}

std::vector<Tap> taps_by_phase(const Axis& axis) {
  std::vector<Tap> taps;
  for (int64_t k = 0; k < axis.kernel; ++k) {
    const int64_t at = k * axis.dilation - axis.pad, phase = (at % axis.stride + axis.stride) % axis.stride;
    taps.push_back({phase, k, (at - phase) / axis.stride});
  }
  std::ranges::stable_sort(taps, {}, &Tap::phase);
  return taps;
}

// What rows of a channel are gathered from: rows of numbers, `channels` of them for each tap, each times a weight, or,
// where there are no weights, rows that a product made.
struct Source {
  const float* from;
  int64_t of_tap, of_channel, channels;  // floats from one to the next
  const float* weights;                  // of the output's channel; null: none
  int64_t weights_row;                   // from one input channel to the next
};

// A row that a phase of an output's row sums, for outputs [from, to) of a piece; x is at the first of the piece.
struct Term {
  const float* x;
  int64_t from, to;
  float weight;
};

// sum[j] = bias + weight * x[j] of all terms, for v vectors of w floats.
template <int w, int v>
inline void sum_vectors(std::span<const Term> terms, float bias, float* sum, int64_t j) {
  using Vector = typename VectorOf<w>::Type;
  const Vector zero = {};
  Vector sums[v];
#pragma GCC unroll 4
  for (int i = 0; i < v; ++i) sums[i] = zero + bias;
  for (const Term& term : terms)
#pragma GCC unroll 4
    for (int i = 0; i < v; ++i) {
      Vector x;
      load(term.x + j + i * w, x);
      sums[i] += term.weight * x;
    }
#pragma GCC unroll 4
  for (int i = 0; i < v; ++i) store(sums[i], sum + j + i * w);
}

// For outputs [begin, end), which all terms reach. The last vector begins early rather than that it were a part of one.
template <int w>
inline void sum_inside(std::span<const Term> terms, float bias, float* sum, int64_t begin, int64_t end) {
  if constexpr (w > 4) {
    if (end - begin < w) return sum_inside<4>(terms, bias, sum, begin, end);
  } else if (end - begin < w) {
    for (int64_t j = begin; j < end; ++j) {
      sum[j] = bias;
      for (const Term& term : terms) sum[j] += term.weight * term.x[j];
    }
    return;
  }
  int64_t j = begin;
  for (; j + 4 * w <= end; j += 4 * w) sum_vectors<w, 4>(terms, bias, sum, j);
  for (; j < end; j += w) sum_vectors<w, 1>(terms, bias, sum, std::min(j, end - w));
}

// For n outputs, some of which not all terms reach.
template <int w>
inline void sum_terms(std::span<const Term> terms, float bias, float* sum, int64_t n) {
  int64_t begin = 0, end = n;
  for (const Term& term : terms) {
    begin = std::max(begin, term.from);
    end = std::min(end, term.to);
  }
  begin = std::min(begin, n);
  end = std::max(begin, end);
  const auto at_edges = [&](int64_t first, int64_t last) {
    for (int64_t j = first; j < last; ++j) {
      float one = bias;
      for (const Term& term : terms)
        if (j >= term.from && j < term.to) one += term.weight * term.x[j];
      sum[j] = one;
    }
  };
  at_edges(0, begin);
  sum_inside<w>(terms, bias, sum, begin, end);
  at_edges(end, n);
}

class ConvTransposeKernel final : public Kernel {
 public:
  explicit ConvTransposeKernel(const Problem& problem)
      : g_(geometry_of(problem)),
        threads_(std::max(1, problem.threads)),
        depths_(g_.axes[0]),
        heights_(g_.axes[1]),
        taps_(taps_by_phase(g_.axes[2])) {
    const ActivatedEpilogue epilogue = activated_epilogue(problem, Layout::plain, true);
    activation_ = epilogue.activation;
    residual_ = epilogue.residual >= 0 ? epilogue.residual + 2 : -1;
    bias_ = epilogue.absorbed.bias >= 0 ? epilogue.absorbed.bias + 2 : -1;
    tail_ = EpilogueTail(problem, DType::f32, epilogue.absorbed.rest, Layout::plain);
    for (size_t i = 0; i < taps_.size(); ++i) phases_ += i == 0 || taps_[i].phase != taps_[i - 1].phase;
    if (g_.inputs <= kFewChannels) return;
    // Blocks of channels whose products stay in L2, and as many that threads have the same number, if there are enough.
    const int64_t taps = g_.taps(), least = ceil_div(kLeastRows, taps), of_channel = taps * g_.positions();
    const int64_t fit = std::max(least, kProducts / std::max<int64_t>(1, of_channel)), all = g_.images * g_.groups;
    int64_t blocks = ceil_div(g_.outputs, std::min(fit, g_.outputs));
    while (all * blocks % threads_ != 0 && g_.outputs / (blocks + 1) >= least) ++blocks;
    block_ = ceil_div(g_.outputs, blocks);
    items_ = all * ceil_div(g_.outputs, block_);
    products_ = round_up<int64_t>(block_ * of_channel, 16);
  }

  int64_t workspace() const override {
    return tail_.workspace(threads_ * terms_bytes() +
                           (items_ >= threads_ ? threads_ : 1) * products_ * int64_t(sizeof(float)));
  }

  void launch(const Buffers& buffers) override {
    const Run run{static_cast<const float*>(buffers.inputs[0]), static_cast<const float*>(buffers.inputs[1]),
                  bias_ >= 0 ? static_cast<const float*>(buffers.inputs[size_t(bias_)]) : nullptr,
                  residual_ >= 0 ? static_cast<const float*>(buffers.inputs[size_t(residual_)]) : nullptr,
                  static_cast<float*>(tail_.destination(buffers))};
    auto* const lists = static_cast<std::byte*>(tail_.scratch(buffers));
    auto* const scratch = reinterpret_cast<float*>(lists + threads_ * terms_bytes());
    const auto terms_of = [&](int member) { return reinterpret_cast<Term*>(lists + member * terms_bytes()); };
    if (items_ == 0) {
      const int64_t channels = g_.images * g_.groups * g_.outputs;
      gather_in_parallel(channels, g_.inputs, [&](int member, int64_t channel, int64_t begin, int64_t end) {
        const int64_t m = channel % (g_.groups * g_.outputs), group = m / g_.outputs,
                      image = channel / (g_.groups * g_.outputs);
        gather(run, channel, begin, end,
               {run.x + (image * g_.groups + group) * g_.inputs * g_.positions(), 0, g_.positions(), g_.inputs,
                run.w + (group * g_.inputs * g_.outputs + m % g_.outputs) * g_.taps(), g_.outputs * g_.taps()},
               terms_of(member));
      });
    } else if (items_ >= threads_) {
      parallel_for_threads(threads_, items_, 1, [&](int member, int64_t begin, int64_t end) {
        const ThreadScope alone(1, Parts::together, true);
        float* const products = scratch + member * products_;
        for (int64_t item = begin; item < end; ++item) {
          const Block block = block_of(item);
          multiply(run, block, products);
          for (int64_t i = 0; i < block.count; ++i)
            gather(run, block.first + i, 0, g_.rows(), source_of(products, i), terms_of(member));
        }
      });
    } else {
      for (int64_t item = 0; item < items_; ++item) {
        const Block block = block_of(item);
        {
          const ThreadScope threads(threads_, Parts::together, true);
          multiply(run, block, scratch);
        }
        gather_in_parallel(block.count, 1, [&](int member, int64_t i, int64_t begin, int64_t end) {
          gather(run, block.first + i, begin, end, source_of(scratch, i), terms_of(member));
        });
      }
    }
    tail_.run(buffers);
  }

 private:
  struct Run {
    const float *x, *w, *bias, *residual;
    float* y;
  };
  // Channels of the outputs of a group of an image.
  struct Block {
    int64_t picture, group, from, count;  // picture: the group of the image
    int64_t first;                        // among the channels of all images
  };

  const Geometry g_;
  const int threads_;
  const TapsOfOutputs depths_, heights_;
  const std::vector<Tap> taps_;  // of the last axis
  int64_t phases_ = 0;           // that have taps
  Activation activation_;
  int bias_ = -1, residual_ = -1;
  int64_t block_ = 0, items_ = 0, products_ = 0;  // channels; blocks of all groups; floats of a block's products
  EpilogueTail tail_;

  // What one row may sum.
  int64_t terms_bytes() const {
    return round_up<int64_t>((items_ == 0 ? g_.inputs : 1) * g_.taps() * int64_t(sizeof(Term)), 64);
  }
  Block block_of(int64_t item) const {
    const int64_t blocks = ceil_div(g_.outputs, block_), picture = item / blocks, from = item % blocks * block_;
    return {picture, picture % g_.groups, from, std::min(block_, g_.outputs - from), picture * g_.outputs + from};
  }

  // products [channels of the block, taps, positions] = weights [inputs, outputs, taps]^T * x [inputs, positions].
  void multiply(const Run& run, const Block& block, float* products) const {
    const int64_t taps = g_.taps(), positions = g_.positions(), row = g_.outputs * taps;
    const dnnl_status_t status =
        dnnl_sgemm('T', 'N', block.count * taps, positions, g_.inputs, 1.f,
                   run.w + block.group * g_.inputs * row + block.from * taps, row,
                   run.x + block.picture * g_.inputs * positions, positions, 0.f, products, positions);
    if (status != dnnl_success) fail(ErrorKind::machine, "oneDNN failed to multiply (status ", int(status), ")");
  }

  Source source_of(const float* products, int64_t channel) const {
    return {products + channel * g_.taps() * g_.positions(), g_.positions(), 0, 1, nullptr, 0};
  }

  // body(member, channel, begin, end) for rows of it, for all rows of all channels.
  template <class Body>
  void gather_in_parallel(int64_t channels, int64_t of_tap, Body body) const {
    const int64_t rows = g_.rows(), cost = of_tap * (g_.axes[2].out + g_.taps() * g_.axes[2].in);
    parallel_for_threads(threads_, channels * rows, std::max<int64_t>(1, kParallel / std::max<int64_t>(1, cost)),
                         [&](int member, int64_t begin, int64_t end) {
                           for (int64_t at = begin; at < end;) {
                             const int64_t row = at % rows, count = std::min(rows - row, end - at);
                             body(member, at / rows, row, row + count);
                             at += count;
                           }
                         });
  }

  // Rows [begin, end) of a channel, which is counted through all images.
  void gather(const Run& run, int64_t channel, int64_t begin, int64_t end, Source source, Term* terms) const {
    const float bias = run.bias ? run.bias[channel % (g_.groups * g_.outputs)] : 0;
    const int64_t length = g_.axes[2].out, first = (channel * g_.rows() + begin) * length;
    float* const y = run.y + first;
    for (int64_t row = begin; row < end; ++row) gather_row(source, row, bias, y + (row - begin) * length, terms);
    activate_row(activation_, run.residual ? run.residual + first : nullptr, y, (end - begin) * length);
  }

  void gather_row(const Source& source, int64_t row, float bias, float* y, Term* list) const {
    const int64_t length = g_.axes[2].out, stride = g_.axes[2].stride;
    const auto depths = depths_.of(row / g_.axes[1].out), heights = heights_.of(row % g_.axes[1].out);
    const bool is_empty = depths.empty() || heights.empty(), in_pairs = stride == 2 && phases_ == 2;
    if (phases_ < stride || is_empty) std::fill_n(y, length, bias);
    if (is_empty) return;
    alignas(64) float sums[2][kPiece];
    for (int64_t q = 0; q * stride < length; q += kPiece) {
      const auto count = [&](int64_t phase) { return std::min(kPiece, (length - phase + stride - 1) / stride - q); };
      for (size_t i = 0, end = 0; i < taps_.size(); i = end) {
        while (end < taps_.size() && taps_[end].phase == taps_[i].phase) ++end;
        const int64_t phase = taps_[i].phase, n = count(phase);
        if (n <= 0) continue;
        float* const to = y + q * stride + phase;
        float* const sum = stride == 1 ? to : sums[in_pairs ? phase : 0];
        const std::span<const Term> terms = list_terms(source, depths, heights, {&taps_[i], end - i}, q, n, list);
        vectorised_by_16_or_8([=] { sum_terms<16>(terms, bias, sum, n); },
                              [=] { sum_terms<kNarrow>(terms, bias, sum, n); });
        if (stride == 1 || in_pairs) continue;
        for (int64_t j = 0; j < n; ++j) to[j * stride] = sum[j];
      }
      if (!in_pairs) continue;
      const int64_t pairs = count(1);
      float* const to = y + q * 2;
      const float *const even = sums[0], *const odd = sums[1];
      vectorised([=] {
        TEMPER_NO_ALIAS
        for (int64_t j = 0; j < pairs; ++j) {
          to[2 * j] = even[j];
          to[2 * j + 1] = odd[j];
        }
      });
      if (count(0) > pairs) to[2 * pairs] = even[pairs];
    }
  }

  // What a row's taps, of the last axis some of a phase, add to n outputs of that phase from q on.
  std::span<const Term> list_terms(const Source& source, std::span<const TapsOfOutputs::Tap> depths,
                                   std::span<const TapsOfOutputs::Tap> heights, std::span<const Tap> widths, int64_t q,
                                   int64_t n, Term* terms) const {
    const auto& [depth, height, width] = g_.axes;
    size_t count = 0;
    for (const auto [kd, d] : depths)
      for (const auto [kh, h] : heights)
        for (const Tap& last : widths) {
          const int64_t tap = (kd * height.kernel + kh) * width.kernel + last.k, before = last.shift - q;
          const int64_t from = std::max<int64_t>(0, before), to = std::min(n, width.in + before);
          if (from >= to) continue;
          const float* const x = source.from + tap * source.of_tap + (d * height.in + h) * width.in - before;
          for (int64_t c = 0; c < source.channels; ++c)
            terms[count++] = {x + c * source.of_channel, from, to,
                              source.weights ? source.weights[c * source.weights_row + tap] : 1.f};
        }
    return {terms, count};
  }
};

Support supports(const Problem& problem, const Device&) {
  if (auto s = needs_op<ops::ConvTranspose>(problem); !s.yes()) return s;
  if (problem.inputs[0].type.dtype != DType::f32) return refused("not of f32");
  if (element_count(problem.outputs[0].dims()) == 0 || element_count(problem.inputs[0].dims()) == 0)
    return refused("an empty tensor");
  if (auto s = EpilogueTail::supports(problem, DType::f32,
                                      activated_epilogue(problem, Layout::plain, true).absorbed.rest, Layout::plain);
      !s.yes())
    return refused("its epilogue: ", s.reason);
  return supported();
}

std::vector<Config> configs(const Problem& problem, const Device&) { return {uniform_config(problem, Layout::plain)}; }

std::unique_ptr<Kernel> load(const Problem& problem, const Config&, const PackedView&, const Device&) {
  return std::make_unique<ConvTransposeKernel>(problem);
}

}  // namespace

extern const Tactic cpu_conv_transpose;
const Tactic cpu_conv_transpose{"cpu.conv_transpose", 1, supports, configs, nullptr, load};

}  // namespace temper
