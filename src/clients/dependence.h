// SPDX-License-Identifier: Apache-2.0
// A check that clients of the public C API share. It tells whether frames or requests may be joined to one batch, where
// the graph does not tell (temper_engine_samples_are_independent).
#pragma once
#include <string>
#include <vector>

#include "temper/temper.h"

namespace temper::clients {

// Runs two samples twice, the second time with another second one. Empty where the first then has the same bits,
// otherwise which output has not, or why it cannot be found out. `dims` of each input begin with 2 or more.
std::string dependence_of(const temper::Engine& engine, const std::vector<std::vector<int64_t>>& dims);

}  // namespace temper::clients
