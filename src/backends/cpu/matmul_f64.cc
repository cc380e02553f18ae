// SPDX-License-Identifier: Apache-2.0
// Matrix products of f64, which oneDNN has not: threads share out panels of 16 columns of the right matrix, each of
// which is packed and multiplied by all rows, some of them at a time in registers. The epilogue runs behind it.
#include <cstring>
#include <numeric>

#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/onednn.h"
#include "backends/cpu/vectors.h"
#include "base/threads.h"
#include "graph/ops/matmul.h"

namespace temper {

namespace {

constexpr int64_t kColumns = 16;        // of a panel
constexpr int64_t kParallel = 1 << 15;  // products worth a thread

// Rows of a product: element k of a row of the left matrix is at a[row * a_row + k * a_step].
struct Rows {
  const double* a;
  int64_t a_row, a_step, depth;
  const double* panel;  // [depth][kColumns]
  double* y;
  int64_t y_row, columns;
};

// m rows by two vectors of w columns, from column `first` on.
template <int w, int m>
inline void multiply(const Rows& rows, int64_t row, int64_t first) {
  using Vector = typename VectorOf<w, double>::Type;
  Vector sums[2 * m] = {};
  const double *a = rows.a + row * rows.a_row, *b = rows.panel + first;
  for (int64_t k = 0; k < rows.depth; ++k, a += rows.a_step, b += kColumns) {
    Vector left, right;
    load(b, left), load(b + w, right);
#pragma GCC unroll 8
    for (int r = 0; r < m; ++r) {
      sums[2 * r] += a[r * rows.a_row] * left;
      sums[2 * r + 1] += a[r * rows.a_row] * right;
    }
  }
  const int64_t columns = std::min<int64_t>(2 * w, rows.columns - first);
#pragma GCC unroll 8
  for (int r = 0; r < m; ++r) {
    double* const y = rows.y + (row + r) * rows.y_row + first;
    if (columns == 2 * w) store(sums[2 * r], y), store(sums[2 * r + 1], y + w);
    else std::memcpy(y, &sums[2 * r], size_t(columns) * sizeof(double));
  }
}

// All rows: most at a time, then one by one.
template <int w, int most>
inline void multiply_all(const Rows& rows, int64_t count) {
  for (int64_t first = 0; first < rows.columns; first += 2 * w) {
    int64_t row = 0;
    for (; row + most <= count; row += most) multiply<w, most>(rows, row, first);
    for (; row < count; ++row) multiply<w, 1>(rows, row, first);
  }
}

class MatMulF64Kernel final : public Kernel {
 public:
  explicit MatMulF64Kernel(const Problem& problem) : threads_(std::max(1, problem.threads)) {
    const auto& op = problem.op.get<ops::MatMul>();
    const Dims a = problem.inputs[0].dims(), b = problem.inputs[1].dims(), y = problem.outputs[0].dims();
    m_ = y[y.size() - 2], n_ = y.back(), k_ = op.transpose_a ? a[a.size() - 2] : a.back();
    a_row_ = op.transpose_a ? 1 : k_, a_step_ = op.transpose_a ? m_ : 1;
    b_row_ = op.transpose_b ? 1 : n_, b_step_ = op.transpose_b ? k_ : 1;
    const Dims lead(y.begin(), y.end() - 2);
    const auto strides_of = [&](const Dims& dims) {
      return broadcast_strides(Dims(dims.begin(), dims.end() - 2), lead);
    };
    const Dims of_a = strides_of(a), of_b = strides_of(b);
    for_each_index(lead, [&](const Dims& at, int64_t) {
      const auto matrix = [&](const Dims& strides) {
        return std::inner_product(at.begin(), at.end(), strides.begin(), int64_t(0));
      };
      batches_.push_back({matrix(of_a) * m_ * k_, matrix(of_b) * k_ * n_});
    });
    tail_ = EpilogueTail(problem, DType::f64, op.epilogue, Layout::plain);
  }
  int64_t workspace() const override { return tail_.workspace(threads_ * k_ * kColumns * int64_t(sizeof(double))); }
  void launch(const Buffers& buffers) override {
    const auto *a = static_cast<const double*>(buffers.inputs[0]), *b = static_cast<const double*>(buffers.inputs[1]);
    auto* const y = static_cast<double*>(tail_.destination(buffers));
    auto* const scratch = static_cast<double*>(tail_.scratch(buffers));
    const int64_t panels = ceil_div(n_, kColumns), each = m_ * k_ * kColumns;
    parallel_for_threads(threads_, int64_t(batches_.size()) * panels, ceil_div(kParallel, each),
                         [&](int member, int64_t begin, int64_t end) {
                           double* const panel = scratch + member * k_ * kColumns;
                           for (int64_t i = begin; i < end; ++i) {
                             const int64_t batch = i / panels, first = i % panels * kColumns;
                             const auto [of_a, of_b] = batches_[size_t(batch)];
                             const int64_t columns = std::min(kColumns, n_ - first);
                             pack(b + of_b + first * b_step_, columns, panel);
                             const Rows rows{a + of_a, a_row_, a_step_, k_, panel, y + batch * m_ * n_ + first,
                                             n_,       columns};
                             const int64_t count = m_;
                             vectorised_by_16_or_8([=] { multiply_all<8, 8>(rows, count); },
                                                   [=] { multiply_all<kNarrow / 2, 4>(rows, count); });
                           }
                         });
    tail_.run(buffers);
  }

 private:
  struct Batch {
    int64_t a, b;
  };
  int threads_;
  int64_t m_ = 0, n_ = 0, k_ = 0, a_row_ = 0, a_step_ = 0, b_row_ = 0, b_step_ = 0;
  std::vector<Batch> batches_;  // where their matrices begin
  EpilogueTail tail_;

  void pack(const double* b, int64_t columns, double* panel) const {
    if (columns < kColumns) std::fill_n(panel, k_ * kColumns, 0.);
    if (b_step_ == 1)
      for (int64_t k = 0; k < k_; ++k) std::copy_n(b + k * b_row_, columns, panel + k * kColumns);
    else
      for (int64_t c = 0; c < columns; ++c)
        for (int64_t k = 0; k < k_; ++k) panel[k * kColumns + c] = b[k * b_row_ + c * b_step_];
  }
};

Support supports(const Problem& problem, const Device&) {
  if (auto s = needs_op<ops::MatMul>(problem); !s.yes()) return s;
  if (problem.inputs[0].type.dtype != DType::f64) return refused("not of f64");
  if (element_count(problem.outputs[0].dims()) == 0 || element_count(problem.inputs[0].dims()) == 0)
    return refused("an empty tensor");
  const Program& epilogue = problem.op.get<ops::MatMul>().epilogue;
  if (auto s = EpilogueTail::supports(problem, DType::f64, epilogue, Layout::plain); !s.yes())
    return refused("its epilogue: ", s.reason);
  return supported();
}

std::vector<Config> configs(const Problem& problem, const Device&) { return {uniform_config(problem, Layout::plain)}; }

std::unique_ptr<Kernel> load(const Problem& problem, const Config&, const PackedView&, const Device&) {
  return std::make_unique<MatMulF64Kernel>(problem);
}

}  // namespace

extern const Tactic cpu_matmul_f64;
const Tactic cpu_matmul_f64{"cpu.matmul.f64", 1, supports, configs, nullptr, load};

}  // namespace temper
