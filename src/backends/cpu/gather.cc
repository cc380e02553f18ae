// SPDX-License-Identifier: Apache-2.0
// gather on CPUs: the indices are resolved and checked first, on the calling thread, since an index that does not exist
// is an error of the run.
#include "graph/ops/gather.h"

#include <cstring>

#include "backends/cpu/cpu.h"
#include "base/threads.h"

namespace temper {

namespace {

constexpr int64_t kParallelBytes = 1 << 17;

class GatherKernel final : public Kernel {
 public:
  explicit GatherKernel(const Problem& problem)
      : op_(problem.op.get<ops::Gather>()),
        dims_(problem.inputs[0].dims()),
        index_dims_(problem.inputs[1].dims()),
        wide_(problem.inputs[1].type.dtype == DType::i64),
        size_(size_of(problem.inputs[0].type.dtype)),
        threads_(problem.threads),
        count_(element_count(problem.outputs[0].dims())) {
    offsets_.resize(size_t(element_count(index_dims_) /
                           (op_.kind == ops::GatherKind::nd ? std::max<int64_t>(1, index_dims_.back()) : 1)));
  }

  void launch(const Buffers& buffers) override {
    if (count_ == 0) return;
    const Dims& strides = strides_;
    const void* data = buffers.inputs[1];
    auto index = [&](int64_t i, int64_t n) {
      return ops::resolve_index(wide_ ? static_cast<const int64_t*>(data)[i] : static_cast<const int32_t*>(data)[i], n);
    };
    const std::byte* from = static_cast<const std::byte*>(buffers.inputs[0]);
    std::byte* to = static_cast<std::byte*>(buffers.outputs[0]);
    const int64_t n = int64_t(offsets_.size());
    switch (op_.kind) {
      case ops::GatherKind::axis: {
        const int64_t inner = strides[size_t(op_.axis)], along = dims_[size_t(op_.axis)];
        for (int64_t i = 0; i < n; ++i) offsets_[size_t(i)] = index(i, along) * inner;
        return copy(from, to, count_ / (n * inner), n, along * inner, inner);
      }
      case ops::GatherKind::elements: {
        // Walks the indices; their other axes may be shorter than x's.
        Dims& at = at_;
        std::fill(at.begin(), at.end(), 0);
        int64_t base = 0;
        const size_t axis = size_t(op_.axis);
        for (int64_t i = 0; i < n; ++i) {
          offsets_[size_t(i)] = base + index(i, dims_[axis]) * strides[axis];
          for (size_t k = at.size(); k-- > 0;) {
            const int64_t step = k == axis ? 0 : strides[k];
            base += step;
            if (++at[k] < index_dims_[k]) break;
            base -= step * index_dims_[k];
            at[k] = 0;
          }
        }
        return copy(from, to, 1, n, 0, 1);
      }
      case ops::GatherKind::nd: {
        const int64_t length = index_dims_.back(), inner = strides[size_t(op_.batch_dims + length - 1)];
        int64_t batches = 1;
        for (int64_t k = 0; k < op_.batch_dims; ++k) batches *= index_dims_[size_t(k)];
        const int64_t batch_stride = op_.batch_dims ? strides[size_t(op_.batch_dims - 1)] : 0;
        for (int64_t i = 0; i < n; ++i) {
          int64_t offset = i / (n / batches) * batch_stride;
          for (int64_t k = 0; k < length; ++k)
            offset += index(i * length + k, dims_[size_t(op_.batch_dims + k)]) * strides[size_t(op_.batch_dims + k)];
          offsets_[size_t(i)] = offset;
        }
        return copy(from, to, 1, n, 0, inner);
      }
    }
  }

 private:
  // out[o, i, :inner] = in[o * outer_stride + offsets_[i], :inner]; lengths in elements.
  void copy(const std::byte* from, std::byte* to, int64_t outer, int64_t n, int64_t outer_stride, int64_t inner) const {
    const int64_t run = inner * size_;
    parallel_for_threads(threads_, outer * n, std::max<int64_t>(1, kParallelBytes / run),
                         [&](int, int64_t begin, int64_t end) {
                           int64_t o = begin / n, i = begin % n;
                           auto move = [&](auto copy_run) {
                             for (int64_t k = begin; k < end; ++k) {
                               copy_run(to + k * run, from + (o * outer_stride + offsets_[size_t(i)]) * size_);
                               if (++i == n) i = 0, ++o;
                             }
                           };
                           if (run == 4) move([](std::byte* d, const std::byte* s) { std::memcpy(d, s, 4); });
                           else if (run == 8) move([](std::byte* d, const std::byte* s) { std::memcpy(d, s, 8); });
                           else move([run](std::byte* d, const std::byte* s) { std::memcpy(d, s, size_t(run)); });
                         });
  }

  ops::Gather op_;
  Dims dims_, index_dims_;
  bool wide_;
  int64_t size_;
  int threads_;
  int64_t count_;
  Dims strides_ = row_major_strides(dims_);
  Dims at_ = Dims(index_dims_.size(), 0);
  std::vector<int64_t> offsets_;
};

Support supports(const Problem& problem, const Device&) { return needs_op<ops::Gather>(problem); }
std::vector<Config> configs(const Problem& problem, const Device&) { return {uniform_config(problem, Layout::plain)}; }
std::unique_ptr<Kernel> load(const Problem& problem, const Config&, const PackedView&, const Device&) {
  return std::make_unique<GatherKernel>(problem);
}

}  // namespace

extern const Tactic cpu_gather;
const Tactic cpu_gather{"cpu.gather", 1, supports, configs, nullptr, load};

}  // namespace temper
