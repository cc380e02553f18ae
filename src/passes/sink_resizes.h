// SPDX-License-Identifier: Apache-2.0
// Moves resizes behind products, for backends whose products are fastest as convolutions (not Backend::by_rows).
#pragma once
#include "passes/pass.h"

namespace temper {

// Convolutions of one tap over joined channels, some of which were enlarged, run before those are enlarged.
bool sink_resizes(Graph& graph, const PassOptions& options);

}  // namespace temper
