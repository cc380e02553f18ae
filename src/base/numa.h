// SPDX-License-Identifier: Apache-2.0
// Which cores of the machine are near a device on its PCI bus, and threads that stay on them: what they touch first
// lies in the memory beside them. Linux tells it in files; where it does not, nothing is known and nothing changes.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace temper {

// The NUMA node of the device at "0000:3b:00.0"; -1 where the system does not tell. `sys`: where its files are.
int numa_node_of_pci(std::string_view bus_id, const std::string& sys = "/sys");
// The numbers of the node's cores; none for node -1, and where the system does not tell.
std::vector<int> cores_of_node(int node, const std::string& sys = "/sys");
// "0-3,8" -> 0 1 2 3 8; none for anything else.
std::vector<int> parse_core_list(std::string_view text);
// From now on the calling thread, and those that it starts, run on these cores alone, as far as they may now. Returns
// false, and changes nothing, where that leaves none.
bool stay_on(const std::vector<int>& cores);

}  // namespace temper
