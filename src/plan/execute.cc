// SPDX-License-Identifier: Apache-2.0
#include "plan/execute.h"

namespace temper {

std::unique_ptr<Executor> make_executor(const Plan& plan, const Device& device, Arena& arena) {
  if (arena.queue()) return std::make_unique<DeviceExecutor>(plan, device, arena);
  return std::make_unique<HostExecutor>(plan, device, arena);
}

DeviceExecutor& on_device(Executor& executor) {
  DeviceExecutor* device = executor.on_device();
  if (!device) fail(ErrorKind::usage, "this device has no memory or clock of its own");
  return *device;
}

}  // namespace temper
