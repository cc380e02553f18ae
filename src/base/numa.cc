// SPDX-License-Identifier: Apache-2.0
#include "base/numa.h"

#include <sched.h>

#include <algorithm>
#include <cctype>
#include <fstream>

#include "base/concat.h"
#include "base/parse.h"

namespace temper {

static std::string line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

int numa_node_of_pci(std::string_view bus_id, const std::string& sys) {
  std::string name(bus_id);  // the driver of a GPU may write it in capitals
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  if (name.empty() || name.find('/') != name.npos) return -1;
  return parse_number<int>(line_of(concat(sys, "/bus/pci/devices/", name, "/numa_node"))).value_or(-1);
}

std::vector<int> parse_core_list(std::string_view text) {
  std::vector<int> cores;
  while (!text.empty()) {
    const auto first = parse_leading<int>(text);
    if (!first || first->value < 0) return {};
    auto last = first;
    if (last->rest.starts_with('-')) last = parse_leading<int>(last->rest.substr(1));
    if (!last || last->value < first->value || last->value >= CPU_SETSIZE) return {};
    for (int core = first->value; core <= last->value; ++core) cores.push_back(core);
    text = last->rest;
    if (text.empty()) break;
    if (!text.starts_with(',') || text.size() == 1) return {};
    text.remove_prefix(1);
  }
  return cores;
}

std::vector<int> cores_of_node(int node, const std::string& sys) {
  if (node < 0) return {};
  return parse_core_list(line_of(concat(sys, "/devices/system/node/node", node, "/cpulist")));
}

bool stay_on(const std::vector<int>& cores) {
  cpu_set_t may, wanted;
  CPU_ZERO(&may);
  CPU_ZERO(&wanted);
  if (sched_getaffinity(0, sizeof may, &may) != 0) return false;
  for (int core : cores)
    if (core < CPU_SETSIZE && CPU_ISSET(core, &may)) CPU_SET(core, &wanted);
  return CPU_COUNT(&wanted) > 0 && sched_setaffinity(0, sizeof wanted, &wanted) == 0;
}

}  // namespace temper
