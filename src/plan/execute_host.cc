// SPDX-License-Identifier: Apache-2.0
#include "plan/execute_host.h"

#include <chrono>

#include "backends/subnormals.h"
#include "base/threads.h"
#include "plan/step_ranges.h"

namespace temper {

HostExecutor::HostExecutor(const Plan& plan, const Device& device, Arena& arena)
    : plan_(plan), subnormals_as_zero_(takes_subnormals_for_zero(device)), steps_(plan, device, arena) {
  std::vector<const void*> constants;
  for (const auto& constant : plan.constants) constants.push_back(constant->raw().data());
  steps_.set_constants(std::move(constants));
  steps_.reserve();
}

void HostExecutor::run(std::span<const void* const> inputs, std::span<void* const> outputs) {
  run(inputs, outputs, nullptr);
}

void HostExecutor::run_timed(std::span<const void* const> inputs, std::span<void* const> outputs,
                             std::vector<std::vector<double>>& ms) {
  ms.resize(plan_.segments.size());
  for (size_t s = 0; s < ms.size(); ++s) ms[s].resize(plan_.segments[s].steps.size());
  run(inputs, outputs, &ms);
}

void HostExecutor::run(std::span<const void* const> inputs, std::span<void* const> outputs,
                       std::vector<std::vector<double>>* ms) {
  const SubnormalsAsZero subnormals(subnormals_as_zero_);
  steps_.reserve();
  for (size_t s = 0; s < plan_.segments.size(); ++s) {
    const Segment& segment = plan_.segments[s];
    if (!segment.parallel) {
      for (int64_t slice = 0; slice < segment.slices; ++slice) run_slice(s, 0, slice, inputs, outputs, ms);
      continue;
    }
    const int64_t chains = plan_.threads;
    run_members(plan_.threads, [&](int chain) {
      for (int64_t slice = segment.slices * chain / chains; slice < segment.slices * (chain + 1) / chains; ++slice)
        run_slice(s, chain, slice, inputs, outputs, ms);
    });
  }
}

// One slice through one chain.
void HostExecutor::run_slice(size_t s, int chain, int64_t slice, std::span<const void* const> inputs,
                             std::span<void* const> outputs, std::vector<std::vector<double>>* ms) {
  auto& steps = steps_.of(s, chain);
  const Segment& segment = plan_.segments[s];
  if (!ms || chain != 0) {
    for (BoundStep& step : steps) {
      const StepRange range(step.step->node);
      launch(step, steps_.bind(segment, step, chain, slice, inputs, outputs));
    }
    return;
  }
  auto before = std::chrono::steady_clock::now();
  for (size_t i = 0; i < steps.size(); ++i) {
    {
      const StepRange range(steps[i].step->node);
      launch(steps[i], steps_.bind(segment, steps[i], chain, slice, inputs, outputs));
    }
    const auto now = std::chrono::steady_clock::now();
    (*ms)[s][i] += std::chrono::duration<double, std::milli>(now - before).count();
    before = now;
  }
}

void HostExecutor::run_observed(std::span<const void* const> inputs, std::span<void* const> outputs,
                                const Observer& observer) {
  steps_.reserve();
  steps_.each(inputs, outputs, [&](size_t, size_t, BoundStep& step, const Buffers& buffers) {
    if (observer.before) observer.before(*step.step, buffers);
    {
      const SubnormalsAsZero subnormals(subnormals_as_zero_);
      launch(step, buffers);
    }
    if (observer.after) observer.after(*step.step, buffers);
  });
}

}  // namespace temper
