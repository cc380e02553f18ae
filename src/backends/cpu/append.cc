// SPDX-License-Identifier: Apache-2.0
// append on CPUs: rows are copied to where they belong, and before that the whole cache, where the output has memory of
// its own. A session that keeps the cache as a state gives both the same (runtime/state.h).
#include "graph/ops/append.h"

#include <cstring>

#include "backends/cpu/cpu.h"
#include "base/threads.h"

namespace temper {

namespace {

constexpr int64_t kParallelBytes = 1 << 17;

class AppendKernel final : public Kernel {
 public:
  explicit AppendKernel(const Problem& problem) : threads_(problem.threads) {
    const Dims dims = problem.inputs[0].dims();
    const int64_t size = size_of(problem.inputs[0].type.dtype);
    batch_ = dims[0], positions_ = dims[1], row_ = dims[2] * size;
    rows_ = problem.inputs[1].dims()[1];
    pitch_ = problem.inputs[1].pitch ? problem.inputs[1].pitch * size : row_;
  }

  int in_place() const override { return 0; }

  // Every length is looked at before anything is written.
  void launch(const Buffers& buffers) override {
    const auto* lengths = static_cast<const int64_t*>(buffers.inputs[2]);
    for (int64_t b = 0; b < batch_; ++b) ops::expect_room(lengths[b], rows_, positions_, b);
    const auto *x = static_cast<const std::byte*>(buffers.inputs[0]),
               *rows = static_cast<const std::byte*>(buffers.inputs[1]);
    auto* y = static_cast<std::byte*>(buffers.outputs[0]);
    if (row_ == 0) return;
    const int64_t each = std::max<int64_t>(1, kParallelBytes / row_);
    if (x != y)
      parallel_for_threads(threads_, batch_ * positions_, each, [&](int, int64_t begin, int64_t end) {
        std::memcpy(y + begin * row_, x + begin * row_, size_t((end - begin) * row_));
      });
    parallel_for_threads(threads_, batch_ * rows_, each, [&](int, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t b = i / rows_;
        std::memcpy(y + (b * positions_ + lengths[b] + i % rows_) * row_, rows + i * pitch_, size_t(row_));
      }
    });
  }

 private:
  int64_t batch_, positions_, rows_, row_, pitch_;  // row and pitch: bytes
  int threads_;
};

Support supports(const Problem& problem, const Device&) { return needs_op<ops::Append>(problem); }
std::vector<Config> configs(const Problem& problem, const Device&) { return {uniform_config(problem, Layout::plain)}; }
std::unique_ptr<Kernel> load(const Problem& problem, const Config&, const PackedView&, const Device&) {
  return std::make_unique<AppendKernel>(problem);
}
// The new rows may be columns of a product that makes more than them.
bool takes_parts(const Problem& problem, const Config&) {
  return problem.inputs[0].pitch == 0 && problem.inputs[2].pitch == 0 && problem.outputs[0].pitch == 0;
}

}  // namespace

extern const Tactic cpu_append;
const Tactic cpu_append{"cpu.append", 1, supports, configs, nullptr, load, false, nullptr, takes_parts};

}  // namespace temper
