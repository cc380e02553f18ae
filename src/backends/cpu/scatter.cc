// SPDX-License-Identifier: Apache-2.0
// scatter on CPUs: the indices are resolved first. Then each thread has a range of the output to itself: it copies x
// there and applies the updates that fall into it, in their order, so that the result is that of the reference, bit for
// bit, on any number of threads. Where the output is the memory of x, as of a cache, nothing is copied, and few updates
// are one thread's.
#include "graph/ops/scatter.h"

#include <cstring>

#include "backends/cpu/cpu.h"
#include "backends/cpu/index_offsets.h"
#include "base/threads.h"

namespace temper {

namespace {

constexpr int64_t kParallelBytes = 1 << 17;

class ScatterKernel final : public Kernel {
 public:
  explicit ScatterKernel(const Problem& problem)
      : op_(problem.op.get<ops::Scatter>()),
        dtype_(problem.inputs[0].type.dtype),
        elements_(element_count(problem.inputs[0].dims())),
        updates_(element_count(problem.inputs[2].dims())),
        threads_(problem.threads),
        offsets_(problem.inputs[0].dims(), problem.inputs[1].dims(), problem.inputs[1].type.dtype,
                 op_.kind == ops::ScatterKind::nd ? -1 : op_.axis, 0) {}

  int in_place() const override { return 0; }

  void launch(const Buffers& buffers) override {
    std::span<const int64_t> offsets;
    if (updates_ > 0) offsets = offsets_.resolve(buffers.inputs[1]);
    if (elements_ == 0) return;
    const int64_t inner = offsets.empty() ? 1 : updates_ / int64_t(offsets.size()), size = size_of(dtype_);
    const bool copies = buffers.inputs[0] != buffers.outputs[0], few = !copies && updates_ * size <= kParallelBytes;
    const int64_t targets = elements_ / inner;
    parallel_for_threads(threads_, targets, few ? targets : std::max<int64_t>(1, kParallelBytes / (inner * size)),
                         [&](int, int64_t begin, int64_t end) {
                           const int64_t first = begin * inner, last = end * inner;
                           if (copies)
                             std::memcpy(static_cast<std::byte*>(buffers.outputs[0]) + first * size,
                                         static_cast<const std::byte*>(buffers.inputs[0]) + first * size,
                                         size_t((last - first) * size));
                           visit_dtype(dtype_, [&]<class T>() {
                             apply(static_cast<T*>(buffers.outputs[0]), static_cast<const T*>(buffers.inputs[2]),
                                   offsets, inner, first, last);
                           });
                         });
  }

 private:
  // The updates, `inner` elements each, that fall into out[first, last).
  template <class T>
  void apply(T* out, const T* updates, std::span<const int64_t> offsets, int64_t inner, int64_t first,
             int64_t last) const {
    using W = Wide<T>;
    using U = std::conditional_t<std::is_same_v<W, int64_t>, uint64_t, W>;  // integers wrap
    auto each = [&](auto&& combine) {
      for (size_t i = 0; i < offsets.size(); ++i) {
        const int64_t at = offsets[i];
        if (at < first || at >= last) continue;
        T* to = out + at;
        const T* from = updates + int64_t(i) * inner;
        for (int64_t j = 0; j < inner; ++j) combine(to[j], from[j]);
      }
    };
    auto wide = [](T x) { return static_cast<W>(x); };
    switch (op_.reduction) {
      case ops::ScatterReduction::none: return each([](T& to, T from) { to = from; });
      case ops::ScatterReduction::add:
        return each([&](T& to, T from) { to = static_cast<T>(static_cast<W>(U(wide(to)) + U(wide(from)))); });
      case ops::ScatterReduction::mul:
        return each([&](T& to, T from) { to = static_cast<T>(static_cast<W>(U(wide(to)) * U(wide(from)))); });
      case ops::ScatterReduction::max:
        return each([&](T& to, T from) {
          if (wide(from) > wide(to) || wide(from) != wide(from)) to = from;
        });
      case ops::ScatterReduction::min:
        return each([&](T& to, T from) {
          if (wide(from) < wide(to) || wide(from) != wide(from)) to = from;
        });
    }
  }

  ops::Scatter op_;
  DType dtype_;
  int64_t elements_, updates_;
  int threads_;
  IndexOffsets offsets_;
};

Support supports(const Problem& problem, const Device&) { return needs_op<ops::Scatter>(problem); }
std::vector<Config> configs(const Problem& problem, const Device&) { return {uniform_config(problem, Layout::plain)}; }
std::unique_ptr<Kernel> load(const Problem& problem, const Config&, const PackedView&, const Device&) {
  return std::make_unique<ScatterKernel>(problem);
}

}  // namespace

extern const Tactic cpu_scatter;
const Tactic cpu_scatter{"cpu.scatter", 2, supports, configs, nullptr, load};

}  // namespace temper
