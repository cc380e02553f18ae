// SPDX-License-Identifier: Apache-2.0
// grid_sample on CPUs: what a position is made of is worked out once for all channels, which are summed side by side
// where they lie last.
#include "graph/ops/grid_sample.h"

#include <algorithm>

#include "backends/cpu/cpu.h"
#include "backends/cpu/half.h"
#include "backends/cpu/isa.h"
#include "base/threads.h"

namespace temper {

namespace {

constexpr int64_t kParallel = 16384;  // multiplications worth a thread
constexpr int64_t kChannels = 64;     // that are summed at a time
constexpr int64_t kMostAxes = 6, kMostTaps = 64;

// The elements that make a sample, those outside left out.
struct Taps {
  int64_t count = 0;
  int64_t offset[kMostTaps];
  double weight[kMostTaps];
};

class GridSampleKernel final : public Kernel {
 public:
  GridSampleKernel(const Problem& problem, Layout layout)
      : op_(problem.op.get<ops::GridSample>()),
        dtype_(problem.inputs[0].type.dtype),
        grid_(problem.inputs[1].type.dtype),
        dims_(problem.inputs[0].dims()),
        last_(layout == Layout::channels_last),
        threads_(problem.threads) {
    const int64_t count = element_count(problem.outputs[0].dims());
    points_ = count == 0 ? 0 : count / (dims_[0] * dims_[1]);
    int64_t stride = last_ ? dims_[1] : 1;
    for (size_t i = dims_.size(); i-- > 2;) strides_[i - 2] = stride, stride *= dims_[i];
    plane_ = last_ ? 1 : stride;
  }

  void launch(const Buffers& buffers) override {
    if (points_ == 0) return;
    const int64_t each = dims_[1] << (op_.kind == ops::SampleKind::nearest ? 0 : dims_.size() - 2);
    parallel_for_threads(threads_, dims_[0] * points_, std::max<int64_t>(1, kParallel / each),
                         [&](int, int64_t begin, int64_t end) {
                           visit_dtype(dtype_, [&]<class T>() {
                             visit_dtype(grid_, [&]<class G>() {
                               if constexpr (std::is_same_v<Wide<G>, double>)
                                 run(static_cast<const T*>(buffers.inputs[0]), static_cast<const G*>(buffers.inputs[1]),
                                     static_cast<T*>(buffers.outputs[0]), begin, end);
                             });
                           });
                         });
  }

 private:
  const ops::GridSample op_;
  const DType dtype_, grid_;
  const Dims dims_;
  const bool last_;  // channels are
  const int threads_;
  int64_t points_ = 0, plane_ = 1;
  int64_t strides_[kMostAxes] = {};

  template <class T, class G>
  void run(const T* x, const G* grid, T* out, int64_t begin, int64_t end) const {
    const int64_t axes = int64_t(dims_.size()) - 2, channels = dims_[1];
    const int64_t image = element_count(dims_) / dims_[0];
    Taps two[2];
    for (int64_t i = begin; i < end; ++i) {
      const int64_t n = i / points_, point = i % points_;
      const Taps& taps = find(grid + i * axes, two);
      const T* from = x + n * image;
      T* to = out + n * channels * points_ + point * (last_ ? channels : 1);
      if (op_.kind == ops::SampleKind::nearest) move(from, to, taps);
      else if (last_) sum_together(from, to, taps);
      else sum(from, to, taps);
    }
  }

  // What the position at `place` is made of, in one of the two.
  template <class G>
  const Taps& find(const G* place, Taps (&two)[2]) const {
    const size_t axes = dims_.size() - 2;
    Taps *taps = &two[0], *next = &two[1];
    taps->count = 1;
    taps->offset[0] = 0;
    taps->weight[0] = 1;
    for (size_t k = 0; k < axes; ++k) {
      const ops::SampleTaps along = sample_taps(op_, double(place[axes - 1 - k]), dims_[k + 2]);
      next->count = 0;
      for (int64_t t = 0; t < taps->count; ++t)
        for (size_t j = 0; j < size_t(along.count); ++j) {
          if (along.index[j] < 0) continue;
          next->offset[next->count] = taps->offset[t] + along.index[j] * strides_[k];
          next->weight[next->count++] = taps->weight[t] * along.weight[j];
        }
      std::swap(taps, next);
    }
    return *taps;
  }

  template <class T>
  void move(const T* from, T* to, const Taps& taps) const {
    const int64_t step = last_ ? 1 : points_;
    for (int64_t c = 0; c < dims_[1]; ++c) to[c * step] = taps.count ? from[c * plane_ + taps.offset[0]] : T(0);
  }

  // f32 for 16 bits, too.
  template <class T>
  using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;

  template <class T>
  void sum(const T* from, T* to, const Taps& taps) const {
    for (int64_t c = 0; c < dims_[1]; ++c) {
      Sum<T> sum = 0;
      for (int64_t t = 0; t < taps.count; ++t)
        sum += Sum<T>(taps.weight[t]) * static_cast<Sum<T>>(from[c * plane_ + taps.offset[t]]);
      to[c * points_] = static_cast<T>(sum);
    }
  }

  template <class T>
  void sum_together(const T* from, T* to, const Taps& taps) const {
    for (int64_t c = 0; c < dims_[1]; c += kChannels) {
      const int64_t n = std::min(kChannels, dims_[1] - c);
      alignas(64) Sum<T> sums[kChannels] = {};
      Sum<T>* const all = sums;
      const Taps* const of = &taps;
      vectorised([=] {
        for (int64_t t = 0; t < of->count; ++t) {
          const T* const at = from + c + of->offset[t];
          const Sum<T> weight = Sum<T>(of->weight[t]);
          TEMPER_NO_ALIAS
          for (int64_t k = 0; k < n; ++k) all[k] += weight * widened<Sum<T>>(at[k]);
        }
        for (int64_t k = 0; k < n; ++k) to[c + k] = static_cast<T>(all[k]);
      });
    }
  }
};

Support supports(const Problem& problem, const Device&) {
  if (Support needs = needs_op<ops::GridSample>(problem); !needs.yes()) return needs;
  const int64_t axes = int64_t(problem.inputs[0].dims().size()) - 2;
  int64_t taps = 1;
  for (int64_t i = 0; i < axes; ++i) taps *= 1 << int(problem.op.get<ops::GridSample>().kind);
  return taps > kMostTaps ? refused("each element is a sum of ", taps, " others; at most ", kMostTaps) : supported();
}

std::vector<Config> configs(const Problem& problem, const Device&) {
  std::vector<Config> out;
  for (Layout layout : {Layout::plain, Layout::channels_last})
    if (layout_fits(problem.outputs[0].dims(), layout)) out.push_back({"", {layout, Layout::plain}, {layout}});
  return out;
}

std::unique_ptr<Kernel> load(const Problem& problem, const Config& config, const PackedView&, const Device&) {
  return std::make_unique<GridSampleKernel>(problem, config.outputs.at(0));
}

}  // namespace

extern const Tactic cpu_grid_sample;
const Tactic cpu_grid_sample{"cpu.grid_sample", 1, supports, configs, nullptr, load};

}  // namespace temper
