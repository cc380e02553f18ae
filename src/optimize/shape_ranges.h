// SPDX-License-Identifier: Apache-2.0
// The shapes that an engine takes, by input, as a build is told them.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "plan/info.h"

namespace temper {

// Fills in ranges for inputs without one. A symbolic first axis alone means what `buckets` reach from and to, tuned for
// the largest, and 1 without any; both become a note. Any other symbol is an error that says what to add, for every
// such input. The name "" is that of the only input. Throws Error{usage} for ranges that do not fit the input, for
// names that are none, and for buckets where no input has more than one batch.
std::map<std::string, ShapeRange> complete_shapes(const Graph& graph, std::map<std::string, ShapeRange> shapes,
                                                  const std::vector<int64_t>& buckets, std::vector<std::string>& notes);

// As --shapes has it: "1x128", or "1x1:1x64:1x128".
std::string text_of(const ShapeRange& range);

// The ranges that hold those of every profile; the optimum is the first one's.
std::map<std::string, ShapeRange> around(const std::vector<std::map<std::string, ShapeRange>>& profiles);

}  // namespace temper
