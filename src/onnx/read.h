// SPDX-License-Identifier: Apache-2.0
// Reads a model file as a checked ModelProto. External data is opened only inside the model's own folder.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "onnx/limits.h"
#include "onnx/parts.h"
#include "onnx/tensor_proto.h"

namespace onnx {
class ModelProto;
}

namespace temper {

// Limits of a model file beside ModelLimits.
constexpr int64_t kMaxModelBytes = (int64_t(1) << 31) - 1;  // protobuf's own limit
// kMaxModelBytes holds for the model with each function in the place of its calls, too.
// Memory that its messages may take once read, unless a limit is given: this many times the file, and so much beside.
constexpr int64_t kMemoryPerByte = 16, kMemoryBeside = int64_t(256) << 20;

struct OnnxModel {
  std::shared_ptr<onnx::ModelProto> proto;
  std::vector<NodePart> parts;  // of its nodes: an import lets go of what it has done
  // Tensors with data_location EXTERNAL, by address of their TensorProto.
  std::map<const onnx::TensorProto*, ExternalBytes> external;
  std::string sha256;  // of the model file; external files are hashed into it, in order of appearance
  std::string path;
  std::vector<std::string> files;  // that were read: the model's, then those of external data
};

// Reads, limits and checks (ONNX's own checker) a model. Throws Error{bad_file} or Error{unsupported}.
OnnxModel read_onnx(const std::string& path, const ModelLimits& limits = {});
OnnxModel parse_onnx(std::string_view bytes, const std::string& folder, const ModelLimits& limits = {});

}  // namespace temper
