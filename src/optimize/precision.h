// SPDX-License-Identifier: Apache-2.0
// From an optimised f32 graph to one in the precision that was asked for.
#pragma once
#include "optimize/build_engine.h"
#include "passes/lower_precision.h"
#include "tune/cache.h"

namespace temper {

// Refuses, before anything is built, a precision that the device does not compute in and flags that do not fit it.
void check_precision(const BuildOptions& options);

// Why the device does not compute in that precision, and what there is instead; empty where it does. Throws
// Error{unsupported} for what is no precision.
std::string lacks_precision(const std::string& device, const std::string& precision);

// Has the device instructions for bf16? Without them it is refused.
bool computes_bf16(const std::string& device);

// int8: the quantize pipeline, by ranges that came from `file`. What is returned has the graph as placed.
Placement quantize(Graph& graph, const Ranges& ranges, const std::string& file, const PlacementOptions& options,
                   const PassOptions& passes);

// bf16 or fp16 (of which ranges say what it does not hold): lower_precision as the device wants it, with these products
// in fp32. Throws Error{usage} where one of them is no product of the graph.
Lowering lowered_to(const Graph& graph, const std::string& precision, const Ranges& ranges, const KeptNodes& keep,
                    const std::string& device);

// int8: the quantize pipeline by the ranges of the options; writes options.qdq. bf16, fp16, tf32: the precision
// pipeline, where fp16 leaves in fp32 what it does not hold, as the ranges or, without them, a run on noise say, which
// the cache keeps. Fills in what `info` says of it. Throws Error{usage} for ranges of another model.
void apply_precision(Graph& graph, EngineInfo& info, const BuildOptions& options, TimingCache& cache);

}  // namespace temper
