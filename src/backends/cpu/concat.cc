// SPDX-License-Identifier: Apache-2.0
// concat on CPUs: each input is copied into its part of the output.
#include "graph/ops/concat.h"

#include <algorithm>

#include "backends/cpu/box_copy.h"
#include "backends/cpu/cpu.h"

namespace temper {

namespace {

// Where each input begins along the axis.
std::vector<BoxSide> places(const Problem& problem, Layout layout) {
  const auto& op = problem.op.get<ops::Concat>();
  const Dims dims = problem.outputs[0].dims();
  std::vector<BoxSide> out;
  Dims start(dims.size(), 0);
  for (const Port& input : problem.inputs) {
    out.push_back({dims, layout, start, {}});
    start[size_t(op.axis)] += input.dims()[size_t(op.axis)];
  }
  return out;
}

class ConcatKernel final : public Kernel {
 public:
  ConcatKernel(const Problem& problem, Layout layout) : threads_(problem.threads) {
    const int64_t size = size_of(problem.outputs[0].type.dtype);
    const std::vector<BoxSide> to = places(problem, layout);
    for (size_t i = 0; i < to.size(); ++i) {
      const Dims dims = problem.inputs[i].dims();
      if (problem.inputs[i].in_place) copies_.emplace_back();  // moves nothing
      else copies_.push_back(BoxCopy(dims, {dims, layout, {}, {}}, to[i], size));
    }
    padding_ = ZeroPadding(problem.outputs[0].dims(), layout, size);
  }
  void launch(const Buffers& buffers) override {
    for (size_t i = 0; i < copies_.size(); ++i) copies_[i].run(buffers.inputs[i], buffers.outputs[0], threads_);
    padding_.run(buffers.outputs[0]);
  }

 private:
  std::vector<BoxCopy> copies_;
  ZeroPadding padding_;
  int threads_;
};

Support supports(const Problem& problem, const Device&) { return needs_op<ops::Concat>(problem); }

std::vector<Config> configs(const Problem& problem, const Device& device) {
  std::vector<Config> out;
  for (Layout layout : useful_layouts(problem.outputs[0].dims(), device)) {
    const std::vector<BoxSide> to = places(problem, layout);
    bool possible = true;
    for (size_t i = 0; i < to.size(); ++i) possible = possible && can_copy_box(problem.inputs[i].dims(), to[i]);
    if (possible) out.push_back(uniform_config(problem, layout));
  }
  return out;
}

std::unique_ptr<Kernel> load(const Problem& problem, const Config& config, const PackedView&, const Device&) {
  return std::make_unique<ConcatKernel>(problem, config.outputs.at(0));
}

bool takes_parts(const Problem& problem, const Config&) {
  return problem.outputs[0].pitch == 0 &&
         std::all_of(problem.inputs.begin(), problem.inputs.end(), [](const Port& input) { return input.pitch == 0; });
}

}  // namespace

extern const Tactic cpu_concat;
const Tactic cpu_concat{"cpu.concat", 1, supports, configs, nullptr, load, false, nullptr, takes_parts};

}  // namespace temper
