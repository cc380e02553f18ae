// SPDX-License-Identifier: Apache-2.0
// The steps of a plan with their kernels loaded, and the one visitor that says where their buffers lie.
#pragma once
#include <memory>
#include <vector>

#include "plan/arena.h"
#include "plan/plan.h"

namespace temper {

struct BoundStep {
  std::unique_ptr<Kernel> kernel;
  const PlanStep* step;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
};

// Launches the kernel of a step; an Error says which step it was.
inline void launch(const BoundStep& step, const Buffers& buffers) {
  with_context(
      [&] {
        return step.step->is_reorder() ? step.step->node
                                       : concat(name_of(step.step->problem.op), " '", step.step->node, "'");
      },
      [&] { step.kernel->launch(buffers); });
}

class BoundSteps {
 public:
  // Loads the kernels. The plan may come from a file: what only the tactic and its kernel can tell about it is checked
  // here. `plan` and `arena` outlive this.
  BoundSteps(const Plan& plan, const Device& device, Arena& arena);

  // Sets where constants lie, by index in the plan; null for those that no step reads.
  void set_constants(std::vector<const void*> constants) { constants_ = std::move(constants); }
  // The arena has room for the plan, and behind it `more` bytes. Throws Error{machine} with what the plan needs.
  void reserve(int64_t more = 0, int64_t staging = 0);
  // Says how much memory the plan needs, for errors. `more`: bytes behind the plan's own.
  std::string needs(int64_t more = 0) const;

  std::vector<BoundStep>& of(size_t segment, int chain) { return bound_[segment][size_t(chain)]; }
  // The buffers of a step on one slice. They hold until the step is bound again. Allocates nothing.
  Buffers bind(const Segment& segment, BoundStep& step, int chain, int64_t slice, std::span<const void* const> inputs,
               std::span<void* const> outputs) const;

  // Calls f(segment, step, bound step, buffers) for each step on each slice, one after the other, on the first chain.
  template <class F>
  void each(std::span<const void* const> inputs, std::span<void* const> outputs, F&& f) {
    for (size_t s = 0; s < plan_.segments.size(); ++s)
      for (int64_t slice = 0; slice < plan_.segments[s].slices; ++slice)
        for (size_t i = 0; i < of(s, 0).size(); ++i)
          f(s, i, of(s, 0)[i], bind(plan_.segments[s], of(s, 0)[i], 0, slice, inputs, outputs));
  }

 private:
  const Plan& plan_;
  Arena& arena_;
  void* stream_;
  std::vector<const void*> constants_;
  std::vector<std::vector<std::vector<BoundStep>>> bound_;  // [segment][chain][step]

  std::unique_ptr<Kernel> load(const PlanStep& step, const Device& device) const;
  std::unique_ptr<Kernel> load_unchecked(const PlanStep& step, const Device& device) const;
};

}  // namespace temper
