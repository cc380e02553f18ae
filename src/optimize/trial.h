// SPDX-License-Identifier: Apache-2.0
// Engines that are built to learn what they answer, not how quick they are: nothing is measured, no slices are
// searched.
#pragma once
#include <memory>

#include "optimize/build_engine.h"

namespace temper {

// `graph` is optimised already (optimised_graph); no pass runs again, but transposed convolutions become convolutions,
// unless the options disable that. Shapes, device and threads are those of the options.
std::shared_ptr<const Engine> trial_engine(Graph graph, BuildOptions options);

}  // namespace temper
