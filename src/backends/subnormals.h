// SPDX-License-Identifier: Apache-2.0
// Which devices' plans take subnormal numbers for zero.
#pragma once
#include "backends/tactic.h"
#include "base/subnormals.h"

namespace temper {

// Kernels of such a device are launched under SubnormalsAsZero, in timings, too: a CPU takes a hundred cycles
// for an operation on a subnormal number. The reference is exact, and GPUs lose no time by them.
inline bool takes_subnormals_for_zero(const Device& device) { return device.backend == "cpu"; }

}  // namespace temper
