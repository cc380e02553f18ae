// SPDX-License-Identifier: Apache-2.0
// Turns an optimised f32 graph into one in the precision that was asked for.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "optimize/build_engine.h"
#include "passes/lower_precision.h"
#include "tune/cache.h"

namespace temper {

// The types that a precision asks for. "int8+fp16": what is quantized in INT8, everything else in f16.
struct PrecisionParts {
  std::optional<DType> bytes;  // i8; f8e4m3fn, of matrix products alone
  bool tf32 = false;
  std::optional<DType> half;  // f16, bf16
};
// The type that a layer asked for in `dtype` computes in: 16 bits that the precision has not are f32, as those of a
// device that does not compute in them.
DType dtype_in(const std::string& precision, DType dtype);
// "int8" or "fp8", of PrecisionParts::bytes.
std::string word_of(DType bytes);
// Nothing for what is no precision.
std::optional<PrecisionParts> parts_of(const std::string& precision);
// Not a precision, but the request for the one whose plan is the fastest of those that the device has.
constexpr const char* kBestPrecision = "best";
// All that the device computes in, the widest first.
std::vector<std::string> precisions_of_device(const std::string& device);

// Does it quantize? False for what is no precision.
bool quantizes(const std::string& precision);
// Does it, or fp16, which learns from ranges what it does not hold?
bool needs_ranges(const std::string& precision);

// What a precision takes of the layers kept for all of a list of precisions: where nothing is quantized the layers in
// f32 alone, and of fp32 none.
PlacementOptions taken_by(const std::string& precision, const PlacementOptions& all);

// Refuses, before anything is built, a precision that the device does not compute in and flags that do not fit it.
void check_precision(const BuildOptions& options);

// Why the device does not compute in that precision, and what there is instead; empty where it does. Throws
// Error{unsupported} for what is no precision (`best` is none).
std::string lacks_precision(const std::string& device, const std::string& precision);

// Has the device instructions for bf16? Without them it is refused.
bool computes_bf16(const std::string& device);
// Has it products of f8e4m3fn? GPUs of compute capability 8.9 and later do.
bool multiplies_float8(const std::string& device);
// The warning for a CPU without them; a refusal goes on with what there is instead.
std::string_view why_no_bf16();

// An optimised f32 graph in a precision, for trials: by these ranges (fp32, tf32 and bf16 need none),
// which also say what fp16 does not hold, and with the nodes kept that the placement names. Throws Error{usage} where
// one of them is no product of the graph.
Graph in_precision(Graph graph, const std::string& precision, const Ranges& ranges, const PlacementOptions& placement,
                   const std::string& device, const PassOptions& passes);

// The quantize and dequantize nodes that int8 and fp8 put into an optimised f32 graph, before anything is folded: what
// a Q/DQ model holds.
Placement placement_of(Graph graph, const Ranges& ranges, const PlacementOptions& options, const PassOptions& passes);

// The convolutions and products of an optimised f32 graph that are in 8 bits by the options, each with the names of
// the values that it reads quantized.
std::map<std::string, std::vector<std::string>> layers_in_bytes(const Graph& graph, const BuildOptions& options);

// With int8, first the quantize pipeline by the ranges of the options; writes options.qdq. With 16 bits or tf32, then
// the precision pipeline, where fp16 leaves in fp32 what it does not hold, as the ranges or, without them, a run on
// noise say, which the cache keeps. Fills in what `info` says of it. Throws Error{usage} for ranges of another model.
void apply_precision(Graph& graph, EngineInfo& info, const BuildOptions& options, TimingCache& cache);

}  // namespace temper
