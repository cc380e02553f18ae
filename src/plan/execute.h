// SPDX-License-Identifier: Apache-2.0
// Runs a plan: the kernels of one session and the memory they work in.
#pragma once
#include <functional>

#include "plan/plan.h"

namespace temper {

// Where a session works: memory of its device, which grows to the largest plan that it runs, and, where the device has
// memory of its own, its order of work and memory of the host to copy from and to.
class Arena {
 public:
  explicit Arena(const Device& device);
  Arena(const Arena&) = delete;
  void reserve(int64_t bytes, int64_t staging_bytes = 0);                   // throws Error{machine}
  std::byte* data() const { return static_cast<std::byte*>(data_.get()); }  // page-aligned
  std::byte* staging() const { return static_cast<std::byte*>(staging_.get()); }
  int64_t bytes() const { return bytes_; }
  Queue* queue() const { return queue_.get(); }  // null: the device works on the host's memory
  int moves() const { return moves_; }           // raised when data() changes

 private:
  std::unique_ptr<Queue> queue_;
  std::shared_ptr<void> data_, staging_;
  int64_t bytes_ = 0, staging_bytes_ = 0;
  int moves_ = 0;
};

class Executor {
 public:
  // Loads the kernels. `plan` and `arena` outlive the executor.
  Executor(const Plan& plan, const Device& device, Arena& arena);
  ~Executor();
  Executor(Executor&&) noexcept;

  // Pointers to the host's memory in the plan's order; buffers of the plan's types, row-major. Allocates nothing but,
  // on the first run, what a recording of the steps takes (a CUDA graph).
  void run(std::span<const void* const> inputs, std::span<void* const> outputs);
  // On a device with memory of its own, with buffers that lie in that memory; nothing passes through the host's memory.
  // Buffers that come for a second time are read and written where they lie; new ones, those not aligned to 256 bytes
  // and those that share memory are copied on the device. Waits until it is done. Returns where the outputs lie;
  // without `outputs`, only there, until the arena's next run.
  std::span<void* const> run_resident(std::span<const void* const> inputs, std::span<void* const> outputs = {});
  // For devices with memory of their own: runs the steps `times` times on the inputs that the last run() left there, as
  // one recording or as single launches, and gives the milliseconds of each on the device's clock. No transfers.
  std::vector<double> run_on_device(int times, bool recorded = true);
  // The same by step, as [run][segment][step]: what a step's launches take beside each other is in its time, too.
  std::vector<std::vector<std::vector<double>>> steps_on_device(int times);
  // As run(), on a device with memory of its own, but each step is waited for before the next one starts.
  void run_waiting(std::span<const void* const> inputs, std::span<void* const> outputs);
  // As run(), adding to `ms` the time of each step over its slices, as [segment][step]; of a parallel segment, its
  // first chain's. The cost is two clock readings a step.
  void run_timed(std::span<const void* const> inputs, std::span<void* const> outputs,
                 std::vector<std::vector<double>>& ms);
  // As run(), with a call before each step on each slice, which finds the step's inputs, and one after it, which finds
  // its outputs (these may lie where an input was). Slices run one after the other on the caller's thread.
  struct Observer {
    std::function<void(const PlanStep& step, const Buffers& buffers)> before, after;  // empty: not called
  };
  void run_observed(std::span<const void* const> inputs, std::span<void* const> outputs, const Observer& observer);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace temper
