// SPDX-License-Identifier: Apache-2.0
// softmax and its logarithm on CPUs. Rows: largest element, exponentials and their sum, scale; three passes over memory
// that the first brought into the cache. Along another axis: the same for up to kColumns neighbours at once.
#include "graph/ops/softmax.h"

#include <cmath>
#include <limits>

#include "backends/cpu/box_copy.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/lanes.h"
#include "backends/cpu/rows.h"
#include "backends/cpu/vmath.h"
#include "base/threads.h"

namespace temper {

namespace {

constexpr int64_t kColumns = 64;
constexpr int64_t kParallel = 8192;  // elements worth a thread

void softmax_row(const float* x, float* y, int64_t n, bool log) {
  vectorised([=] {
    const float peak = reduce_row(
        x, n, -std::numeric_limits<float>::infinity(), [](float a, float v) { return v > a ? v : a; },
        [](float a, float b) { return b > a ? b : a; });
    auto add = [](float a, float v) { return a + v; };
    if (log) {
      const float sum =
          reduce_row(x, n, 0.f, [=](float a, float v) { return a + vmath::exp_below_zero(v - peak); }, add);
      const float log_sum = vmath::log(sum);
      for (int64_t i = 0; i < n; ++i) y[i] = x[i] - peak - log_sum;
    } else {
      TEMPER_NO_ALIAS
      for (int64_t i = 0; i < n; ++i) y[i] = vmath::exp_below_zero(x[i] - peak);
      const float scale = 1.f / reduce_row(y, n, 0.f, add, add);
      for (int64_t i = 0; i < n; ++i) y[i] *= scale;
    }
  });
}

// `width` neighbouring columns of n elements, `stride` apart.
void softmax_columns(const float* x, float* y, int64_t n, int64_t stride, int64_t width, bool log) {
  alignas(64) float peak[kColumns], sum[kColumns];
  float *peaks = peak, *sums = sum;
  vectorised([=] {
    for (int64_t k = 0; k < width; ++k) peaks[k] = -std::numeric_limits<float>::infinity(), sums[k] = 0;
    reduce_columns(x, n, stride, peaks, width, [](float a, float v) { return v > a ? v : a; });
    for (int64_t i = 0; i < n; ++i) {
      const float* row = x + i * stride;
      float* to = y + i * stride;
      TEMPER_NO_ALIAS
      for (int64_t k = 0; k < width; ++k) {
        const float e = vmath::exp_below_zero(row[k] - peaks[k]);
        sums[k] += e;
        if (!log) to[k] = e;
      }
    }
    for (int64_t k = 0; k < width; ++k) sums[k] = log ? vmath::log(sums[k]) : 1.f / sums[k];
    for (int64_t i = 0; i < n; ++i) {
      const float* row = x + i * stride;
      float* to = y + i * stride;
      TEMPER_NO_ALIAS
      for (int64_t k = 0; k < width; ++k) to[k] = log ? row[k] - peaks[k] - sums[k] : to[k] * sums[k];
    }
  });
}

// Other floats, one element after the other in double.
template <class T>
void softmax_scalar(const T* x, T* y, int64_t n, int64_t stride, bool log) {
  double peak = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int64_t i = 0; i < n; ++i) peak = std::max(peak, double(x[i * stride]));
  for (int64_t i = 0; i < n; ++i) sum += std::exp(double(x[i * stride]) - peak);
  const double log_sum = std::log(sum);
  for (int64_t i = 0; i < n; ++i) {
    const double shifted = double(x[i * stride]) - peak;
    y[i * stride] = static_cast<T>(log ? shifted - log_sum : std::exp(shifted) / sum);
  }
}

class SoftmaxKernel final : public Kernel {
 public:
  SoftmaxKernel(DType dtype, RowView view, bool log, ZeroPadding padding, int threads)
      : dtype_(dtype), view_(view), log_(log), padding_(padding), threads_(threads) {}

  void launch(const Buffers& buffers) override {
    if (view_.outer * view_.n * view_.inner == 0) return;
    const int64_t width = view_.inner == 1 ? 1 : std::min(view_.inner, kColumns),
                  per_row = (view_.inner + width - 1) / width;
    visit_dtype(dtype_, [&]<class T>() {
      if constexpr (std::is_same_v<Wide<T>, double>) {
        const T* x = static_cast<const T*>(buffers.inputs[0]);
        T* y = static_cast<T*>(buffers.outputs[0]);
        const int64_t grain = std::max<int64_t>(1, kParallel / (view_.n * width));
        parallel_for_threads(threads_, view_.outer * per_row, grain, [&](int, int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t first = i % per_row * width, at = i / per_row * view_.n * view_.inner + first;
            const int64_t columns = std::min(width, view_.inner - first);
            if constexpr (std::is_same_v<T, float>) {
              if (view_.inner == 1) softmax_row(x + at, y + at, view_.n, log_);
              else softmax_columns(x + at, y + at, view_.n, view_.inner, columns, log_);
            } else {
              for (int64_t k = 0; k < columns; ++k) softmax_scalar(x + at + k, y + at + k, view_.n, view_.inner, log_);
            }
          }
        });
      }
    });
    padding_.run(buffers.outputs[0]);
  }

 private:
  DType dtype_;
  RowView view_;
  bool log_;
  ZeroPadding padding_;
  int threads_;
};

Support supports(const Problem& problem, const Device&) { return needs_op<ops::Softmax>(problem); }

std::vector<Config> configs(const Problem& problem, const Device& device) {
  std::vector<Config> out;
  const Dims dims = problem.inputs[0].dims();
  for (Layout layout : useful_layouts(dims, device))
    if (row_view(dims, layout, {problem.op.get<ops::Softmax>().axis})) out.push_back(uniform_config(problem, layout));
  return out;
}

std::unique_ptr<Kernel> load(const Problem& problem, const Config& config, const PackedView&, const Device&) {
  const auto& op = problem.op.get<ops::Softmax>();
  const auto view = row_view(problem.inputs[0].dims(), config.inputs.at(0), {op.axis});
  if (!view) fail(ErrorKind::unsupported, "softmax along axis ", op.axis, " in the layout ", config.inputs[0]);
  return std::make_unique<SoftmaxKernel>(
      problem.inputs[0].type.dtype, *view, op.log,
      ZeroPadding(problem.inputs[0].dims(), config.inputs[0], size_of(problem.inputs[0].type.dtype)), problem.threads);
}

}  // namespace

extern const Tactic cpu_softmax;
const Tactic cpu_softmax{"cpu.softmax", 2, supports, configs, nullptr, load};

}  // namespace temper
