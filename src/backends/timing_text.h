// SPDX-License-Identifier: Apache-2.0
// Makes the part of a problem's text that is in the key of its measured times (timing_group in backend.h). Numbers
// within programs are left out: the scales of int8 make each layer of a net a problem of its own, and none takes longer
// for them.
#pragma once
#include <string>
#include <string_view>

#include "backends/tactic.h"

namespace temper {

// A problem's text, or what it is part of, with "constant.f32[#]" in the place of "constant.f32[0.02]".
std::string without_numbers(std::string_view text);
// timing_group() with the numbers, from which the problem can be read again.
std::string exact_group(std::string_view fingerprint, const Problem& problem, int chains);

}  // namespace temper
