// SPDX-License-Identifier: Apache-2.0
// Runs a plan: the kernels of one session and the memory they work in.
#pragma once
#include <functional>

#include "plan/plan.h"

namespace temper {

// Memory for one session; grows to the largest plan that it runs. 64-byte aligned.
class Arena {
 public:
  ~Arena();
  Arena() = default;
  Arena(const Arena&) = delete;
  void reserve(int64_t bytes);  // throws Error{machine}
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

class Executor {
 public:
  // Loads the kernels. `plan` and `arena` outlive the executor.
  Executor(const Plan& plan, const Device& device, Arena& arena);
  ~Executor();
  Executor(Executor&&) noexcept;

  // Pointers in the plan's order; buffers of the plan's types, row-major. Allocates nothing.
  void run(std::span<const void* const> inputs, std::span<void* const> outputs);
  // The same, adding to `ms` the time of each step over its slices, as [segment][step]; of a parallel segment, its first
  // chain's. The cost is two clock readings a step.
  void run_timed(std::span<const void* const> inputs, std::span<void* const> outputs, std::vector<std::vector<double>>& ms);
  // As run(), with a call before each step on each slice, which finds the step's inputs, and one after it, which finds its
  // outputs (these may lie where an input was). Slices run one after the other on the caller's thread.
  struct Observer {
    std::function<void(const PlanStep& step, const Buffers& buffers)> before, after;  // empty: not called
  };
  void run_observed(std::span<const void* const> inputs, std::span<void* const> outputs, const Observer& observer);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace temper
