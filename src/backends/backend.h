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

}  // namespace temper
