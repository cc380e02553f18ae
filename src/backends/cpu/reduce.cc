// SPDX-License-Identifier: Apache-2.0
// reduce on CPUs, in any layout. In memory order the axes alternate between kept and reduced ones. Where the innermost
// is reduced, rows are folded; where it is kept, whole rows are added up element by element.
#include "graph/ops/reduce.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "backends/axes.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/lanes.h"
#include "backends/cpu/vmath.h"
#include "base/cast_value.h"
#include "base/checked.h"
#include "base/threads.h"

namespace temper {

namespace {

using ops::ReduceKind;

constexpr int64_t kColumns = 512;     // accumulators side by side
constexpr int64_t kParallel = 32768;  // elements worth a thread

// The type that values of T are accumulated in.
template <class T>
using Accumulator = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float,
                                       std::conditional_t<std::is_floating_point_v<T>, T, Wide<T>>>;

struct Sum {
  template <class A>
  static A start() {
    return A(0);
  }
  template <class A>
  static A fold(A a, A v) {
    return A(a + v);
  }
  template <class A>
  static A join(A a, A b) {
    return A(a + b);
  }
};
struct Product {
  template <class A>
  static A start() {
    return A(1);
  }
  template <class A>
  static A fold(A a, A v) {
    return A(a * v);
  }
  template <class A>
  static A join(A a, A b) {
    return A(a * b);
  }
};
struct Absolute : Sum {
  template <class A>
  static A fold(A a, A v) {
    return A(a + (v < 0 ? -v : v));
  }
};
struct Square : Sum {
  template <class A>
  static A fold(A a, A v) {
    return A(a + v * v);
  }
};
// NaN wins, as in numpy: two choices that compilers make vectors of, where one by || is a branch for each element.
struct Largest {
  template <class A>
  static A start() {
    return std::is_floating_point_v<A> ? -std::numeric_limits<A>::infinity() : std::numeric_limits<A>::lowest();
  }
  template <class A>
  static A fold(A a, A v) {
    const A larger = v > a ? v : a;
    return v == v ? larger : v;
  }
  template <class A>
  static A join(A a, A b) {
    return fold(a, b);
  }
};
struct Smallest {
  template <class A>
  static A start() {
    return std::is_floating_point_v<A> ? std::numeric_limits<A>::infinity() : std::numeric_limits<A>::max();
  }
  template <class A>
  static A fold(A a, A v) {
    const A smaller = v < a ? v : a;
    return v == v ? smaller : v;
  }
  template <class A>
  static A join(A a, A b) {
    return fold(a, b);
  }
};

template <class A>
A finish(ReduceKind kind, A value, int64_t n) {
  switch (kind) {
    case ReduceKind::mean:
      if constexpr (std::is_floating_point_v<A>) return value / A(n);
      else return n ? value / A(n) : value;
    case ReduceKind::l2: return cast_value<A>(std::sqrt(double(value)));
    case ReduceKind::log_sum: return cast_value<A>(std::log(double(value)));
    default: return value;
  }
}

// Wraps like the reference's 64-bit accumulator when the dtype is narrower.
template <class T, class A>
T narrow(A value) {
  if constexpr (std::is_same_v<T, bool>) return value != 0;
  else return static_cast<T>(value);
}

template <class T>
using RowFold = void (*)(const T* x, int64_t n, Accumulator<T>* into);
template <class T>
using ColumnFold = void (*)(const T* x, int64_t rows, int64_t stride, Accumulator<T>* into, int64_t width);

// The two loops of a kind. Without x they set `into` to the start. Only what networks compute with is unrolled.
template <class T>
constexpr bool kUnrolled = std::is_same_v<T, float> || std::is_same_v<T, BFloat16>;
// Others than sums and maxima are rare, and compiled for AVX2 at most: the program has to stay small.
template <class F, class Loop>
void vectorised_where_common(Loop loop) {
  if constexpr (std::is_same_v<F, Sum> || std::is_same_v<F, Largest> || std::is_same_v<F, Square>) vectorised(loop);
  else vectorised_by_8(loop);
}
template <class T, class F>
struct Folds {
  using A = Accumulator<T>;
  static A fold(A a, T v) { return F::template fold<A>(a, static_cast<A>(v)); }
  static void row(const T* x, int64_t n, A* into) {
    if (!x) {
      *into = F::template start<A>();
    } else if constexpr (kUnrolled<T>) {
      vectorised_where_common<F>([=] {
        auto join = [](A a, A b) { return F::template join<A>(a, b); };
        *into = join(*into, reduce_row(x, n, F::template start<A>(), [](A a, T v) { return fold(a, v); }, join));
      });
    } else {
      int64_t begin = 0;
      if constexpr (std::is_same_v<T, double>) {  // a single sum would wait for each addition
        constexpr int64_t kSide = 32;             // more than GCC would take apart before it makes vectors
        begin = n / kSide * kSide;
        if (begin > 0)
          vectorised_by_8([=] {
            A lanes[kSide];
            for (A& lane : lanes) lane = F::template start<A>();
            for (int64_t i = 0; i < begin; i += kSide)
              for (int64_t j = 0; j < kSide; ++j) lanes[j] = fold(lanes[j], x[i + j]);
            for (A lane : lanes) *into = F::template join<A>(*into, lane);
          });
      }
      A result = *into;
      for (int64_t i = begin; i < n; ++i) result = fold(result, x[i]);
      *into = result;
    }
  }
  static void columns(const T* x, int64_t rows, int64_t stride, A* into, int64_t width) {
    if (!x) {
      for (int64_t k = 0; k < width; ++k) into[k] = F::template start<A>();
    } else if constexpr (kUnrolled<T>) {
      vectorised_where_common<F>(
          [=] { reduce_columns(x, rows, stride, into, width, [](A a, T v) { return fold(a, v); }); });
    } else {
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t k = 0; k < width; ++k) into[k] = fold(into[k], x[r * stride + k]);
    }
  }
};

class ReduceKernel final : public Kernel {
 public:
  ReduceKernel(const Problem& problem, Layout layout)
      : kind_(problem.op.get<ops::Reduce>().kind), dtype_(problem.inputs[0].type.dtype) {
    const auto& op = problem.op.get<ops::Reduce>();
    const Dims dims = problem.inputs[0].dims();
    Dims flags(dims.size(), 0);
    for (int64_t axis : op.axes) flags[size_t(axis)] = 1;
    // Along a channel axis cut into blocks both pieces are reduced or kept; physical_strides maps them, times the
    // block.
    const Dims reduced = physical_strides(flags, layout);
    const Dims sizes = physical_dims(dims, layout), strides = row_major_strides(sizes);
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] == 1) continue;
      const bool r = reduced[i] != 0;
      if (!axes_.empty() && axes_.back().reduced == r) {
        axes_.back().size *= sizes[i];
        axes_.back().stride = strides[i];
      } else axes_.push_back({sizes[i], strides[i], r});
    }
    if (axes_.empty()) axes_.push_back({1, 1, false});
    columns_ = !axes_.back().reduced;
    for (const Axis& axis : axes_) (axis.reduced ? n_ : outputs_) *= axis.size;
    width_ = columns_ ? axes_.back().size : 1;
    threads_ = int(std::min<int64_t>(std::max(1, problem.threads), (n_ * outputs_) / kParallel + 1));
    if (block_of(layout) > 1 && dims[1] % block_of(layout) != 0) {
      tail_ = dims[1] % block_of(layout);
      block_ = block_of(layout);
      images_ = dims[0];
    }
  }

  void launch(const Buffers& buffers) override {
    visit_dtype(dtype_, [&]<class T>() {
      run<T>(static_cast<const T*>(buffers.inputs[0]), static_cast<T*>(buffers.outputs[0]));
    });
    // Kept spatial axes between the blocks would need a loop here; supports() refuses them.
    const int64_t padded = images_ ? outputs_ / images_ : 0;
    for (int64_t image = 0; image < images_; ++image) {
      const int64_t end = (image + 1) * padded, size = size_of(dtype_);
      std::memset(static_cast<std::byte*>(buffers.outputs[0]) + (end - block_ + tail_) * size, 0,
                  size_t((block_ - tail_) * size));
    }
  }

 private:
  struct Axis {
    int64_t size, stride;
    bool reduced;
  };

  template <class T>
  void run(const T* x, T* out) const {
    switch (kind_) {
      case ReduceKind::sum:
      case ReduceKind::mean:
      case ReduceKind::log_sum: return run_fold<T>(x, out, &Folds<T, Sum>::row, &Folds<T, Sum>::columns);
      case ReduceKind::max: return run_fold<T>(x, out, &Folds<T, Largest>::row, &Folds<T, Largest>::columns);
      case ReduceKind::min: return run_fold<T>(x, out, &Folds<T, Smallest>::row, &Folds<T, Smallest>::columns);
      case ReduceKind::prod: return run_fold<T>(x, out, &Folds<T, Product>::row, &Folds<T, Product>::columns);
      case ReduceKind::l1: return run_fold<T>(x, out, &Folds<T, Absolute>::row, &Folds<T, Absolute>::columns);
      case ReduceKind::l2:
      case ReduceKind::sum_square: return run_fold<T>(x, out, &Folds<T, Square>::row, &Folds<T, Square>::columns);
      case ReduceKind::log_sum_exp: return run_log_sum_exp(x, out);
    }
  }

  // Refers to a function object: loops over axes call it by address, so that they are compiled once, not for each
  // dtype.
  class Body {
   public:
    template <class F>
    Body(const F& body)  // NOLINT(google-explicit-constructor): what takes one is given lambdas
        : object_(&body), call_([](const void* object, int64_t at) { (*static_cast<const F*>(object))(at); }) {}
    void operator()(int64_t at) const { call_(object_, at); }

   private:
    const void* object_;
    void (*call_)(const void*, int64_t);
  };

  // Calls body(offset) for every start of a run of the innermost axis with the outputs' index fixed.
  void for_each_run(int64_t base, size_t axis, const Body& body) const {
    while (axis + 1 < axes_.size() && !axes_[axis].reduced) ++axis;
    if (axis + 1 >= axes_.size()) return body(base);
    for (int64_t i = 0; i < axes_[axis].size; ++i) for_each_run(base + i * axes_[axis].stride, axis + 1, body);
  }
  // The offset of the outputs' index over all kept axes but the innermost.
  int64_t offset_of(int64_t index) const {
    int64_t offset = 0;
    for (size_t axis = axes_.size() - 1; axis-- > 0;)
      if (!axes_[axis].reduced) {
        offset += index % axes_[axis].size * axes_[axis].stride;
        index /= axes_[axis].size;
      }
    return offset;
  }

  // body(offset, first output, columns) for each output or each range of adjacent ones.
  template <class F>
  void for_each_output(F&& body) const {
    if (outputs_ == 0) return;
    // Enough pieces for every thread, whole cache lines each.
    const int64_t pieces =
        columns_ ? std::max<int64_t>((width_ + kColumns - 1) / kColumns, std::min<int64_t>(threads_, width_ / 64)) : 1;
    const int64_t piece = pieces <= 1 ? width_ : round_up((width_ + pieces - 1) / pieces, int64_t(64));
    const int64_t per_row = (width_ + piece - 1) / piece;
    parallel_for_threads(threads_, outputs_ / width_ * per_row, 1, [&](int, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = i / per_row, first = i % per_row * piece;
        body(offset_of(row) + first, row * width_ + first, std::min(piece, width_ - first));
      }
    });
  }

  template <class T>
  void run_fold(const T* x, T* out, RowFold<T> row, ColumnFold<T> columns) const {
    using A = Accumulator<T>;
    const bool nested = axes_.size() > 1;  // the reduced axis just above the columns is a loop of its own
    const int64_t n = axes_.back().size, rows = nested ? axes_[axes_.size() - 2].size : 1,
                  stride = nested ? axes_[axes_.size() - 2].stride : 0;
    for_each_output([&](int64_t offset, int64_t first, int64_t width) {
      alignas(64) A values[kColumns];
      if (columns_) {
        columns(nullptr, 0, 0, values, width);
        for_each_block(offset, 0, [&](int64_t at) { columns(x + at, rows, stride, values, width); });
      } else {
        row(nullptr, 0, values);
        for_each_run(offset, 0, [&](int64_t at) { row(x + at, n, values); });
      }
      for (int64_t k = 0; k < width; ++k) out[first + k] = narrow<T>(finish(kind_, values[k], n_));
    });
  }
  // Does what for_each_run does, without the innermost reduced axis above the columns.
  void for_each_block(int64_t base, size_t axis, const Body& body) const {
    while (axis + 2 < axes_.size() && !axes_[axis].reduced) ++axis;
    if (axis + 2 >= axes_.size()) return body(base);
    for (int64_t i = 0; i < axes_[axis].size; ++i) for_each_block(base + i * axes_[axis].stride, axis + 1, body);
  }

  // log(sum(exp(x))) = peak + log(sum(exp(x - peak))), element by element where the innermost axis is kept.
  template <class T>
  void run_log_sum_exp(const T* x, T* out) const {
    using A = std::conditional_t<std::is_same_v<T, float>, float, double>;
    const int64_t n = columns_ ? 1 : axes_.back().size;
    for_each_output([&](int64_t offset, int64_t first, int64_t width) {
      for (int64_t k = 0; k < width; ++k) {
        A peak = -std::numeric_limits<A>::infinity(), sum = 0;
        for_each_run(offset + k, 0, [&](int64_t at) {
          for (int64_t i = 0; i < n; ++i) peak = A(x[at + i]) > peak ? A(x[at + i]) : peak;
        });
        if (std::isinf(peak)) sum = 1;
        else for_each_run(offset + k, 0, [&](int64_t at) { sum += sum_of_exp(x + at, n, peak); });
        const A result = peak + std::log(sum);
        if constexpr (std::is_integral_v<T>) out[first + k] = narrow<T>(cast_value<Wide<T>>(result));
        else out[first + k] = static_cast<T>(result);
      }
    });
  }
  template <class T>
  static double sum_of_exp(const T* x, int64_t n, double peak) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += std::exp(double(x[i]) - peak);
    return sum;
  }
  static float sum_of_exp(const float* x, int64_t n, float peak) {
    float sum = 0;
    float* into = &sum;
    vectorised([=] {
      *into = reduce_row(
          x, n, 0.f, [=](float a, float v) { return a + vmath::exp(v - peak); },
          [](float a, float b) { return a + b; });
    });
    return sum;
  }

  ReduceKind kind_;
  DType dtype_;
  std::vector<Axis> axes_;
  bool columns_ = false;
  int64_t n_ = 1, outputs_ = 1, width_ = 1;
  int64_t tail_ = 0, block_ = 0, images_ = 0;  // padding channels of the output
  int threads_ = 1;
};

// Why this layout cannot be used for the input; `output` is set to the output's.
Support layout_possible(const Problem& problem, Layout layout, Layout& output) {
  const auto& op = problem.op.get<ops::Reduce>();
  const Dims dims = problem.inputs[0].dims();
  output = op.keepdims ? layout : Layout::plain;
  if (layout == Layout::plain) return supported();
  const bool over_channels = std::binary_search(op.axes.begin(), op.axes.end(), 1);
  int64_t spatial = 0;
  for (int64_t axis : op.axes) spatial += axis >= 2;
  const bool all_spatial = spatial == int64_t(dims.size()) - 2;
  if (over_channels && block_of(layout) > 1) return refused("channels are in blocks");
  if (!op.keepdims && !all_spatial) return refused("the output has another rank");
  if (block_of(layout) > 1 && dims[1] % block_of(layout) != 0 && (!all_spatial || op.axes[0] == 0 || !op.keepdims))
    return refused("padding channels");
  return supported();
}

Support supports(const Problem& problem, const Device&) { return needs_op<ops::Reduce>(problem); }

std::vector<Config> configs(const Problem& problem, const Device& device) {
  std::vector<Config> out;
  for (Layout layout : useful_layouts(problem.inputs[0].dims(), device)) {
    Layout output = layout;
    if (layout_possible(problem, layout, output).yes()) out.push_back({"", {layout}, {output}});
  }
  return out;
}

std::unique_ptr<Kernel> load(const Problem& problem, const Config& config, const PackedView&, const Device&) {
  return std::make_unique<ReduceKernel>(problem, config.inputs.at(0));
}

}  // namespace

extern const Tactic cpu_reduce;
const Tactic cpu_reduce{"cpu.reduce", 2, supports, configs, nullptr, load};

}  // namespace temper
