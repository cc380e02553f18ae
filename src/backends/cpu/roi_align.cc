// SPDX-License-Identifier: Apache-2.0
// roi_align on CPUs: bins on several threads, channels side by side where they lie last. Regions are checked first, on
// the calling thread, since one that cannot be is an error of the run.
#include "graph/ops/roi_align.h"

#include <algorithm>
#include <cmath>

#include "backends/cpu/cpu.h"
#include "backends/cpu/half.h"
#include "backends/cpu/isa.h"
#include "base/threads.h"
#include "graph/ops/gather.h"

namespace temper {

namespace {

constexpr int64_t kParallel = 4096;  // elements of the output worth a thread
constexpr int64_t kChannels = 64;    // that are summed at a time

// The samples of a bin that may lie in the picture: a region may be much larger than it is. A margin is for rounding.
std::pair<int64_t, int64_t> samples_inside(const ops::RoiAxis& axis, int64_t bin, int64_t size) {
  if (!(axis.bin > 0)) return {0, axis.samples};
  const double start = axis.start + double(bin) * axis.bin, per_element = double(axis.samples) / axis.bin;
  const double low = std::floor((-1 - start) * per_element) - 2,
               high = std::ceil((double(size) - start) * per_element) + 2;
  return {int64_t(std::clamp(low, 0.0, double(axis.samples))), int64_t(std::clamp(high, 0.0, double(axis.samples)))};
}

class RoiAlignKernel final : public Kernel {
 public:
  RoiAlignKernel(const Problem& problem, Layout layout)
      : op_(problem.op.get<ops::RoiAlign>()),
        dtype_(problem.inputs[0].type.dtype),
        wide_(problem.inputs[2].type.dtype == DType::i64),
        dims_(problem.inputs[0].dims()),
        last_(layout == Layout::channels_last),
        threads_(problem.threads),
        regions_(size_t(problem.outputs[0].dims()[0])) {}

  void launch(const Buffers& buffers) override {
    if (regions_.empty() || dims_[1] == 0) return;
    visit_dtype(dtype_, [&]<class T>() {
      if constexpr (std::is_same_v<Wide<T>, double>) {
        find_regions(static_cast<const T*>(buffers.inputs[1]), buffers.inputs[2]);
        const T* x = static_cast<const T*>(buffers.inputs[0]);
        T* out = static_cast<T*>(buffers.outputs[0]);
        const int64_t bins = op_.height * op_.width;
        parallel_for_threads(threads_, int64_t(regions_.size()) * bins, std::max<int64_t>(1, kParallel / dims_[1]),
                             [&](int, int64_t begin, int64_t end) {
                               for (int64_t i = begin; i < end; ++i) {
                                 if (last_) run<T, true>(x, out, i / bins, i % bins);
                                 else run<T, false>(x, out, i / bins, i % bins);
                               }
                             });
      }
    });
  }

 private:
  struct Region {
    int64_t batch = 0;
    ops::RoiAxis down, across;
  };

  const ops::RoiAlign op_;
  const DType dtype_;
  const bool wide_;  // the indices are
  const Dims dims_;
  const bool last_;  // channels are
  const int threads_;
  std::vector<Region> regions_;

  template <class T>
  void find_regions(const T* corners, const void* batches) {
    for (size_t r = 0; r < regions_.size(); ++r, corners += 4) {
      const int64_t batch = wide_ ? static_cast<const int64_t*>(batches)[r] : static_cast<const int32_t*>(batches)[r];
      regions_[r] = {ops::resolve_index(batch, dims_[0]),
                     roi_axis(op_, double(corners[1]), double(corners[3]), op_.height, int64_t(r)),
                     roi_axis(op_, double(corners[0]), double(corners[2]), op_.width, int64_t(r))};
    }
  }

  // One bin of a region. Sums are of f32 for 16 bits, too.
  template <class T, bool last>
  void run(const T* x, T* out, int64_t r, int64_t bin) const {
    using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const Region& region = regions_[size_t(r)];
    const int64_t channels = dims_[1], rows = dims_[2], columns = dims_[3], bins = op_.height * op_.width,
                  plane = last ? 1 : rows * columns, pixel = last ? channels : 1;
    const int64_t ph = bin / op_.width, pw = bin % op_.width;
    const auto [top, bottom] = samples_inside(region.down, ph, rows);
    const auto [left, right] = samples_inside(region.across, pw, columns);
    const double all = double(region.down.samples) * double(region.across.samples);
    const bool maximum = op_.kind == ops::RoiKind::max;
    // Samples outside are zeros.
    const bool begins_outside =
        all > 0 && !(roi_sample(region.down, ph, 0, rows).inside && roi_sample(region.across, pw, 0, columns).inside);
    T* const to = last ? out + (r * bins + bin) * channels : out + r * channels * bins + bin;
    for (int64_t c = 0; c < channels; c += kChannels) {
      const int64_t n = std::min(kChannels, channels - c);
      const T* const image = x + region.batch * channels * rows * columns + c * plane;
      alignas(64) Sum sums[kChannels] = {};
      Sum* const result = sums;
      double taken = 0;
      for (int64_t iy = top; iy < bottom; ++iy) {
        const ops::RoiSample h = roi_sample(region.down, ph, iy, rows);
        if (!h.inside) continue;
        for (int64_t ix = left; ix < right; ++ix) {
          const ops::RoiSample w = roi_sample(region.across, pw, ix, columns);
          if (!w.inside) continue;
          const T *a = image + (h.low * columns + w.low) * pixel, *b = image + (h.low * columns + w.high) * pixel,
                  *d = image + (h.high * columns + w.low) * pixel, *e = image + (h.high * columns + w.high) * pixel;
          const Sum wa = Sum((1 - h.weight) * (1 - w.weight)), wb = Sum((1 - h.weight) * w.weight),
                    wd = Sum(h.weight * (1 - w.weight)), we = Sum(h.weight * w.weight);
          const bool first = taken == 0 && !begins_outside;
          taken += 1;
          vectorised([=] {
            TEMPER_NO_ALIAS
            for (int64_t k = 0; k < n; ++k) {
              const Sum pa = wa * widened<Sum>(a[k * plane]), pb = wb * widened<Sum>(b[k * plane]),
                        pd = wd * widened<Sum>(d[k * plane]), pe = we * widened<Sum>(e[k * plane]);
              if (maximum) {
                const Sum ab = pa < pb ? pb : pa, de = pd < pe ? pe : pd, peak = ab < de ? de : ab;
                result[k] = first || result[k] < peak ? peak : result[k];
              } else {
                result[k] += pa + pb + pd + pe;
              }
            }
          });
        }
      }
      const int64_t step = last ? 1 : bins;
      for (int64_t k = 0; k < n; ++k) {
        const Sum value = maximum ? (taken < all && sums[k] < 0 ? Sum(0) : sums[k]) : sums[k] / Sum(std::max(all, 1.0));
        to[(c + k) * step] = static_cast<T>(value);
      }
    }
  }
};

Support supports(const Problem& problem, const Device&) {
  if (Support needs = needs_op<ops::RoiAlign>(problem); !needs.yes()) return needs;
  const Dims in = problem.inputs[0].dims();
  return in[2] == 0 || in[3] == 0 ? refused("regions of an empty picture") : supported();
}

std::vector<Config> configs(const Problem&, const Device&) {
  std::vector<Config> out;
  for (Layout layout : {Layout::plain, Layout::channels_last})
    out.push_back({"", {layout, Layout::plain, Layout::plain}, {layout}});
  return out;
}

std::unique_ptr<Kernel> load(const Problem& problem, const Config& config, const PackedView&, const Device&) {
  return std::make_unique<RoiAlignKernel>(problem, config.outputs.at(0));
}

}  // namespace

extern const Tactic cpu_roi_align;
const Tactic cpu_roi_align{"cpu.roi_align", 1, supports, configs, nullptr, load};

}  // namespace temper
