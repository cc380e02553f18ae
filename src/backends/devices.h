// SPDX-License-Identifier: Apache-2.0
// Lists of devices, and what somebody who runs on several asks of each.
#pragma once
#include "backends/backend.h"

namespace temper {

// Names with commas between them. "cuda:*" stands for every GPU of this machine, and a number goes on with the kind
// before it: "cuda:0,2" is "cuda:0,cuda:2". The CPU may be in it several times, each for another session; a GPU may
// not. A list of one is its name as it was given. Throws Error{usage} for an unknown device, a GPU that is named twice
// and what is no list; what opening GPU 0 throws, where "cuda:*" finds none. Whether a GPU of that number is there
// shows when it is opened.
std::vector<std::string> parse_devices(std::string_view list, const DeviceSettings& settings = {});
// For options that may be such a list: the list, and `device` becomes its first; none where `device` is one name. Of
// several, those whose memory has no room even to open them are left out, with a warning that names each; where that
// are all, the first one's DeviceFull is thrown.
std::vector<std::string> take_devices(std::string& device, const DeviceSettings& settings = {});
// The cores of the host that are beside the device (base/numa.h); none where the system does not tell.
std::vector<int> cores_beside(const Device& device);
// Whether a fault has taken the device from this process for good. Never for those that work on the host's memory.
bool is_lost(const Device& device) noexcept;

}  // namespace temper
