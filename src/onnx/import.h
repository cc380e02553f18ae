// SPDX-License-Identifier: Apache-2.0
// Imports an ONNX model as a Graph.
#pragma once
#include <map>
#include <string>

#include "graph/graph.h"
#include "onnx/limits.h"

namespace temper {

struct OnnxModel;  // onnx/read.h

struct ImportOptions {
  // Concrete shapes for inputs, by name. Inputs without one keep the symbols of the model.
  std::map<std::string, Dims> shapes;
  ModelLimits limits;
  // Shapes that inputs will have, by name. A name that the model gives to dimensions which are not equal in these
  // stands for each by itself.
  std::map<std::string, Dims> expected;
};

struct ImportedModel {
  Graph graph;
  std::string sha256;
  std::string
      source_sha256;     // of the model that it was derived from, as onnx/write.h records it; its own where nothing is
  std::string producer;  // "pytorch 2.15.0", as the file says
  std::vector<std::string> notes;  // what the user should know ("input 'x' has no shape for axis 0: named x_0")
  std::map<std::string, std::string> metadata;  // as the file has it
  std::vector<std::string> files;               // that were read: the model's, and those of its external data
  bool needs_shapes = false;                    // it could only be read for the shapes that were given
};

// The parts of a model that Temper refuses.
struct Refused {
  std::string node, op;  // of an input or a stored tensor: its name, and "input" or "initializer"
  std::string reason;
};
struct Refusals {
  std::vector<Refused> refused;  // in the file's order
  int64_t not_looked_at = 0;     // nodes that need what one of these would have computed, of a type that nobody states
  std::vector<int64_t> nodes;    // of the model itself, by their place in the file: refused, or not looked at
};

// Throws Error{bad_file} for a broken model and Error{unsupported} for what is not implemented exactly; the message
// names the node, its op and what to do.
ImportedModel import_onnx(const std::string& path, const ImportOptions& options = {});
ImportedModel import_onnx_bytes(std::string_view bytes, const std::string& folder, const ImportOptions& options = {});
ImportedModel import_onnx(OnnxModel model, const ImportOptions& options);  // of a file that was read already
// Everything that is not supported, where import_onnx ends with the first. What follows a refused node is looked at
// with the types that the file states of its outputs. Throws Error{bad_file} as import_onnx does.
Refusals refusals_of(const OnnxModel& model, const ImportOptions& options);

// Adds the nodes of a body in the text form of ONNX (onnx/defs/parser.h), "(a, b) => (y) { y = Add(a, b) }" with ops of
// opset 22, to a graph, for these inputs, one of which without a value is absent; returns its outputs. The nodes are
// named after `name`. Throws as import_onnx does; the graph may then have nodes that nothing uses.
std::vector<ValueId> add_onnx(Graph& graph, const std::string& text, const std::vector<ValueId>& inputs,
                              const std::string& name);

}  // namespace temper
