// SPDX-License-Identifier: Apache-2.0
// The layouts in which an op that only moves elements moves none: a reshape or bit cast in the plain layouts, and a
// transpose where the layouts on its two sides put the same bytes in the same order. Tokens [N,HW,C] in the plain
// layout, for instance, are the image [N,C,HW] in channels_last.
#pragma once
#include <vector>

#include "backends/tactic.h"
#include "graph/graph.h"

namespace temper {

// As configurations without a tactic; none where the op is neither. Reshapes with axes in common are views in
// channels_last, too: [N,C,H,W] and [N,C,HW].
std::vector<Config> view_configs(const Problem& problem);

// Whether a node is always a view: a reshape whose shape is known, or a bit cast.
bool is_always_view(const Node& node);

}  // namespace temper
