// SPDX-License-Identifier: Apache-2.0
// Runs a plan on a device that works on the host's memory, segments of parallel chains on several threads.
#pragma once
#include "plan/bound_steps.h"
#include "plan/executor.h"

namespace temper {

class HostExecutor final : public Executor {
 public:
  // Loads the kernels. `plan` and `arena` outlive the executor.
  HostExecutor(const Plan& plan, const Device& device, Arena& arena);

  void run(std::span<const void* const> inputs, std::span<void* const> outputs) override;
  void run_timed(std::span<const void* const> inputs, std::span<void* const> outputs,
                 std::vector<std::vector<double>>& ms) override;
  void run_observed(std::span<const void* const> inputs, std::span<void* const> outputs,
                    const Observer& observer) override;

 private:
  const Plan& plan_;
  const bool subnormals_as_zero_;
  BoundSteps steps_;

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, std::vector<std::vector<double>>* ms);
  void run_slice(size_t s, int chain, int64_t slice, std::span<const void* const> inputs,
                 std::span<void* const> outputs, std::vector<std::vector<double>>* ms);
};

}  // namespace temper
