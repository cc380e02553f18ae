// SPDX-License-Identifier: Apache-2.0
// Pooling that a library does not have: maxima that pass NaN on, dilations, indices, lp, windows beyond the padding,
// every dtype. All channels that lie side by side in the layout are taken at once; of plain images, pixels of a row.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/axes.h"
#include "backends/cpu/box_copy.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/half.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/vectors.h"
#include "base/checked.h"
#include "base/threads.h"
#include "graph/ops/pool.h"
#include "graph/ops/window.h"

namespace temper {

namespace {

using ops::PoolKind;

constexpr size_t kMaxAxes = 3;       // spatial axes
constexpr int64_t kColumns = 64;     // channels at once
constexpr int64_t kParallel = 8192;  // window elements worth a thread
constexpr int64_t kStarts = 32;      // rows of the input that go into a row of the output at once

// Max keeps T, sums are taken in the reference's wide type, but for f32.
template <class T>
using Sum = std::conditional_t<std::is_same_v<T, float>, float, Wide<T>>;

template <class T, class Loop>
void run_loop(Loop loop) {
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, BFloat16>) vectorised(loop);
  else loop();
}

// How a maximum is held: 16-bit floats as f32, from which the winner goes back without rounding.
template <class T>
using Held = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;
template <class T>
inline Held<T> held(T value) {
  return widened<Held<T>>(value);
}
template <class T>
inline T released(Held<T> value) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    BFloat16 result;
    result.bits = uint16_t(std::bit_cast<uint32_t>(value) >> 16);
    return result;
  } else if constexpr (std::is_same_v<T, Half>) {
    return float_to_half(value);
  } else {
    return T(value);
  }
}
// NaN wins over every number. The inner choice is what one instruction does, which keeps a NaN in `best`.
template <class H>
inline H larger(H best, H value) {
  const H winner = value > best ? value : best;
  if constexpr (std::is_floating_point_v<H>) return value != value ? value : winner;
  else return winner;
}
// Vectors by name: a loop over so few elements the compiler would unroll to scalars before it vectorises.
typedef VectorOf<16, uint32_t>::Type Words16;
typedef VectorOf<16, uint16_t>::Type Halves16;
typedef VectorOf<8, uint32_t>::Type Words8;
typedef VectorOf<8, uint16_t>::Type Halves8;
inline void convert(const Halves16& from, Words16& to) { to = __builtin_convertvector(from, Words16); }
inline void convert(const Halves8& from, Words8& to) { to = __builtin_convertvector(from, Words8); }
inline void convert(const Words16& from, Halves16& to) { to = __builtin_convertvector(from, Halves16); }
inline void convert(const Words8& from, Halves8& to) { to = __builtin_convertvector(from, Halves8); }

template <int64_t w>
struct Vector {
  using Floats = typename VectorOf<w>::Type;
  using Words = typename VectorOf<w, uint32_t>::Type;
  using Halves = typename VectorOf<w, uint16_t>::Type;
  Floats lanes;

  void load(const float* from) { std::memcpy(&lanes, from, sizeof lanes); }
  void store(float* to) const { std::memcpy(to, &lanes, sizeof lanes); }
  void load(const BFloat16* from) {
    Halves halves;
    std::memcpy(&halves, from, sizeof halves);
    Words words;
    convert(halves, words);
    words <<= 16;
    std::memcpy(&lanes, &words, sizeof lanes);
  }
  void store(BFloat16* to) const {
    Words words;
    std::memcpy(&words, &lanes, sizeof words);
    words >>= 16;
    Halves halves;
    convert(words, halves);
    std::memcpy(static_cast<void*>(to), &halves, sizeof halves);
  }
};
// Of w channels of `count` rows with `taps` pixels each, `step` elements apart, and of `result` unless it is the first.
// NaN wins. It is found by integers: GCC 12 takes a comparison of a vector with itself apart into scalars.
template <int64_t w, class T, class Taps>
inline void largest_of(const T* pixel, const int64_t* starts, int64_t count, int64_t step, Taps taps, bool first,
                       T* result) {
  using Floats = typename Vector<w>::Floats;
  using Bits = typename VectorOf<w, int32_t>::Type;
  constexpr int32_t infinity = 0x7f800000, quiet_nan = 0x7fc00000;
  Vector<w> best, value;
  Bits unordered = {};  // negative where a NaN was
  if (first) best.lanes = Floats{} - std::numeric_limits<float>::infinity();
  else best.load(result);
  for (int64_t s = 0; s < count; ++s) {
    const T* place = pixel + starts[s];
#pragma GCC unroll 3
    for (int64_t t = 0; t < taps; ++t, place += step) {
      value.load(place);
      best.lanes = best.lanes < value.lanes ? value.lanes : best.lanes;
      unordered |= infinity - (reinterpret_cast<Bits>(value.lanes) & 0x7fffffff);
    }
  }
  best.lanes = reinterpret_cast<Floats>(reinterpret_cast<Bits>(best.lanes) | ((unordered >> 31) & quiet_nan));
  best.store(result);
}
template <class T>
constexpr Held<T> kLowest = std::is_floating_point_v<Held<T>> ? -std::numeric_limits<Held<T>>::infinity()
                                                              : std::numeric_limits<Held<T>>::lowest();

class OwnPoolKernel final : public Kernel {
 public:
  OwnPoolKernel(const Problem& problem, Layout layout)
      : op_(problem.op.get<ops::Pool>()),
        dtype_(problem.inputs[0].type.dtype),
        threads_(problem.threads),
        padding_(problem.outputs[0].dims(), layout, size_of(dtype_)) {
    const Dims x = physical_dims(problem.inputs[0].dims(), layout),
               y = physical_dims(problem.outputs[0].dims(), layout);
    const size_t spatial = problem.inputs[0].dims().size() - 2, first = layout == Layout::channels_last ? 1 : 2;
    inner_ = layout == Layout::plain ? 1 : x.back();
    for (size_t i = 0; i < first; ++i) planes_ *= x[i];
    const ops::Window window = op_.window();
    int64_t stride = inner_, column = 1;
    for (size_t i = spatial; i-- > 0;) {
      const auto [begin, end] = ops::window_pads(window, int64_t(i), x[first + i]);
      axes_.insert(axes_.begin(), {x[first + i], y[first + i], op_.kernel[i], op_.strides[i], op_.dilations[i], begin,
                                   end, stride, 1});
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
      if (op_.kind == PoolKind::max && !where) return largest(x, y);
      parallel_for_threads(threads_, planes_ * out_plane_, std::max<int64_t>(1, kParallel / (window_ * inner_)),
                           [&](int, int64_t begin, int64_t end) {
                             for (int64_t i = begin; i < end; ++i) {
                               const int64_t plane = i / out_plane_;
                               const T* from = x + plane * in_plane_ * inner_;
                               for (int64_t k = 0; k < inner_; k += kColumns) {
                                 const int64_t width = std::min(kColumns, inner_ - k);
                                 if (where) with_indices(from, y + i, where + i, plane, i % out_plane_);
                                 else if constexpr (std::is_same_v<Wide<T>, double>)
                                   sum(from + k, y + i * inner_ + k, i % out_plane_, width);
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
    for (size_t a = axes_.size(); a-- > 0; position /= axes_[a].out)
      start[a] = position % axes_[a].out * axes_[a].stride - axes_[a].begin;
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

  // Row by row of the output along the last axis.
  template <class T>
  void largest(const T* x, T* y) const {
    const int64_t out = axes_.back().out, rows = out_plane_ / out;
    parallel_for_threads(threads_, planes_ * rows, std::max<int64_t>(1, kParallel / (window_ * inner_ * out)),
                         [&](int, int64_t begin, int64_t end) {
                           for (int64_t i = begin; i < end; ++i)
                             largest_row(x + i / rows * in_plane_ * inner_, y + i * out * inner_, i % rows);
                         });
  }
  // The window's elements of the other axes that lie inside are so many starts of rows of the input; a few at a time.
  template <class T>
  void largest_row(const T* x, T* y, int64_t row) const {
    int64_t start[kMaxAxes] = {};
    const size_t outer = axes_.size() - 1;
    for (size_t a = outer; a-- > 0; row /= axes_[a].out)
      start[a] = row % axes_[a].out * axes_[a].stride - axes_[a].begin;
    int64_t starts[kStarts];
    int64_t count = 0;
    bool first = true;
    int64_t tap[kMaxAxes] = {};
    for (bool more = true; more;) {
      int64_t offset = 0;
      bool inside = true;
      for (size_t a = 0; a < outer; ++a) {
        const int64_t at = start[a] + tap[a] * axes_[a].dilation;
        inside = inside && at >= 0 && at < axes_[a].in;
        offset += at * axes_[a].offset;
      }
      if (inside) starts[count++] = offset;
      more = false;
      for (size_t a = outer; a-- > 0 && !more;) more = ++tap[a] < axes_[a].kernel || (tap[a] = 0, false);
      if (count < kStarts && more) continue;
      if (inner_ == 1) fold_pixels(x, y, starts, count, first);
      else fold_channels(x, y, starts, count, first);
      count = 0;
      first = false;
    }
  }
  template <class T>
  void fold_channels(const T* x, T* y, const int64_t* starts, int64_t count, bool first) const {
    const Axis axis = axes_.back();
    const int64_t inner = inner_;
    run_loop<T>([=] {
      const int64_t step = axis.dilation * inner, reach = (axis.kernel - 1) * axis.dilation;
      const auto fold = [&](int64_t begin, int64_t end) {
        for (int64_t o = begin; o < end; ++o) {
          const int64_t at = o * axis.stride - axis.begin;
          int64_t from = 0, to = axis.kernel;
          while (from < to && at + from * axis.dilation < 0) ++from;
          while (to > from && at + (to - 1) * axis.dilation >= axis.in) --to;
          const T* pixel = x + (at + from * axis.dilation) * inner;
          T* result = y + o * inner;
          const auto vector = [&]<int64_t w>(int64_t k) {
            largest_of<w>(pixel + k, starts, count, step, to - from, first, result + k);
          };
          const auto columns = [&]<int64_t w, bool all>(int64_t k, int64_t rest) {
            const int64_t width = all ? w : rest;
            Held<T> best[w];
            for (int64_t c = 0; c < width; ++c) best[c] = first ? kLowest<T> : held(result[k + c]);
            for (int64_t s = 0; s < count; ++s) {
              const T* value = pixel + starts[s] + k;
              for (int64_t t = from; t < to; ++t, value += step)
                for (int64_t c = 0; c < width; ++c) best[c] = larger(best[c], held(value[c]));
            }
            for (int64_t c = 0; c < width; ++c) result[k + c] = released<T>(best[c]);
          };
          int64_t k = 0;
          if constexpr (std::is_same_v<T, float> || std::is_same_v<T, BFloat16>) {
            for (; k + 64 <= inner; k += 64) columns.template operator()<64, true>(k, 64);
            for (; k + 16 <= inner; k += 16) vector.template operator()<16>(k);
            for (; k + 8 <= inner; k += 8) vector.template operator()<8>(k);
          } else if constexpr (sizeof(T) == 1) {
            for (; k + 64 <= inner; k += 64) columns.template operator()<64, true>(k, 64);
            for (; k + 8 <= inner; k += 8) columns.template operator()<8, true>(k, 8);
          } else {  // rare: no code for whole vectors
            for (; k + 8 < inner; k += 8) columns.template operator()<8, false>(k, 8);
          }
          if (k < inner) columns.template operator()<8, false>(k, inner - k);
        }
      };
      // Where channels are one vector of floats, as in blocks, bounds and loops of a window take longer than its
      // maxima: those of windows that lie inside, results [begin, end), are known.
      int64_t begin = 0, end = 0;
      if constexpr (std::is_same_v<T, float>)
        if ((inner == 8 || inner == 16) && (axis.kernel == 2 || axis.kernel == 3) && axis.in > reach) {
          begin = std::min(ceil_div(std::max<int64_t>(axis.begin, 0), axis.stride), axis.out);
          end = std::clamp((axis.in - 1 - reach + axis.begin) / axis.stride + 1, begin, axis.out);
          const auto inside = [&](auto taps) {
            for (int64_t o = begin; o < end; ++o) {
              const T* pixel = x + (o * axis.stride - axis.begin) * inner;
              if (inner == 16) largest_of<16>(pixel, starts, count, step, taps, first, y + o * inner);
              else largest_of<8>(pixel, starts, count, step, taps, first, y + o * inner);
            }
          };
          if (axis.kernel == 2) inside(std::integral_constant<int64_t, 2>());
          else inside(std::integral_constant<int64_t, 3>());
        }
      fold(0, begin);
      fold(end, axis.out);
    });
  }
  template <class T>
  void fold_pixels(const T* x, T* y, const int64_t* starts, int64_t count, bool first) const {
    const Axis axis = axes_.back();
    run_loop<T>([=] {
      if (first)
        for (int64_t o = 0; o < axis.out; ++o) y[o] = released<T>(kLowest<T>);
      const auto taps = [&](auto stride) {
        for (int64_t s = 0; s < count; ++s)
          for (int64_t t = 0; t < axis.kernel; ++t) {
            const int64_t shift = t * axis.dilation - axis.begin;
            int64_t from = 0, to = axis.out;
            while (from < to && from * stride + shift < 0) ++from;
            while (to > from && (to - 1) * stride + shift >= axis.in) --to;
            const T* value = x + starts[s] + shift;
            TEMPER_NO_ALIAS
            for (int64_t o = from; o < to; ++o) y[o] = released<T>(larger(held(y[o]), held(value[o * stride])));
          }
      };
      if (axis.stride == 1) taps(std::integral_constant<int64_t, 1>());
      else if (axis.stride == 2) taps(std::integral_constant<int64_t, 2>());
      else if (axis.stride == 4) taps(std::integral_constant<int64_t, 4>());
      else taps(axis.stride);
    });
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
      if (!lp)
        run_loop<T>([=] {
          for (int64_t k = 0; k < width; ++k) into[k] += static_cast<Sum<T>>(from[k]);
        });
      else if (op_.p == 2)
        run_loop<T>([=] {
          for (int64_t k = 0; k < width; ++k) into[k] += static_cast<Sum<T>>(from[k]) * static_cast<Sum<T>>(from[k]);
        });
      else
        for (int64_t k = 0; k < width; ++k)
          into[k] += static_cast<Sum<T>>(std::pow(std::fabs(double(from[k])), double(op_.p)));
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
  if (element_count(problem.outputs[0].dims()) == 0 || element_count(problem.inputs[0].dims()) == 0)
    return refused("an empty tensor");
  return supported();
}

std::vector<Config> configs(const Problem& problem, const Device& device) {
  if (problem.op.get<ops::Pool>().with_indices) return {uniform_config(problem, Layout::plain)};
  std::vector<Config> out;
  for (Layout layout : useful_layouts(problem.inputs[0].dims(), device)) out.push_back(uniform_config(problem, layout));
  return out;
}

std::unique_ptr<Kernel> load(const Problem& problem, const Config& config, const PackedView&, const Device&) {
  return std::make_unique<OwnPoolKernel>(problem, config.inputs.at(0));
}

}  // namespace

extern const Tactic cpu_pool;
const Tactic cpu_pool{"cpu.pool", 3, supports, configs, nullptr, load};

}  // namespace temper
