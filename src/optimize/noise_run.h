// SPDX-License-Identifier: Apache-2.0
// One run of a graph on noise, in fp32 on the CPU, to see how large its values become where nobody gave data.
#pragma once
#include <optional>

#include "optimize/build_engine.h"
#include "quantize/overflow.h"
#include "tune/cache.h"

namespace temper {

// By value of the optimised f32 graph (that are not constant); with least sizes of what is open on axis 0. Nothing,
// with the reason in `why_not`, where that takes too long or the graph does not run so. What was found is kept in the
// cache: only what is unfit for fp16 is in the answer then.
std::optional<Largest> largest_on_noise(const Graph& graph, const EngineInfo& info, const BuildOptions& options,
                                        TimingCache& cache, std::string& why_not);

}  // namespace temper
