// SPDX-License-Identifier: Apache-2.0
// Counts what a model will take before anything is made of it: a file of some kilobytes may say gigabytes.
#pragma once
#include <cstdint>
#include <string_view>

#include "base/build_time.h"
#include "graph/ops/loop.h"

namespace onnx {
class ModelProto;
}

namespace temper {

// Limits of what a model may ask for. Each is named in the error that it causes, with the flag that sets another.
struct ModelLimits {
  int64_t memory = -1;        // bytes: its messages, folded constants, activations; -1: by its size (onnx/read.h,
                              // passes/pass.h, optimize/memory.h)
  int64_t nodes = 1'000'000;  // with each function in the place of its calls, and bodies of loops taken in turn
  int64_t depth = 32;         // of functions and subgraphs inside one another
  int64_t iterations = ops::kMostIterations;  // of a loop, each time that it runs
  BuildTime time;                             // of the whole build, or of an import alone
};
// The largest `depth`: what is nested is followed by functions that call themselves.
constexpr int64_t kMostDepth = 256;
// Throws Error{usage} where a count is below 1, that of the depth is above kMostDepth, or the time is not above 0.
void check_limits(const ModelLimits& limits);

// Bytes of protobuf's objects for the serialized ModelProto, at least. A few nanoseconds a field, and no memory. Stops
// where the bytes are damaged or nested too deeply: the parser refuses them.
int64_t message_memory(std::string_view model, int64_t depth = ModelLimits().depth);

// Nodes and bytes of the model with each function in the place of its calls. Functions are looked at once, however
// often they are called. Numbers that would overflow stay at the largest. Throws Error{bad_file} where functions and
// subgraphs are nested deeper than `depth`, as they are where a function calls itself.
struct ExpandedSize {
  int64_t nodes = 0, bytes = 0;
};
ExpandedSize expanded_size(const onnx::ModelProto& model, int64_t depth = ModelLimits().depth);
// The error of what is nested deeper than `most`, and of more nodes than `most`; `what` names them.
[[noreturn]] void refuse_depth(int64_t most);
[[noreturn]] void refuse_nodes(std::string_view what, int64_t most);

// How deep messages are nested in a file whose subgraphs are: a graph is a node's attribute.
constexpr int message_depth(int64_t depth) { return int(4 * depth); }

}  // namespace temper
