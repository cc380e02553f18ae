// SPDX-License-Identifier: Apache-2.0
// Makes the executor of a plan that its device needs: one on the host's memory, or one on the device's own.
#pragma once
#include "plan/execute_device.h"
#include "plan/execute_host.h"

namespace temper {

// Loads the kernels. `plan` and `arena` outlive the executor.
std::unique_ptr<Executor> make_executor(const Plan& plan, const Device& device, Arena& arena);

// Throws Error{usage} where the executor's device works on the host's memory.
DeviceExecutor& on_device(Executor& executor);

}  // namespace temper
