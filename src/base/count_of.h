// SPDX-License-Identifier: Apache-2.0
// Counts things in words: "1 step", "3 steps".
#pragma once
#include <concepts>
#include <string>
#include <string_view>

#include "base/concat.h"

namespace temper {

// `one` takes an s for any number but one.
std::string count_of(std::integral auto n, std::string_view one) { return concat(n, ' ', one, n == 1 ? "" : "s"); }

}  // namespace temper
