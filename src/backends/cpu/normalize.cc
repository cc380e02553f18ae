// SPDX-License-Identifier: Apache-2.0
// normalize on CPUs: layer, instance, group and RMS normalisation. The variance is the mean of squared differences from
// the mean, a second pass: the difference of mean square and squared mean loses all digits where the mean is large.
#include "graph/ops/normalize.h"

#include <cmath>
#include <optional>

#include "backends/cpu/box_copy.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/lanes.h"
#include "backends/cpu/normalize_row.h"
#include "backends/cpu/rows.h"
#include "base/threads.h"

namespace temper {

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

namespace {

constexpr int64_t kColumns = 64, kGroupColumns = 512;
constexpr int64_t kParallel = 16384;  // elements worth a thread

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

// Neighbours of each column: `group` of them are normalised together; `width` is a multiple of that.
void normalize_groups(const float* x, float* y, int64_t n, int64_t stride, int64_t width, int64_t group, float epsilon,
                      bool center) {
  alignas(64) float mean[kGroupColumns], scale[kGroupColumns];
  float *means = mean, *scales = scale;
  vectorised([=] {
    auto join_groups = [=](float* sums) {
      for (int64_t first = 0; first < width; first += group) {
        float sum = 0;
        for (int64_t k = first; k < first + group; ++k) sum += sums[k];
        for (int64_t k = first; k < first + group; ++k) sums[k] = sum / float(n * group);
      }
    };
    for (int64_t k = 0; k < width; ++k) means[k] = scales[k] = 0;
    if (center) reduce_columns(x, n, stride, means, width, [](float a, float v) { return a + v; });
    join_groups(means);
    for (int64_t i = 0; i < n; ++i) {
      const float* row = x + i * stride;
      TEMPER_NO_ALIAS
      for (int64_t k = 0; k < width; ++k) scales[k] += (row[k] - means[k]) * (row[k] - means[k]);
    }
    join_groups(scales);
    for (int64_t k = 0; k < width; ++k) scales[k] = 1.f / __builtin_sqrtf(scales[k] + epsilon);
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

// How the tensor is seen: rows or columns, or with `group` columns of which so many neighbours belong together.
struct View : RowView {
  int64_t group = 1;
};

// Nothing where the axes do not lie so. Groups are over all axes behind the first.
std::optional<View> view_of(const TensorType& x, Layout layout, const ops::Normalize& op) {
  const Dims dims = x.dims();
  if (op.groups == 1) {
    const auto rows = row_view(dims, layout, op.axes);
    return rows ? std::optional(View{*rows}) : std::nullopt;
  }
  if (op.axes.size() + 1 != dims.size() || op.axes[0] != 1 || !layout_fits(dims, layout)) return std::nullopt;
  const int64_t channels = dims[1], group = channels / op.groups;
  const int64_t spatial = element_count(Dims(dims.begin() + 2, dims.end()));
  if (layout == Layout::plain) return View{{dims[0] * op.groups, group * spatial, 1}};
  if (layout != Layout::channels_last || group > kGroupColumns || x.dtype != DType::f32) return std::nullopt;
  return View{{dims[0], spatial, channels}, group};
}

class NormalizeKernel final : public Kernel {
 public:
  NormalizeKernel(DType dtype, View view, const ops::Normalize& op, ZeroPadding padding, int threads)
      : dtype_(dtype), view_(view), epsilon_(op.epsilon), center_(op.center), padding_(padding), threads_(threads) {}

  void launch(const Buffers& buffers) override {
    if (view_.outer * view_.n * view_.inner == 0) return;
    const int64_t most = std::max<int64_t>(1, kColumns / view_.group) * view_.group;
    const int64_t width = std::min(view_.inner, most), per_row = (view_.inner + width - 1) / width;
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
              if (view_.group > 1)
                normalize_groups(x + at, y + at, view_.n, view_.inner, columns, view_.group, float(epsilon_), center_);
              else if (view_.inner == 1) normalize_row(x + at, y + at, view_.n, float(epsilon_), center_);
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
  View view_;
  double epsilon_;
  bool center_;
  ZeroPadding padding_;
  int threads_;
};

Support supports(const Problem& problem, const Device&) {
  if (auto s = needs_op<ops::Normalize>(problem); !s.yes()) return s;
  if (!view_of(problem.inputs[0].type, Layout::plain, problem.op.get<ops::Normalize>()))
    return refused("its axes do not lie side by side");
  return supported();
}

std::vector<Config> configs(const Problem& problem, const Device& device) {
  std::vector<Config> out;
  const Dims dims = problem.inputs[0].dims();
  for (Layout layout : useful_layouts(dims, device))
    if (view_of(problem.inputs[0].type, layout, problem.op.get<ops::Normalize>()))
      out.push_back(uniform_config(problem, layout));
  return out;
}

std::unique_ptr<Kernel> load(const Problem& problem, const Config& config, const PackedView&, const Device&) {
  const auto& op = problem.op.get<ops::Normalize>();
  const auto view = view_of(problem.inputs[0].type, config.inputs.at(0), op);
  if (!view) fail(ErrorKind::unsupported, "normalize over axes ", op.axes, " in the layout ", config.inputs[0]);
  return std::make_unique<NormalizeKernel>(
      problem.inputs[0].type.dtype, *view, op,
      ZeroPadding(problem.inputs[0].dims(), config.inputs[0], size_of(problem.inputs[0].type.dtype)), problem.threads);
}

}  // namespace

extern const Tactic cpu_normalize;
const Tactic cpu_normalize{"cpu.normalize", 2, supports, configs, nullptr, load};

}  // namespace temper
