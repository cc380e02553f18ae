// SPDX-License-Identifier: Apache-2.0
// Finds values that fp16 is too narrow for: its largest number is 65504, and below 6e-5 it loses digits until, at 6e-8,
// nothing is left.
#pragma once
#include <map>
#include <string>

#include "graph/graph.h"
#include "quantize/ranges.h"

namespace temper {

// For each value, by name, the largest magnitude that was seen of it; infinity where it was not finite.
using Largest = std::map<std::string, double>;
Largest largest_of(const Ranges& ranges);

// Whether a value of which nothing larger than this was seen had better not be stored in fp16: beyond half of 65504
// (data that were not seen may be larger), or so small altogether that few digits are left.
bool is_unfit_for_f16(double largest);

// The values and products that fp16 does not hold, with reasons, as lower_precision takes them.
struct UnfitForF16 {
  std::map<std::string, std::string> values;  // f32 values that must not be stored in fp16
  std::map<std::string, std::string>
      products;  // convolutions and matrix products with a constant operand that does not fit
};
// Finds them in an optimised f32 graph. `where` says what was looked at, such as "in calibration".
UnfitForF16 unfit_for_f16(const Graph& graph, const Largest& seen, std::string_view where);

}  // namespace temper
