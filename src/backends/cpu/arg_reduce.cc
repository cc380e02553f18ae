// SPDX-License-Identifier: Apache-2.0
// arg_reduce on CPUs: the position of the largest or smallest element along an axis.
#include "graph/ops/arg_reduce.h"

#include <limits>

#include "backends/cpu/arg_reduce.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/lanes.h"
#include "backends/cpu/rows.h"
#include "base/threads.h"

namespace temper {

static constexpr int64_t kBlock = 64;  // elements of a row that one look is for

// First the value, vectorised, then where it stands. NaN wins: by two choices, as one by || would be a branch for each
// element.
int64_t arg_of_row(const float* x, int64_t n, bool largest, bool last) {
  float best = 0;
  float* into = &best;
  vectorised([=] {
    if (largest) {
      const auto fold = [](float a, float v) { return v == v ? (v > a ? v : a) : v; };
      *into = reduce_row(x, n, -std::numeric_limits<float>::infinity(), fold, fold);
    } else {
      const auto fold = [](float a, float v) { return v == v ? (v < a ? v : a) : v; };
      *into = reduce_row(x, n, std::numeric_limits<float>::infinity(), fold, fold);
    }
  });
  const bool nan = best != best;
  auto wins = [&](int64_t i) { return nan ? x[i] != x[i] : x[i] == best; };
  int64_t i = last ? n - 1 : 0;
  if (!last && !nan) {  // whole blocks without it are passed by in vectors
    int64_t* const found = &i;
    vectorised([=] {
      int64_t begin = 0;
      for (int any = 0; begin + kBlock <= n; begin += kBlock) {
        for (int64_t k = 0; k < kBlock; ++k) any |= int(x[begin + k] == best);
        if (any) break;
      }
      *found = begin;
    });
  }
  while (!wins(i)) i += last ? -1 : 1;
  return i;
}

namespace {

constexpr int64_t kColumns = 256;
constexpr int64_t kParallel = 16384;  // elements worth a thread

template <class T>
int64_t arg_of_any(const T* x, int64_t n, int64_t stride, bool largest, bool last) {
  using W = Wide<T>;
  W best = static_cast<W>(x[0]);
  int64_t at = 0;
  for (int64_t i = 1; i < n; ++i) {
    const W v = static_cast<W>(x[i * stride]);
    const bool best_nan = best != best, v_nan = v != v;
    const bool better = !best_nan && (v_nan || (largest ? v > best : v < best));
    if (better || (last && (v == best || (v_nan && best_nan)))) best = v, at = i;
  }
  return at;
}

// Adjacent columns at once; the same decisions as arg_of_any.
void arg_of_columns(const float* x, int64_t* out, int64_t n, int64_t stride, int64_t width, bool largest, bool last) {
  alignas(64) float best_value[kColumns];
  alignas(64) int32_t best_at[kColumns];
  float* best = best_value;
  int32_t* at = best_at;
  vectorised([=] {
    for (int64_t k = 0; k < width; ++k) best[k] = x[k], at[k] = 0;
    const float sign = largest ? 1.f : -1.f;
    for (int64_t i = 1; i < n; ++i) {
      const float* row = x + i * stride;
      TEMPER_NO_ALIAS
      for (int64_t k = 0; k < width; ++k) {
        const float v = row[k], b = best[k];
        const int v_nan = v != v, b_nan = b != b;
        const int better = ((b_nan ^ 1) & (v_nan | (v * sign > b * sign))) | (int(last) & ((v == b) | (v_nan & b_nan)));
        best[k] = better ? v : b;
        at[k] = better ? int32_t(i) : at[k];
      }
    }
    for (int64_t k = 0; k < width; ++k) out[k] = at[k];
  });
}

class ArgReduceKernel final : public Kernel {
 public:
  ArgReduceKernel(DType dtype, RowView view, const ops::ArgReduce& op, int threads)
      : dtype_(dtype), view_(view), largest_(op.kind == ops::ArgKind::max), last_(op.last), threads_(threads) {}

  void launch(const Buffers& buffers) override {
    int64_t* out = static_cast<int64_t*>(buffers.outputs[0]);
    visit_dtype(dtype_, [&]<class T>() {
      const T* x = static_cast<const T*>(buffers.inputs[0]);
      if constexpr (std::is_same_v<T, float>)
        if (view_.inner > 1 && view_.n <= std::numeric_limits<int32_t>::max()) return run_columns(x, out);
      parallel_for_threads(threads_, view_.outer * view_.inner, std::max<int64_t>(1, kParallel / view_.n),
                           [&](int, int64_t begin, int64_t end) {
                             for (int64_t i = begin; i < end; ++i) {
                               const T* from = x + i / view_.inner * view_.n * view_.inner + i % view_.inner;
                               if constexpr (std::is_same_v<T, float>)
                                 if (view_.inner == 1) {
                                   out[i] = arg_of_row(from, view_.n, largest_, last_);
                                   continue;
                                 }
                               out[i] = arg_of_any(from, view_.n, view_.inner, largest_, last_);
                             }
                           });
    });
  }

 private:
  void run_columns(const float* x, int64_t* out) const {
    const int64_t per_row = (view_.inner + kColumns - 1) / kColumns;
    parallel_for_threads(threads_, view_.outer * per_row, std::max<int64_t>(1, kParallel / (view_.n * kColumns)),
                         [&](int, int64_t begin, int64_t end) {
                           for (int64_t i = begin; i < end; ++i) {
                             const int64_t row = i / per_row, first = i % per_row * kColumns;
                             arg_of_columns(x + row * view_.n * view_.inner + first, out + row * view_.inner + first,
                                            view_.n, view_.inner, std::min(kColumns, view_.inner - first), largest_,
                                            last_);
                           }
                         });
  }

  DType dtype_;
  RowView view_;
  bool largest_, last_;
  int threads_;
};

Support supports(const Problem& problem, const Device&) { return needs_op<ops::ArgReduce>(problem); }

std::vector<Config> configs(const Problem& problem, const Device&) { return {uniform_config(problem, Layout::plain)}; }

std::unique_ptr<Kernel> load(const Problem& problem, const Config&, const PackedView&, const Device&) {
  const auto& op = problem.op.get<ops::ArgReduce>();
  return std::make_unique<ArgReduceKernel>(
      problem.inputs[0].type.dtype, *row_view(problem.inputs[0].dims(), Layout::plain, {op.axis}), op, problem.threads);
}

}  // namespace

extern const Tactic cpu_arg_reduce;
const Tactic cpu_arg_reduce{"cpu.arg_reduce", 1, supports, configs, nullptr, load};

}  // namespace temper
