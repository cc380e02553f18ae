// SPDX-License-Identifier: Apache-2.0
// lrn on CPUs: neighbouring positions of a channel, or channels of a position where they lie last, side by side.
#include "graph/ops/lrn.h"

#include <algorithm>
#include <cmath>

#include "backends/cpu/cpu.h"
#include "backends/cpu/half.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/vmath.h"
#include "base/threads.h"

namespace temper {

namespace {

constexpr int64_t kParallel = 8192;  // elements worth a thread
constexpr int64_t kTile = 256;       // of one channel, or channels of one position

class LrnKernel final : public Kernel {
 public:
  LrnKernel(const Problem& problem, Layout layout)
      : op_(problem.op.get<ops::Lrn>()), dtype_(problem.inputs[0].type.dtype), threads_(problem.threads) {
    const Dims dims = problem.inputs[0].dims();
    const int64_t count = element_count(dims);
    channels_ = dims[1];
    if (count == 0) return;
    // Elements from one channel to the next, and images or, with the channels last, positions.
    inner_ = layout == Layout::channels_last ? 1 : row_major_strides(dims)[1];
    outer_ = count / (channels_ * inner_);
    before_ = std::min((op_.size - 1) / 2, channels_);
    after_ = std::min(op_.size - 1 - (op_.size - 1) / 2, channels_);
  }

  void launch(const Buffers& buffers) override {
    if (outer_ == 0) return;
    // Tiles of positions of a channel; with the channels last, of channels.
    const int64_t tiles = (length() + kTile - 1) / kTile, rows = inner_ == 1 ? outer_ : outer_ * channels_;
    parallel_for_threads(threads_, rows * tiles, std::max<int64_t>(1, kParallel / std::min(length(), kTile)),
                         [&](int, int64_t begin, int64_t end) {
                           visit_dtype(dtype_, [&]<class T>() {
                             if constexpr (std::is_same_v<Wide<T>, double>)
                               for (int64_t i = begin; i < end; ++i)
                                 run(static_cast<const T*>(buffers.inputs[0]), static_cast<T*>(buffers.outputs[0]),
                                     i / tiles, i % tiles * kTile);
                           });
                         });
  }

 private:
  const ops::Lrn op_;
  const DType dtype_;
  const int threads_;
  int64_t channels_ = 0, inner_ = 1, outer_ = 0, before_ = 0, after_ = 0;

  int64_t length() const { return inner_ == 1 ? channels_ : inner_; }

  template <class T>
  void run(const T* x, T* y, int64_t row, int64_t first) const {
    using Sum = std::conditional_t<std::is_same_v<T, float>, float, double>;
    const int64_t n = std::min(kTile, length() - first), at = row * length() + first;
    alignas(64) Sum squares[kTile] = {};
    Sum* const sums = squares;
    const int64_t channel = inner_ == 1 ? first : row % channels_;  // of the first element
    for (int64_t k = -before_; k <= after_; ++k) {
      // Those elements whose neighbour k channels on exists.
      int64_t from = 0, to = n;
      if (inner_ == 1) {
        from = std::max<int64_t>(0, -k - channel);
        to = std::min(n, channels_ - k - channel);
      } else if (channel + k < 0 || channel + k >= channels_) {
        continue;
      }
      const T* const other = x + at + k * inner_;
      vectorised([=] {
        TEMPER_NO_ALIAS
        for (int64_t i = from; i < to; ++i) sums[i] += widened<Sum>(other[i]) * widened<Sum>(other[i]);
      });
    }
    const Sum bias = Sum(op_.bias), scale = Sum(op_.alpha / double(op_.size)), beta = Sum(op_.beta);
    const T* const own = x + at;
    T* const out = y + at;
    if constexpr (std::is_same_v<T, float>) {
      // Of numbers above 0.
      if (op_.bias > 0 && op_.alpha >= 0)
        return vectorised([=] {
          TEMPER_NO_ALIAS
          for (int64_t i = 0; i < n; ++i) out[i] = own[i] * vmath::exp(-beta * vmath::log(bias + scale * sums[i]));
        });
    }
    for (int64_t i = 0; i < n; ++i)
      out[i] = static_cast<T>(static_cast<Sum>(own[i]) / std::pow(bias + scale * sums[i], beta));
  }
};

Support supports(const Problem& problem, const Device&) { return needs_op<ops::Lrn>(problem); }

std::vector<Config> configs(const Problem& problem, const Device&) {
  std::vector<Config> out{uniform_config(problem, Layout::plain)};
  if (layout_fits(problem.outputs[0].dims(), Layout::channels_last))
    out.push_back(uniform_config(problem, Layout::channels_last));
  return out;
}

std::unique_ptr<Kernel> load(const Problem& problem, const Config& config, const PackedView&, const Device&) {
  return std::make_unique<LrnKernel>(problem, config.outputs.at(0));
}

}  // namespace

extern const Tactic cpu_lrn;
const Tactic cpu_lrn{"cpu.lrn", 1, supports, configs, nullptr, load};

}  // namespace temper
