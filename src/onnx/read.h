// SPDX-License-Identifier: Apache-2.0
// A model file becomes a checked ModelProto. External data is opened only inside the model's own folder.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "onnx/tensor_proto.h"

namespace onnx {
class ModelProto;
}

namespace temper {

// Documented limits of a model file; each is named in the error that it causes.
constexpr int64_t kMaxModelBytes = (int64_t(1) << 31) - 1;  // protobuf's own limit
constexpr int kMaxNodes = 1'000'000;
constexpr int kMaxGraphDepth = 32;                          // subgraphs and functions inside one another

struct OnnxModel {
  std::shared_ptr<onnx::ModelProto> proto;
  // Tensors with data_location EXTERNAL, by address of their TensorProto.
  std::map<const onnx::TensorProto*, ExternalBytes> external;
  std::string sha256;  // of the model file; external files are hashed into it, in order of appearance
  std::string path;
  std::vector<std::string> files;  // that were read: the model's, then those of external data
};

// Reads, limits and checks (ONNX's own checker) a model. Throws Error{bad_file} or Error{unsupported}.
OnnxModel read_onnx(const std::string& path);
OnnxModel parse_onnx(std::string_view bytes, const std::string& folder);

}  // namespace temper
