// SPDX-License-Identifier: Apache-2.0
// Models that read past keys and values become models that keep them in caches (passes/keep_caches.h), tuned for one
// token and for pieces of prompts.
#pragma once
#include "optimize/build_engine.h"

namespace temper {

// The model with caches of options.cache positions, in the 16 bits of the precision or in f32. options.shapes may say
// those of input_ids, [batch,tokens]; they become profiles: of the tokens that are read at once, 1 to the most, with
// plans for 1, 8, 32, 128 and 512 of them, or for 1, the optimum and the most where a range was given. Throws
// Error{usage} for shapes of other inputs, and Error{unsupported} as keep_caches does, and for int8.
Graph take_caches(const Graph& graph, EngineInfo& info, BuildOptions& options);

}  // namespace temper
