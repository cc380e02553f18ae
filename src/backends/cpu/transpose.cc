// SPDX-License-Identifier: Apache-2.0
// transpose on CPUs, as a strided copy from any layout without blocks to another.
#include "graph/ops/transpose.h"

#include "backends/cpu/box_copy.h"
#include "backends/cpu/cpu.h"

namespace temper {

namespace {

// Strides of the logical axes; layouts without blocks only.
Dims axis_strides(const Dims& dims, Layout layout) {
  if (layout == Layout::plain) return row_major_strides(dims);
  const Dims physical = row_major_strides(physical_dims(dims, layout));
  Dims out{physical.front(), physical.back()};
  out.insert(out.end(), physical.begin() + 1, physical.end() - 1);
  return out;
}

class TransposeKernel final : public Kernel {
 public:
  TransposeKernel(const Problem& problem, const Config& config) : threads_(problem.threads) {
    const auto& op = problem.op.get<ops::Transpose>();
    const Dims dims = problem.outputs[0].dims(), from = axis_strides(problem.inputs[0].dims(), config.inputs.at(0));
    Dims permuted;
    for (int64_t axis : op.perm) permuted.push_back(from[size_t(axis)]);
    copy_ =
        StridedCopy(dims, permuted, axis_strides(dims, config.outputs.at(0)), size_of(problem.inputs[0].type.dtype));
  }
  void launch(const Buffers& buffers) override {
    copy_.run(static_cast<const std::byte*>(buffers.inputs[0]), static_cast<std::byte*>(buffers.outputs[0]), threads_);
  }

 private:
  StridedCopy copy_;
  int threads_;
};

Support supports(const Problem& problem, const Device&) { return needs_op<ops::Transpose>(problem); }

std::vector<Config> configs(const Problem& problem, const Device&) {
  std::vector<Config> out{uniform_config(problem, Layout::plain)};
  // A transpose to or from NHWC may be no work at all where the neighbour keeps channels last.
  if (layout_fits(problem.inputs[0].dims(), Layout::channels_last)) {
    out.push_back({"", {Layout::channels_last}, {Layout::plain}});
    out.push_back({"", {Layout::plain}, {Layout::channels_last}});
    out.push_back({"", {Layout::channels_last}, {Layout::channels_last}});
  }
  return out;
}

std::unique_ptr<Kernel> load(const Problem& problem, const Config& config, const PackedView&, const Device&) {
  return std::make_unique<TransposeKernel>(problem, config);
}

}  // namespace

extern const Tactic cpu_transpose;
const Tactic cpu_transpose{"cpu.transpose", 1, supports, configs, nullptr, load};

}  // namespace temper
