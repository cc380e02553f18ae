// SPDX-License-Identifier: Apache-2.0
// cpu.string: the ops on strings, as their references compute them. What takes their time are the strings.
#include "backends/cpu/cpu.h"

namespace temper {

extern const Tactic reference_tactic;

namespace {

Support supports(const Problem& problem, const Device&) {
  return kind_of(problem.op) == OpKind::string ? supported() : refused("it works on strings only");
}
std::vector<Config> configs(const Problem& problem, const Device& device) {
  return reference_tactic.configs(problem, device);
}
std::unique_ptr<Kernel> load(const Problem& problem, const Config& config, const PackedView& packed,
                             const Device& device) {
  return reference_tactic.load(problem, config, packed, device);
}

}  // namespace

extern const Tactic cpu_string;
const Tactic cpu_string{"cpu.string", 1, supports, configs, nullptr, load};

}  // namespace temper
