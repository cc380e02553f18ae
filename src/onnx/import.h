// SPDX-License-Identifier: Apache-2.0
// Imports an ONNX model as a Graph.
#pragma once
#include <map>
#include <string>

#include "graph/graph.h"

namespace temper {

struct ImportOptions {
  // Concrete shapes for inputs, by name. Inputs without one keep the symbols of the model.
  std::map<std::string, Dims> shapes;
  int64_t memory_limit = -1;  // bytes that reading the file may take; -1: by its size (onnx/read.h)
};

struct ImportedModel {
  Graph graph;
  std::string sha256;
  std::string
      source_sha256;     // of the model that it was derived from, as onnx/write.h records it; its own where nothing is
  std::string producer;  // "pytorch 2.15.0", as the file says
  std::vector<std::string> notes;  // what the user should know ("input 'x' has no shape for axis 0: named x_0")
  std::vector<std::string> files;  // that were read: the model's, and those of its external data
};

// Throws Error{bad_file} for a broken model and Error{unsupported} for what is not implemented exactly; the message
// names the node, its op and what to do.
ImportedModel import_onnx(const std::string& path, const ImportOptions& options = {});
ImportedModel import_onnx_bytes(std::string_view bytes, const std::string& folder, const ImportOptions& options = {});

}  // namespace temper
