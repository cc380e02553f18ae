// SPDX-License-Identifier: Apache-2.0
// Runs a plan: what executors of all devices do. A plan on the host is run by HostExecutor, one on a device with memory
// of its own by DeviceExecutor; make_executor (execute.h) picks.
#pragma once
#include <functional>

#include "plan/plan.h"

namespace temper {

class DeviceExecutor;

class Executor {
 public:
  virtual ~Executor() = default;

  // Pointers to the host's memory in the plan's order; buffers of the plan's types, row-major. Allocates nothing but,
  // on the first run on a device with memory of its own, what a capture of the steps takes (a CUDA graph).
  virtual void run(std::span<const void* const> inputs, std::span<void* const> outputs) = 0;
  // As run(), adding to `ms` the time of each step over its slices, as [segment][step]; of a parallel segment, its
  // first chain's. The cost is two clock readings a step.
  virtual void run_timed(std::span<const void* const> inputs, std::span<void* const> outputs,
                         std::vector<std::vector<double>>& ms) = 0;
  // As run(), with a call before each step on each slice, which finds the step's inputs, and one after it, which finds
  // its outputs (these may lie where an input was). Slices run one after the other on the caller's thread.
  struct Observer {
    std::function<void(const PlanStep& step, const Buffers& buffers)> before, after;  // empty: not called
  };
  virtual void run_observed(std::span<const void* const> inputs, std::span<void* const> outputs,
                            const Observer& observer) = 0;
  // Itself, where the device has memory of its own; null where it works on the host's.
  virtual DeviceExecutor* on_device() { return nullptr; }
};

}  // namespace temper
