// SPDX-License-Identifier: Apache-2.0
// resize on CPUs: nearest moves elements through tables of positions. The other kinds interpolate one axis at a time:
// each row of the result is a weighted sum of a few rows of what the axis before left. f16 and bf16 are widened before
// the first axis and rounded behind the last.
#include "graph/ops/resize.h"

#include <algorithm>
#include <cmath>

#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/pointwise_steps.h"
#include "backends/cpu/table_copy.h"
#include "base/checked.h"
#include "base/threads.h"

namespace temper {

namespace {

constexpr int64_t kParallel = 16384;  // elements worth a thread

// The tables of the physical axes of a layout; channels are not resized in layouts other than plain.
template <class T>
std::vector<T> in_memory_order(std::vector<T> logical, Layout layout) {
  if (layout == Layout::plain) return logical;
  logical.erase(logical.begin() + 1);
  if (block_of(layout) > 1) logical.insert(logical.begin() + 1, T{});
  logical.push_back({});
  return logical;
}

class NearestKernel final : public Kernel {
 public:
  NearestKernel(const Problem& problem, Layout layout) : threads_(problem.threads) {
    const auto& op = problem.op.get<ops::Resize>();
    const Dims from = problem.inputs[0].dims(), to = problem.outputs[0].dims();
    std::vector<Dims> tables(from.size());
    for (size_t axis = 0; axis < from.size(); ++axis)
      if (!op.is_identity_along(axis, from[axis], to[axis])) tables[axis] = op.table(axis, from[axis], to[axis]).index;
    copy_ = TableCopy(physical_dims(from, layout), in_memory_order(std::move(tables), layout),
                      size_of(problem.inputs[0].type.dtype));
  }
  void launch(const Buffers& buffers) override { copy_.run(buffers.inputs[0], buffers.outputs[0], threads_); }

 private:
  TableCopy copy_;
  int threads_;
};

// [outer, in, inner] -> [outer, out, inner]
struct Pass {
  int64_t outer, in, out, inner, taps;
  std::vector<int64_t> index;
  std::vector<float> weight;
  std::vector<char> outside;
  float extrapolation;

  void row(const float* from, float* to, int64_t o) const {
    const int64_t* at = index.data() + o * taps;
    const float* w = weight.data() + o * taps;
    const int64_t n = inner;
    if (outside[size_t(o)]) {
      std::fill_n(to, n, extrapolation);
    } else if (taps == 2) {
      const float *a = from + at[0] * n, *b = from + at[1] * n, wa = w[0], wb = w[1];
      vectorised([=] {
        for (int64_t i = 0; i < n; ++i) to[i] = a[i] * wa + b[i] * wb;
      });
    } else {
      for (int64_t t = 0; t < taps; ++t) {
        const float *a = from + at[t] * n, wa = w[t];
        if (t == 0)
          vectorised([=] {
            for (int64_t i = 0; i < n; ++i) to[i] = a[i] * wa;
          });
        else
          vectorised([=] {
            for (int64_t i = 0; i < n; ++i) to[i] += a[i] * wa;
          });
      }
    }
  }
  // inner = 1: all results of one outer index.
  void line(const float* from, float* to) const {
    if (taps == 2) {
      const int64_t *at = index.data(), n = out;
      const float* w = weight.data();
      vectorised([=] {
        for (int64_t o = 0; o < n; ++o) to[o] = from[at[2 * o]] * w[2 * o] + from[at[2 * o + 1]] * w[2 * o + 1];
      });
    } else {
      for (int64_t o = 0; o < out; ++o) {
        float sum = 0;
        for (int64_t t = o * taps; t < (o + 1) * taps; ++t) sum += from[index[size_t(t)]] * weight[size_t(t)];
        to[o] = sum;
      }
    }
    for (int64_t o = 0; o < out; ++o)
      if (outside[size_t(o)]) to[o] = extrapolation;
  }
  void run(const float* from, float* to, int threads) const {
    const bool lines = inner == 1;
    const int64_t count = lines ? outer : outer * out, each = lines ? out : inner;
    parallel_for_threads(threads, count, std::max<int64_t>(1, kParallel / std::max<int64_t>(1, each)),
                         [&](int, int64_t begin, int64_t end) {
                           for (int64_t i = begin; i < end; ++i) {
                             if (lines) line(from + i * in, to + i * out);
                             else row(from + i / out * in * inner, to + i * inner, i % out);
                           }
                         });
  }
};

class InterpolateKernel final : public Kernel {
 public:
  InterpolateKernel(const Problem& problem, Layout layout)
      : dtype_(problem.inputs[0].type.dtype), threads_(problem.threads) {
    const auto& op = problem.op.get<ops::Resize>();
    const Dims from = problem.inputs[0].dims(), to = problem.outputs[0].dims();
    std::vector<ops::ResizeTable> logical(from.size());
    for (size_t axis = 0; axis < from.size(); ++axis)
      if (!op.is_identity_along(axis, from[axis], to[axis])) logical[axis] = op.table(axis, from[axis], to[axis]);
    const std::vector<ops::ResizeTable> tables = in_memory_order(std::move(logical), layout);
    Dims dims = physical_dims(from, layout);
    if (is_narrow()) largest_ = in_ = element_count(dims);
    const Dims end = physical_dims(to, layout);
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      const ops::ResizeTable& table = tables[axis];
      if (table.index.empty()) continue;
      Pass pass{1, dims[axis], end[axis], 1, table.taps, table.index, {}, {}, float(op.extrapolation)};
      for (size_t i = 0; i < axis; ++i) pass.outer *= dims[i];
      for (size_t i = axis + 1; i < dims.size(); ++i) pass.inner *= dims[i];
      for (double w : table.weight) pass.weight.push_back(float(w));
      for (int64_t o = 0; o < pass.out; ++o) pass.outside.push_back(pass.index[size_t(o * pass.taps)] < 0);
      for (size_t t = 0; t < pass.index.size(); ++t)
        if (pass.index[t] < 0) pass.index[t] = 0, pass.weight[t] = 0;
      dims[axis] = end[axis];
      passes_.push_back(std::move(pass));
      out_ = element_count(dims);
      if (axis + 1 < dims.size() || is_narrow()) largest_ = std::max(largest_, out_);
    }
    largest_ = round_up(largest_, int64_t(16));
  }
  // Two buffers that the passes between the first and the last write in turn; all of them, of what is widened.
  int64_t workspace() const override {
    return passes_.size() > 1 || is_narrow() ? 2 * largest_ * int64_t(sizeof(float)) : 0;
  }
  void launch(const Buffers& buffers) override {
    float* scratch = static_cast<float*>(buffers.workspace);
    const auto at = [&](size_t i) { return scratch + int64_t(i % 2) * largest_; };
    const float* from = static_cast<const float*>(buffers.inputs[0]);
    if (is_narrow()) {
      convert(find_load(dtype_), buffers.inputs[0], size_of(dtype_), at(1), sizeof(float), in_);
      from = at(1);
    }
    for (size_t i = 0; i < passes_.size(); ++i) {
      float* to = i + 1 == passes_.size() && !is_narrow() ? static_cast<float*>(buffers.outputs[0]) : at(i);
      passes_[i].run(from, to, threads_);
      from = to;
    }
    if (is_narrow()) convert(find_store(dtype_), from, sizeof(float), buffers.outputs[0], size_of(dtype_), out_);
  }

 private:
  std::vector<Pass> passes_;
  const DType dtype_;
  int64_t largest_ = 0, in_ = 0, out_ = 0;  // elements: of each buffer, of the input and of the output
  int threads_;

  bool is_narrow() const { return dtype_ != DType::f32; }
  void convert(StepFn step, const void* from, int64_t from_size, void* to, int64_t to_size, int64_t count) const {
    parallel_for_threads(threads_, count, kParallel, [&](int, int64_t begin, int64_t end) {
      step({static_cast<char*>(to) + begin * to_size, static_cast<const char*>(from) + begin * from_size, nullptr,
            nullptr, end - begin, false, false, false});
    });
  }
};

bool moves_elements(const ops::Resize& op) {
  return op.kind == ops::ResizeKind::nearest && op.coordinate != ops::ResizeCoordinate::tf_crop_and_resize;
}

Support supports(const Problem& problem, const Device&) {
  if (auto s = needs_op<ops::Resize>(problem); !s.yes()) return s;
  const auto& op = problem.op.get<ops::Resize>();
  const Dims from = problem.inputs[0].dims(), to = problem.outputs[0].dims();
  if (problem.inputs.size() > 1) return refused("its size is data");
  if (element_count(from) == 0 || element_count(to) == 0) return refused("an empty tensor");
  if (moves_elements(op)) return supported();
  const DType dtype = problem.inputs[0].type.dtype;
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16)
    return refused("interpolates f32, f16 and bf16 only, not ", dtype);
  for (size_t axis = 0; axis < from.size(); ++axis)
    if (!op.is_identity_along(axis, from[axis], to[axis])) return supported();
  return refused("it changes nothing");
}

std::vector<Config> configs(const Problem& problem, const Device& device) {
  const auto& op = problem.op.get<ops::Resize>();
  const Dims from = problem.inputs[0].dims(), to = problem.outputs[0].dims();
  std::vector<Config> out;
  for (Layout layout : useful_layouts(from, device))
    // Extrapolated values would fill padding channels.
    if (layout == Layout::plain ||
        (op.is_identity_along(1, from[1], to[1]) &&
         (block_of(layout) == 1 || op.coordinate != ops::ResizeCoordinate::tf_crop_and_resize)))
      out.push_back(uniform_config(problem, layout));
  return out;
}

std::unique_ptr<Kernel> load(const Problem& problem, const Config& config, const PackedView&, const Device&) {
  if (moves_elements(problem.op.get<ops::Resize>()))
    return std::make_unique<NearestKernel>(problem, config.inputs.at(0));
  return std::make_unique<InterpolateKernel>(problem, config.inputs.at(0));
}

}  // namespace

extern const Tactic cpu_resize;
const Tactic cpu_resize{"cpu.resize", 2, supports, configs, nullptr, load};

}  // namespace temper
