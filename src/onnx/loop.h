// SPDX-License-Identifier: Apache-2.0
// Loops, for every op that is one.
#pragma once
#include <functional>

#include "onnx/node.h"

namespace temper {

// Takes iteration, condition and carried values; gives condition, next carried values and scans.
using LoopBody = std::function<std::vector<ValueId>(ValueId iteration, ValueId condition, std::vector<ValueId>)>;

// The last carried values, then the stacked scans. The body is imported anew until the types of the carried values are
// those that it gives: a dimension that an iteration changes is unknown from then on. `trip` and `condition` may be
// absent. `joined`: which scans are joined along their first axis instead, asked once the body is imported.
std::vector<ValueId> add_loop(OnnxNode& node, ValueId trip, ValueId condition, const std::vector<ValueId>& initial,
                              const LoopBody& body, const std::vector<int64_t>* joined = nullptr);

}  // namespace temper
