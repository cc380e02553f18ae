// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "backends/tactic.h"

namespace temper {

struct Backend {
  std::string_view name;
  Device (*device)();                                // describes this machine; throws Error{unsupported} where it has none
  std::span<const Tactic* const> (*tactics)();       // in the order used when nothing may be measured
  // A kernel that copies between two layouts of one tensor.
  std::unique_ptr<Kernel> (*reorder)(const TensorType& type, Layout from, Layout to, int threads);
};

// THE backend list. Throws Error{usage} for an unknown name.
const Backend& find_backend(std::string_view name);
std::span<const Backend* const> all_backends();
// By full name ("cpu.conv.onednn"), in any backend; null when there is none (a plan of another version).
const Tactic* find_tactic(std::string_view name);

// The key of a measured time: everything that the time depends on, as text. The part up to the last " | " is the problem
// on its device, the rest the candidate. `chains`: copies that run side by side.
std::string timing_group(const Device& device, const Problem& problem, int chains);
std::string timing_key(const std::string& group, const Tactic& tactic, const Config& config);

}  // namespace temper
