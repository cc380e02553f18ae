// SPDX-License-Identifier: Apache-2.0
// Summarises an ONNX file for people who meet the model for the first time, also one that Temper cannot run.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "onnx/import.h"

namespace temper {

struct ModelSummary {
  struct Port {
    std::string name, type;  // "f32[batch,3,224,224]"; "sequence" and the like for what is no tensor
  };
  std::string name;      // of the graph
  std::string producer;  // "pytorch 2.15.0", as the file says
  std::string sha256;
  int64_t ir_version = 0;
  std::map<std::string, int64_t> opsets;        // by domain, "ai.onnx" for ONNX's own
  std::map<std::string, std::string> metadata;  // as the file has it
  std::vector<Port> inputs, outputs;            // inputs without those that have a stored value
  int64_t nodes = 0;                            // with those of branches and of bodies of loops
  std::map<std::string, int64_t> ops;           // how many nodes of each, "com.microsoft.Gelu" outside of ONNX's own
  int64_t functions = 0;                        // that the model brings along
  int64_t parameters = 0;  // elements of all tensors that the file stores: initializers, and those of Constant nodes
  int64_t parameter_bytes = 0;
  std::map<std::string, int64_t> parameters_by_type;
  std::vector<std::string> files;      // that were read: the model's, then those of external data
  std::vector<Refused> refused;        // empty: Temper runs it
  int64_t not_looked_at = 0;           // nodes that need what one of the refused would have computed
  std::optional<ImportedModel> model;  // where nothing was refused
};

// Reads and imports a model. Throws what import_onnx throws, but for Error{unsupported} of nodes, inputs and stored
// tensors, each of which is listed instead.
ModelSummary summarise_onnx(const std::string& path, const ImportOptions& options = {});

}  // namespace temper
