// SPDX-License-Identifier: Apache-2.0
// Pooling that a library does not have: dilations, indices, lp, windows beyond the padding, every dtype. All channels
// that lie side by side in the layout are taken at once.
#include <cmath>
#include <limits>

#include "backends/axes.h"
#include "backends/cpu/box_copy.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "base/threads.h"

namespace temper {

namespace {

using ops::PoolKind;

constexpr size_t kMaxAxes = 3;        // spatial axes
constexpr int64_t kColumns = 64;     // channels at once
constexpr int64_t kParallel = 8192;  // window elements worth a thread

// Max keeps T, sums are taken in the reference's wide type, but for f32.
template <class T>
using Sum = std::conditional_t<std::is_same_v<T, float>, float, Wide<T>>;

template <class T, class Loop>
void run_loop(Loop loop) {
  if constexpr (std::is_same_v<T, float>) vectorised(loop);
  else loop();
}

class OwnPoolKernel final : public Kernel {
 public:
  OwnPoolKernel(const Problem& problem, Layout layout)
      : op_(std::get<ops::Pool>(problem.op)), dtype_(problem.inputs[0].type.dtype), threads_(problem.threads),
        padding_(problem.outputs[0].dims(), layout, size_of(dtype_)) {
    const Dims x = physical_dims(problem.inputs[0].dims(), layout), y = physical_dims(problem.outputs[0].dims(), layout);
    const size_t spatial = problem.inputs[0].dims().size() - 2, first = layout == Layout::channels_last ? 1 : 2;
    inner_ = layout == Layout::plain ? 1 : x.back();
    for (size_t i = 0; i < first; ++i) planes_ *= x[i];
    const ops::Window window = op_.window();
    int64_t stride = inner_, column = 1;
    for (size_t i = spatial; i-- > 0;) {
      const auto [begin, end] = ops::window_pads(window, int64_t(i), x[first + i]);
      axes_.insert(axes_.begin(), {x[first + i], y[first + i], op_.kernel[i], op_.strides[i], op_.dilations[i], begin, end, stride, 1});
      stride *= x[first + i];
    }
    for (Axis& axis : axes_) {  // column-major positions count the first spatial axis fastest
      axis.column = column;
      column *= axis.in;
    }
    for (const Axis& axis : axes_) {
      in_plane_ *= axis.in;
      out_plane_ *= axis.out;
      window_ *= axis.kernel;
    }
  }

  void launch(const Buffers& buffers) override {
    visit_dtype(dtype_, [&]<class T>() {
      const T* x = static_cast<const T*>(buffers.inputs[0]);
      T* y = static_cast<T*>(buffers.outputs[0]);
      int64_t* where = op_.with_indices ? static_cast<int64_t*>(buffers.outputs[1]) : nullptr;
      parallel_for_threads(threads_, planes_ * out_plane_, std::max<int64_t>(1, kParallel / (window_ * inner_)), [&](int, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t plane = i / out_plane_;
          const T* from = x + plane * in_plane_ * inner_;
          for (int64_t k = 0; k < inner_; k += kColumns) {
            const int64_t width = std::min(kColumns, inner_ - k);
            if (where) with_indices(from, y + i, where + i, plane, i % out_plane_);
            else if (op_.kind == PoolKind::max) largest(from + k, y + i * inner_ + k, i % out_plane_, width);
            else if constexpr (std::is_same_v<Wide<T>, double>) sum(from + k, y + i * inner_ + k, i % out_plane_, width);
          }
        }
      });
    });
    padding_.run(buffers.outputs[0]);
  }

 private:
  struct Axis {
    int64_t in, out, kernel, stride, dilation, begin, end, offset, column;
  };

  // Calls body(offset, column) for every element of the window that lies inside, in row-major order; returns how many
  // lie inside or in the padding.
  template <class Body>
  int64_t for_each(int64_t position, Body&& body) const {
    int64_t start[kMaxAxes] = {};
    for (size_t a = axes_.size(); a-- > 0; position /= axes_[a].out) start[a] = position % axes_[a].out * axes_[a].stride - axes_[a].begin;
    return walk(0, start, 0, 0, true, body);
  }
  template <class Body>
  int64_t walk(size_t a, const int64_t* start, int64_t offset, int64_t column, bool inside, Body&& body) const {
    const Axis& axis = axes_[a];
    int64_t counted = 0;
    for (int64_t k = 0; k < axis.kernel; ++k) {
      const int64_t at = start[a] + k * axis.dilation;
      if (at >= axis.in + axis.end) break;
      const bool in = inside && at >= 0 && at < axis.in;
      if (a + 1 < kMaxAxes && a + 1 < axes_.size()) {
        counted += walk(a + 1, start, offset + at * axis.offset, column + at * axis.column, in, body);
      } else {
        ++counted;
        if (in) body(offset + at * axis.offset, column + at * axis.column);
      }
    }
    return counted;
  }

  template <class T>
  void largest(const T* x, T* y, int64_t position, int64_t width) const {
    bool first = true;
    for_each(position, [&](int64_t offset, int64_t) {
      const T* from = x + offset;
      if (first) {
        for (int64_t k = 0; k < width; ++k) y[k] = from[k];
        first = false;
        return;
      }
      run_loop<T>([=] {
        for (int64_t k = 0; k < width; ++k) {
          const T v = from[k], best = y[k];
          y[k] = v > best || v != v ? v : best;
        }
      });
    });
    // A window in the padding alone.
    if (first)
      for (int64_t k = 0; k < width; ++k)
        y[k] = std::is_same_v<Wide<T>, double> ? static_cast<T>(-std::numeric_limits<double>::infinity()) : static_cast<T>(std::numeric_limits<Wide<T>>::lowest());
  }

  template <class T>
  void sum(const T* x, T* y, int64_t position, int64_t width) const {
    Sum<T> sums[kColumns] = {};
    Sum<T>* into = sums;
    int64_t valid = 0;
    const bool lp = op_.kind == PoolKind::lp;
    const int64_t counted = for_each(position, [&](int64_t offset, int64_t) {
      ++valid;
      const T* from = x + offset;
      if (!lp) run_loop<T>([=] { for (int64_t k = 0; k < width; ++k) into[k] += static_cast<Sum<T>>(from[k]); });
      else if (op_.p == 2) run_loop<T>([=] { for (int64_t k = 0; k < width; ++k) into[k] += static_cast<Sum<T>>(from[k]) * static_cast<Sum<T>>(from[k]); });
      else for (int64_t k = 0; k < width; ++k) into[k] += static_cast<Sum<T>>(std::pow(std::fabs(double(from[k])), double(op_.p)));
    });
    for (int64_t k = 0; k < width; ++k) {
      if (!lp) y[k] = static_cast<T>(sums[k] / Sum<T>(op_.count_include_pad ? counted : valid));
      else y[k] = static_cast<T>(std::pow(double(sums[k]), 1.0 / double(op_.p)));
    }
  }

  // Plain layout only: one channel at a time. The first maximum wins, and NaN over every number.
  template <class T>
  void with_indices(const T* x, T* y, int64_t* where, int64_t plane, int64_t position) const {
    T best{};
    int64_t at = -1;
    for_each(position, [&](int64_t offset, int64_t column) {
      const T v = x[offset];
      if (at >= 0 && !(v > best) && !(v != v && best == best)) return;
      best = v;
      at = plane * in_plane_ + (op_.column_major ? column : offset);
    });
    *y = best;
    *where = at;
  }

  ops::Pool op_;
  DType dtype_;
  int threads_;
  ZeroPadding padding_;
  std::vector<Axis> axes_;
  int64_t planes_ = 1, inner_ = 1, in_plane_ = 1, out_plane_ = 1, window_ = 1;
};

Support supports(const Problem& problem, const Device&) {
  if (auto s = needs_op<ops::Pool>(problem); !s.yes()) return s;
  if (problem.inputs[0].dims().size() > 5) return refused("more than three spatial axes");
  if (element_count(problem.outputs[0].dims()) == 0 || element_count(problem.inputs[0].dims()) == 0) return refused("an empty tensor");
  return supported();
}

std::vector<Config> configs(const Problem& problem, const Device& device) {
  if (std::get<ops::Pool>(problem.op).with_indices) return {uniform_config(problem, Layout::plain)};
  std::vector<Config> out;
  for (Layout layout : useful_layouts(problem.inputs[0].dims(), device)) out.push_back(uniform_config(problem, layout));
  return out;
}

std::unique_ptr<Kernel> load(const Problem& problem, const Config& config, const PackedView&, const Device&) {
  return std::make_unique<OwnPoolKernel>(problem, config.inputs.at(0));
}

}  // namespace

extern const Tactic cpu_pool;
const Tactic cpu_pool{"cpu.pool", 1, supports, configs, nullptr, load};

}  // namespace temper
