// SPDX-License-Identifier: Apache-2.0
// broadcast on CPUs, as a strided copy.
#include "graph/ops/broadcast.h"

#include "backends/cpu/cpu.h"
#include "backends/cpu/strided_copy.h"

namespace temper {

namespace {

class BroadcastKernel final : public Kernel {
 public:
  explicit BroadcastKernel(const Problem& problem) : threads_(problem.threads) {
    const Dims dims = problem.outputs[0].dims();
    copy_ = StridedCopy(dims, broadcast_strides(problem.inputs[0].dims(), dims), row_major_strides(dims),
                        size_of(problem.outputs[0].type.dtype));
  }
  void launch(const Buffers& buffers) override {
    copy_.run(static_cast<const std::byte*>(buffers.inputs[0]), static_cast<std::byte*>(buffers.outputs[0]), threads_);
  }

 private:
  StridedCopy copy_;
  int threads_;
};

Support supports(const Problem& problem, const Device&) {
  if (auto s = needs_op<ops::Broadcast>(problem); !s.yes()) return s;
  if (problem.inputs.size() > 1) return refused("its shape is data");
  return supported();
}

std::vector<Config> configs(const Problem& problem, const Device&) { return {uniform_config(problem, Layout::plain)}; }

std::unique_ptr<Kernel> load(const Problem& problem, const Config&, const PackedView&, const Device&) {
  return std::make_unique<BroadcastKernel>(problem);
}

}  // namespace

extern const Tactic cpu_broadcast;
const Tactic cpu_broadcast{"cpu.broadcast", 1, supports, configs, nullptr, load};

}  // namespace temper
