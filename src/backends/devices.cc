// SPDX-License-Identifier: Apache-2.0
#include "backends/devices.h"

#include <algorithm>
#include <exception>
#include <optional>

#include "backends/cuda/machine.h"
#include "base/log.h"
#include "base/numa.h"
#include "base/parse.h"

namespace temper {

namespace {

// How many GPUs this machine has: all that the driver shows.
int count_gpus(const DeviceSettings& settings) {
  return int(open_device("cuda:0", settings).gpu->gpu()->driver().gpus().size());
}

// "cuda", "cuda:0" -> 0; nothing for devices that there is one of.
std::optional<int> ordinal_of(std::string_view device) {
  if (!find_backend(device).queue) return std::nullopt;
  const size_t colon = device.find(':');
  return colon == device.npos ? 0 : parse_number<int>(device.substr(colon + 1));
}

void leave_out_full(std::vector<std::string>& devices, const DeviceSettings& settings) {
  std::vector<std::string> open;
  std::exception_ptr first;
  for (const std::string& device : devices) {
    try {
      open_device(device, settings);
      open.push_back(device);
    } catch (const DeviceFull& error) {
      if (!first) first = std::current_exception();
      if (&device == &devices.back() && open.empty()) std::rethrow_exception(first);
      log(LogLevel::warning, device, " is left out: ", error.what());
    }
  }
  devices = std::move(open);
}

}  // namespace

std::vector<std::string> parse_devices(std::string_view list, const DeviceSettings& settings) {
  if (list.find(',') == list.npos && !list.ends_with(":*")) {
    find_backend(list);
    return {std::string(list)};
  }
  std::vector<std::string> devices;
  std::string kind;  // that a number alone goes on with; "" where there is one such device
  const auto add = [&](const std::string& device) {
    const std::optional<int> ordinal = ordinal_of(device);
    const std::string name = ordinal ? concat(find_backend(device).name, ':', *ordinal) : device;
    if (ordinal && std::find(devices.begin(), devices.end(), name) != devices.end())
      fail(ErrorKind::usage, "the list of devices '", list, "' has ", name, " twice; a GPU is in it once");
    devices.push_back(name);
    kind = ordinal ? find_backend(device).name : std::string_view();
  };
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    const std::string item(list.substr(at, end - at));
    at = end + 1;
    if (item.empty())
      fail(ErrorKind::usage, "'", list, "' is no list of devices; write cuda:0,1 or cuda:*, with no comma too many");
    if (!kind.empty() && parse_number<int>(item)) {
      add(concat(kind, ':', item));
    } else if (item.ends_with(":*")) {
      const std::string each = item.substr(0, item.size() - 2);
      if (!find_backend(each).queue)
        fail(ErrorKind::usage, "there is one device '", each, "'; '", item, "' is for those that there are several of");
      for (int i = 0, count = count_gpus(settings); i < count; ++i) add(concat(each, ':', i));
    } else {
      add(item);
    }
  }
  return devices;
}

std::vector<std::string> take_devices(std::string& device, const DeviceSettings& settings) {
  std::vector<std::string> devices = parse_devices(device, settings);
  if (devices.size() == 1 && devices[0] == device) return {};
  if (devices.size() > 1) leave_out_full(devices, settings);
  device = devices[0];
  return devices;
}

std::vector<int> cores_beside(const Device& device) {
  if (!device.gpu) return {};
  return cores_of_node(numa_node_of_pci(device.gpu->gpu()->info().pci_bus_id));
}

bool is_lost(const Device& device) noexcept {
  try {
    const std::unique_ptr<Queue> queue = open_queue(device);
    return queue && queue->is_lost();
  } catch (const Error&) { return true; }
}

}  // namespace temper
