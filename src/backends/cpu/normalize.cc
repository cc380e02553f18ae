// SPDX-License-Identifier: Apache-2.0
// normalize on CPUs: layer, instance and RMS normalisation. The variance is the mean of squared differences from the
// mean, a second pass: the difference of mean square and squared mean loses all digits where the mean is large.
#include "graph/ops/normalize.h"

#include <cmath>

#include "backends/cpu/box_copy.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/lanes.h"
#include "backends/cpu/rows.h"
#include "base/threads.h"

namespace temper {

namespace {

constexpr int64_t kColumns = 64;
constexpr int64_t kParallel = 16384;  // elements worth a thread

void normalize_row(const float* x, float* y, int64_t n, float epsilon, bool center) {
  vectorised([=] {
    auto add = [](float a, float v) { return a + v; };
    const float mean = center ? reduce_row(x, n, 0.f, add, add) / float(n) : 0.f;
    const float squares = reduce_row(x, n, 0.f, [=](float a, float v) { return a + (v - mean) * (v - mean); }, add);
    const float scale = 1.f / __builtin_sqrtf(squares / float(n) + epsilon);
    TEMPER_NO_ALIAS
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * scale;
  });
}

void normalize_columns(const float* x, float* y, int64_t n, int64_t stride, int64_t width, float epsilon, bool center) {
  alignas(64) float mean[kColumns], scale[kColumns];
  float *means = mean, *scales = scale;
  vectorised([=] {
    for (int64_t k = 0; k < width; ++k) means[k] = scales[k] = 0;
    if (center) reduce_columns(x, n, stride, means, width, [](float a, float v) { return a + v; });
    for (int64_t k = 0; k < width; ++k) means[k] /= float(n);
    for (int64_t i = 0; i < n; ++i) {
      const float* row = x + i * stride;
      TEMPER_NO_ALIAS
      for (int64_t k = 0; k < width; ++k) scales[k] += (row[k] - means[k]) * (row[k] - means[k]);
    }
    for (int64_t k = 0; k < width; ++k) scales[k] = 1.f / __builtin_sqrtf(scales[k] / float(n) + epsilon);
    for (int64_t i = 0; i < n; ++i) {
      const float* row = x + i * stride;
      float* to = y + i * stride;
      TEMPER_NO_ALIAS
      for (int64_t k = 0; k < width; ++k) to[k] = (row[k] - means[k]) * scales[k];
    }
  });
}

// Other floats, one element after the other in double.
template <class T>
void normalize_scalar(const T* x, T* y, int64_t n, int64_t stride, double epsilon, bool center) {
  double mean = 0, squares = 0;
  if (center)
    for (int64_t i = 0; i < n; ++i) mean += double(x[i * stride]) / double(n);
  for (int64_t i = 0; i < n; ++i) squares += (double(x[i * stride]) - mean) * (double(x[i * stride]) - mean);
  const double divisor = std::sqrt(squares / double(n) + epsilon);
  for (int64_t i = 0; i < n; ++i) y[i * stride] = static_cast<T>((double(x[i * stride]) - mean) / divisor);
}

class NormalizeKernel final : public Kernel {
 public:
  NormalizeKernel(DType dtype, RowView view, const ops::Normalize& op, ZeroPadding padding, int threads)
      : dtype_(dtype), view_(view), epsilon_(op.epsilon), center_(op.center), padding_(padding), threads_(threads) {}

  void launch(const Buffers& buffers) override {
    if (view_.outer * view_.n * view_.inner == 0) return;
    const int64_t width = std::min(view_.inner, kColumns), per_row = (view_.inner + width - 1) / width;
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
              if (view_.inner == 1) normalize_row(x + at, y + at, view_.n, float(epsilon_), center_);
              else normalize_columns(x + at, y + at, view_.n, view_.inner, columns, float(epsilon_), center_);
            } else {
              for (int64_t k = 0; k < columns; ++k)
                normalize_scalar(x + at + k, y + at + k, view_.n, view_.inner, epsilon_, center_);
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
  double epsilon_;
  bool center_;
  ZeroPadding padding_;
  int threads_;
};

Support supports(const Problem& problem, const Device&) {
  if (auto s = needs_op<ops::Normalize>(problem); !s.yes()) return s;
  if (!row_view(problem.inputs[0].dims(), Layout::plain, problem.op.get<ops::Normalize>().axes))
    return refused("its axes do not lie side by side");
  return supported();
}

std::vector<Config> configs(const Problem& problem, const Device& device) {
  std::vector<Config> out;
  const Dims dims = problem.inputs[0].dims();
  for (Layout layout : useful_layouts(dims, device))
    if (row_view(dims, layout, problem.op.get<ops::Normalize>().axes)) out.push_back(uniform_config(problem, layout));
  return out;
}

std::unique_ptr<Kernel> load(const Problem& problem, const Config& config, const PackedView&, const Device&) {
  const auto& op = problem.op.get<ops::Normalize>();
  const auto view = row_view(problem.inputs[0].dims(), config.inputs.at(0), op.axes);
  if (!view) fail(ErrorKind::unsupported, "normalize over axes ", op.axes, " in the layout ", config.inputs[0]);
  return std::make_unique<NormalizeKernel>(
      problem.inputs[0].type.dtype, *view, op,
      ZeroPadding(problem.inputs[0].dims(), config.inputs[0], size_of(problem.inputs[0].type.dtype)), problem.threads);
}

}  // namespace

extern const Tactic cpu_normalize;
const Tactic cpu_normalize{"cpu.normalize", 1, supports, configs, nullptr, load};

}  // namespace temper
