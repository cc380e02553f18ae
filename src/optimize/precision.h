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

// After quantization was placed and the passes have run: the nodes that are kept in bf16 go there.
void lower_kept(Graph& graph, const PlacementOptions& placement, const PassOptions& passes);

// bf16 or fp16 (of which ranges say what it does not hold): lower_precision as the device wants it, with these products
// in fp32. Throws Error{usage} where one of them is no product of the graph.
Lowering lowered_to(const Graph& graph, const std::string& precision, const Ranges& ranges, const KeptNodes& keep,
                    const std::string& device);

// int8: places quantization by the ranges in options.calibration, writes options.qdq, and runs the passes again, which
// fold it. bf16, fp16: lower_precision, where fp16 leaves in fp32 what it does not hold, as the ranges or, without
// them, a run on noise say, which the cache keeps. Fills in what `info` says of it. Throws Error{usage} for ranges of
// another model.
void apply_precision(Graph& graph, EngineInfo& info, const BuildOptions& options, TimingCache& cache);

}  // namespace temper
