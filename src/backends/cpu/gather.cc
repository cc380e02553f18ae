// SPDX-License-Identifier: Apache-2.0
// gather on CPUs: the indices are resolved first, then elements move on several threads.
#include "graph/ops/gather.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/cpu.h"
#include "backends/cpu/index_offsets.h"
#include "base/threads.h"

namespace temper {

namespace {

constexpr int64_t kParallelBytes = 1 << 17, kParallelRuns = 1 << 13;

class GatherKernel final : public Kernel {
 public:
  explicit GatherKernel(const Problem& problem)
      : op_(problem.op.get<ops::Gather>()),
        dims_(problem.inputs[0].dims()),
        index_dims_(problem.inputs[1].dims()),
        // Of whole slices along an axis the indices are positions in that axis alone.
        offsets_(op_.kind == ops::GatherKind::axis ? Dims{dims_[size_t(op_.axis)]} : dims_,
                 op_.kind == ops::GatherKind::axis ? Dims{element_count(index_dims_)} : index_dims_,
                 problem.inputs[1].type.dtype,
                 op_.kind == ops::GatherKind::nd         ? -1
                 : op_.kind == ops::GatherKind::elements ? op_.axis
                                                         : 0,
                 op_.batch_dims),
        size_(size_of(problem.inputs[0].type.dtype)),
        threads_(problem.threads),
        count_(element_count(problem.outputs[0].dims())) {}

  void launch(const Buffers& buffers) override {
    if (count_ == 0) return;
    const std::span<const int64_t> offsets = offsets_.resolve(buffers.inputs[1]);
    const std::byte* from = static_cast<const std::byte*>(buffers.inputs[0]);
    std::byte* to = static_cast<std::byte*>(buffers.outputs[0]);
    const int64_t n = int64_t(offsets.size());
    switch (op_.kind) {
      case ops::GatherKind::axis: {
        const int64_t inner = strides_[size_t(op_.axis)];
        return copy(from, to, offsets, inner, count_ / (n * inner), dims_[size_t(op_.axis)] * inner, inner);
      }
      case ops::GatherKind::elements: return copy(from, to, offsets, 1, 1, 0, 1);
      case ops::GatherKind::nd:
        return copy(from, to, offsets, 1, 1, 0, strides_[size_t(op_.batch_dims + index_dims_.back() - 1)]);
    }
  }

 private:
  // out[o, i, :inner] = in[o * outer_stride + offsets[i] * scale, :inner]; lengths in elements.
  void copy(const std::byte* from, std::byte* to, std::span<const int64_t> offsets, int64_t scale, int64_t outer,
            int64_t outer_stride, int64_t inner) const {
    const int64_t run = inner * size_, n = int64_t(offsets.size());
    parallel_for_threads(threads_, outer * n, std::clamp<int64_t>(kParallelBytes / run, 1, kParallelRuns),
                         [&](int, int64_t begin, int64_t end) {
                           int64_t o = begin / n, i = begin % n;
                           auto move = [&](auto copy_run) {
                             for (int64_t k = begin; k < end; ++k) {
                               copy_run(to + k * run, from + (o * outer_stride + offsets[size_t(i)] * scale) * size_);
                               if (++i == n) i = 0, ++o;
                             }
                           };
                           if (run == 4) move([](std::byte* d, const std::byte* s) { std::memcpy(d, s, 4); });
                           else if (run == 8) move([](std::byte* d, const std::byte* s) { std::memcpy(d, s, 8); });
                           else if (run == 16) move([](std::byte* d, const std::byte* s) { std::memcpy(d, s, 16); });
                           else move([run](std::byte* d, const std::byte* s) { std::memcpy(d, s, size_t(run)); });
                         });
  }

  ops::Gather op_;
  Dims dims_, index_dims_;
  IndexOffsets offsets_;
  int64_t size_;
  int threads_;
  int64_t count_;
  Dims strides_ = row_major_strides(dims_);
};

Support supports(const Problem& problem, const Device&) { return needs_op<ops::Gather>(problem); }
std::vector<Config> configs(const Problem& problem, const Device&) { return {uniform_config(problem, Layout::plain)}; }
std::unique_ptr<Kernel> load(const Problem& problem, const Config&, const PackedView&, const Device&) {
  return std::make_unique<GatherKernel>(problem);
}

}  // namespace

extern const Tactic cpu_gather;
const Tactic cpu_gather{"cpu.gather", 2, supports, configs, nullptr, load};

}  // namespace temper
