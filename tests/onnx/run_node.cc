// SPDX-License-Identifier: Apache-2.0
#include "run_node.h"

#include <onnx/onnx_pb.h>

namespace temper {

void set_attribute(onnx::NodeProto& node, const std::string& name, int64_t value) {
  auto* attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::INT);
  attribute->set_i(value);
}

void set_attribute(onnx::NodeProto& node, const std::string& name, float value) {
  auto* attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::FLOAT);
  attribute->set_f(value);
}

void set_attribute(onnx::NodeProto& node, const std::string& name, const char* value) {
  auto* attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::STRING);
  attribute->set_s(value);
}

void set_attribute(onnx::NodeProto& node, const std::string& name, const std::vector<int64_t>& values) {
  auto* attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::INTS);
  for (int64_t value : values) attribute->add_ints(value);
}

Graph import_node(const NodeCase& test) {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(test.opset);
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.set_name("one_node");
  onnx::NodeProto& node = *graph.add_node();
  node.set_op_type(test.op);
  for (size_t i = 0; i < test.inputs.size(); ++i) {
    const Tensor& tensor = test.inputs[i];
    const std::string name = tensor.defined() ? concat("in", i) : "";
    node.add_input(name);
    if (!tensor.defined()) continue;
    if (test.constants.count(i)) {
      auto* constant = graph.add_initializer();
      constant->set_name(name);
      constant->set_data_type(onnx_from_dtype(tensor.dtype()));
      for (int64_t dim : tensor.dims()) constant->add_dims(dim);
      constant->set_raw_data(tensor.raw().data(), tensor.raw().size());
      continue;
    }
    auto* input = graph.add_input();
    input->set_name(name);
    auto* type = input->mutable_type()->mutable_tensor_type();
    type->set_elem_type(onnx_from_dtype(tensor.dtype()));
    type->mutable_shape();
    for (int64_t dim : tensor.dims()) type->mutable_shape()->add_dim()->set_dim_value(dim);
  }
  for (size_t i = 0; i < test.outputs; ++i) {
    node.add_output(concat("out", i));
    auto* output = graph.add_output();
    output->set_name(concat("out", i));
    // The checker wants some type; import infers its own.
    output->mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
    output->mutable_type()->mutable_tensor_type()->mutable_shape();
  }
  if (test.attributes) test.attributes(node);
  if (!node.domain().empty()) {  // the opset is that of the domain
    model.mutable_opset_import(0)->set_version(22);
    auto* opset = model.add_opset_import();
    opset->set_domain(node.domain());
    opset->set_version(test.opset);
  }
  return import_onnx_bytes(model.SerializeAsString(), "").graph;
}

std::vector<Tensor> run_node(const NodeCase& test) {
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < test.inputs.size(); ++i)
    if (test.inputs[i].defined() && !test.constants.count(i)) inputs.push_back(test.inputs[i]);
  return run_reference(import_node(test), inputs);
}

std::optional<ErrorKind> import_error(const NodeCase& test) {
  try {
    import_node(test);
    return std::nullopt;
  } catch (const Error& error) { return error.kind(); }
}

}  // namespace temper
