// SPDX-License-Identifier: Apache-2.0
// A model of one node, imported and run by the reference.
#pragma once
#include <functional>
#include <set>

#include "onnx/import.h"
#include "onnx/tensor_proto.h"

namespace onnx {
class NodeProto;
}

namespace temper {

struct NodeCase {
  std::string op;
  int64_t opset = 22;
  std::vector<Tensor> inputs;  // a default Tensor is an absent optional input
  std::function<void(onnx::NodeProto&)> attributes = {};
  size_t outputs = 1;
  std::set<size_t> constants = {};  // these inputs are initializers
};

void set_attribute(onnx::NodeProto& node, const std::string& name, int64_t value);
void set_attribute(onnx::NodeProto& node, const std::string& name, float value);
void set_attribute(onnx::NodeProto& node, const std::string& name, const char* value);
void set_attribute(onnx::NodeProto& node, const std::string& name, const std::vector<int64_t>& values);

Graph import_node(const NodeCase& test);

std::vector<Tensor> run_node(const NodeCase& test);

// The kind of the Error that importing ends in; nullopt when it succeeds.
std::optional<ErrorKind> import_error(const NodeCase& test);

}  // namespace temper
