// SPDX-License-Identifier: Apache-2.0
// Decides whether the times of loaded engines may be compared.
#pragma once
#include <string>
#include <vector>

#include "runtime/engine.h"

namespace temper {

// The reasons why timing b beside a would not compare plans: another device, number of threads or model ("threads: 1
// and 2"). A model that was derived from the other's, as its file says, is no other one.
std::vector<std::string> engine_differences(const Engine& a, const Engine& b);

// Throws Error{unsupported} where they take different inputs.
void check_same_inputs(const Engine& a, const Engine& b);

}  // namespace temper
