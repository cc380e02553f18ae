// SPDX-License-Identifier: Apache-2.0
// Counts what a model will take before anything is made of it: a file of some kilobytes may say gigabytes.
#pragma once
#include <cstdint>
#include <string_view>

namespace onnx {
class ModelProto;
}

namespace temper {

// Bytes of protobuf's objects for the serialized ModelProto, at least. A few nanoseconds a field, and no memory. Stops
// where the bytes are damaged: the parser refuses them.
int64_t message_memory(std::string_view model);

// Nodes and bytes of the model with each function in the place of its calls. Functions are looked at once, however
// often they are called. Numbers that would overflow stay at the largest. Throws Error{bad_file} where functions and
// subgraphs are nested deeper than kMaxGraphDepth, as they are where a function calls itself.
struct ExpandedSize {
  int64_t nodes = 0, bytes = 0;
};
ExpandedSize expanded_size(const onnx::ModelProto& model);

}  // namespace temper
