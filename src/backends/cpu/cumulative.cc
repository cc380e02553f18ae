// SPDX-License-Identifier: Apache-2.0
// cumulative on CPUs: rows on several threads; neighbours of rows side by side, so that lines of memory are read whole.
// Totals are those of the reference: f64 for floats, 64 bits that wrap for integers.
#include "graph/ops/cumulative.h"

#include <algorithm>

#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/rows.h"
#include "backends/cpu/vectors.h"
#include "base/checked.h"
#include "base/threads.h"

namespace temper {

namespace {

constexpr int64_t kParallel = 16384;  // elements worth a thread
constexpr int64_t kColumns = 512;     // at once: of fewer, each row is little of a page, and reading ahead ends there
constexpr int kRows = 4;

template <class T>
struct Wrapping {
  using type = T;
};
template <class T>
  requires(std::is_integral_v<T> && std::is_signed_v<T>)
struct Wrapping<T> {
  using type = std::make_unsigned_t<T>;
};

class CumulativeKernel final : public Kernel {
 public:
  CumulativeKernel(const Problem& problem, const ops::Cumulative& op)
      : op_(op),
        dtype_(problem.inputs[0].type.dtype),
        view_(*row_view(problem.inputs[0].dims(), Layout::plain, {op.axis})),
        threads_(problem.threads) {}

  void launch(const Buffers& buffers) override {
    if (view_.outer * view_.n * view_.inner == 0) return;
    // Integers wrap: signed ones have the bits of unsigned ones.
    visit_dtype(dtype_, [&]<class Element>() {
      using T = typename Wrapping<Element>::type;
      const T* x = static_cast<const T*>(buffers.inputs[0]);
      T* y = static_cast<T*>(buffers.outputs[0]);
      const auto all =
          op_.kind == ops::CumulativeKind::sum ? &CumulativeKernel::run<T, false> : &CumulativeKernel::run<T, true>;
      (this->*all)(x, y);
    });
  }

 private:
  template <class T, bool product>
  void run(const T* x, T* y) const {
    if (view_.inner == 1) {
      parallel_for_threads(threads_, view_.outer, std::max<int64_t>(kRows, kParallel / view_.n / kRows * kRows),
                           [&](int, int64_t row, int64_t end) {
                             for (; row + kRows <= end; row += kRows)
                               run_rows<T, product, kRows>(x + row * view_.n, y + row * view_.n);
                             for (; row < end; ++row) run_rows<T, product, 1>(x + row * view_.n, y + row * view_.n);
                           });
      return;
    }
    // A group for each thread where there are columns enough.
    const int64_t columns = std::min(kColumns, round_up((view_.inner + threads_ - 1) / threads_, int64_t(64)));
    const int64_t groups = (view_.inner + columns - 1) / columns;
    parallel_for_threads(
        threads_, view_.outer * groups, std::max<int64_t>(1, kParallel / (view_.n * std::min(view_.inner, columns))),
        [&](int, int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t first = i % groups * columns, at = i / groups * view_.n * view_.inner + first;
            run_columns<T, product>(x + at, y + at, std::min(view_.inner - first, columns));
          }
        });
  }

  template <class T>
  using Total = std::conditional_t<std::is_same_v<Wide<T>, double>, double, uint64_t>;
  // Takes the next element into the total and gives what is written in its place.
  template <class T, bool product>
  static T step(Total<T>& total, T x, bool exclusive) {
    const Total<T> before = total, value = static_cast<Total<T>>(static_cast<Wide<T>>(x));
    total = product ? before * value : before + value;
    return static_cast<T>(exclusive ? before : total);
  }

  // Additions wait for the ones before them, so rows take turns.
  template <class T, bool product, int rows>
  void run_rows(const T* x, T* y) const {
    Total<T> totals[rows];
    std::fill(totals, totals + rows, Total<T>(product ? 1 : 0));
    for (int64_t i = 0; i < view_.n; ++i) {
      const int64_t at = op_.reverse ? view_.n - 1 - i : i;
      for (int r = 0; r < rows; ++r)
        y[r * view_.n + at] = step<T, product>(totals[r], x[r * view_.n + at], op_.exclusive);
    }
  }
  // Vectors by name: without the last optimisations the compiler makes none of a loop.
  static void add_vector(double* totals, const float* x, float* y, bool exclusive) {
    VectorOf<8>::Type values;
    VectorOf<8, double>::Type before;
    load(x, values);
    load(totals, before);
    const auto after = before + __builtin_convertvector(values, decltype(before));
    store(after, totals);
    values = __builtin_convertvector(exclusive ? before : after, decltype(values));
    store(values, y);
  }
  template <class T, bool product>
  void run_columns(const T* x, T* y, int64_t width) const {
    Total<T> all[kColumns];
    std::fill(all, all + width, Total<T>(product ? 1 : 0));
    constexpr bool sums_vectors = std::is_same_v<T, float> && !product;
    const auto loop = [x, y, width, totals = &all[0], n = view_.n, inner = view_.inner, reverse = op_.reverse,
                       exclusive = op_.exclusive] {
      for (int64_t i = 0; i < n; ++i) {
        const int64_t at = (reverse ? n - 1 - i : i) * inner;
        int64_t k = 0;
        if constexpr (sums_vectors)
          for (; k + 8 <= width; k += 8) add_vector(totals + k, x + at + k, y + at + k, exclusive);
        for (; k < width; ++k) y[at + k] = step<T, product>(totals[k], x[at + k], exclusive);
      }
    };
    if constexpr (sums_vectors) vectorised(loop);
    else loop();
  }

  ops::Cumulative op_;
  DType dtype_;
  RowView view_;
  int threads_;
};

Support supports(const Problem& problem, const Device&) {
  if (Support needs = needs_op<ops::Cumulative>(problem); !needs.yes()) return needs;
  if (problem.inputs.size() > 1 && problem.inputs[1].present) return refused("its axis is data");
  return supported();
}
std::vector<Config> configs(const Problem& problem, const Device&) { return {uniform_config(problem, Layout::plain)}; }
std::unique_ptr<Kernel> load(const Problem& problem, const Config&, const PackedView&, const Device&) {
  return std::make_unique<CumulativeKernel>(problem, problem.op.get<ops::Cumulative>());
}

}  // namespace

extern const Tactic cpu_cumulative;
const Tactic cpu_cumulative{"cpu.cumulative", 1, supports, configs, nullptr, load};

}  // namespace temper
