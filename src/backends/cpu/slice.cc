// SPDX-License-Identifier: Apache-2.0
// slice on CPUs, as a copy of a box.
#include "graph/ops/slice.h"

#include "backends/cpu/box_copy.h"
#include "backends/cpu/cpu.h"

namespace temper {

namespace {

BoxSide source(const Problem& problem, Layout layout) {
  const auto& op = problem.op.get<ops::Slice>();
  BoxSide side{problem.inputs[0].dims(), layout, {}, op.steps};
  for (const Dim& start : op.starts) side.start.push_back(start.value());
  return side;
}

class SliceKernel final : public Kernel {
 public:
  SliceKernel(const Problem& problem, Layout layout) : threads_(problem.threads) {
    const Dims dims = problem.outputs[0].dims();
    const int64_t size = size_of(problem.outputs[0].type.dtype);
    copy_ = BoxCopy(dims, source(problem, layout), {dims, layout, {}, {}}, size);
    padding_ = ZeroPadding(dims, layout, size);
  }
  void launch(const Buffers& buffers) override {
    copy_.run(buffers.inputs[0], buffers.outputs[0], threads_);
    padding_.run(buffers.outputs[0]);
  }

 private:
  BoxCopy copy_;
  ZeroPadding padding_;
  int threads_;
};

Support supports(const Problem& problem, const Device&) {
  if (auto s = needs_op<ops::Slice>(problem); !s.yes()) return s;
  if (problem.inputs.size() > 1) return refused("its bounds are data");
  return supported();
}

std::vector<Config> configs(const Problem& problem, const Device& device) {
  std::vector<Config> out;
  const Dims dims = problem.outputs[0].dims();
  for (Layout layout : useful_layouts(dims, device))
    if (can_copy_box(dims, source(problem, layout))) out.push_back(uniform_config(problem, layout));
  return out;
}

std::unique_ptr<Kernel> load(const Problem& problem, const Config& config, const PackedView&, const Device&) {
  return std::make_unique<SliceKernel>(problem, config.outputs.at(0));
}

}  // namespace

extern const Tactic cpu_slice;
const Tactic cpu_slice{"cpu.slice", 1, supports, configs, nullptr, load};

}  // namespace temper
