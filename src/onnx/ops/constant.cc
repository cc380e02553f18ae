// SPDX-License-Identifier: Apache-2.0
// Imports Constant and ConstantOfShape.
#include "graph/ops/broadcast.h"
#include "graph/strings.h"
#include "onnx/node.h"

namespace temper {

void import_Constant(OnnxNode& node) {
  if (auto tensor = node.tensor_attribute("value")) return node.set_output(0, node.constant(std::move(*tensor)));
  if (node.has_attribute("value_int"))
    return node.set_output(0, node.constant(Tensor::of<int64_t>({}, {node.int_attribute("value_int")})));
  if (node.has_attribute("value_ints")) return node.set_output(0, node.ints(node.ints_attribute("value_ints", {})));
  if (node.has_attribute("value_float"))
    return node.set_output(0, node.scalar(DType::f32, node.float_attribute("value_float", 0)));
  if (node.has_attribute("value_floats")) {
    const auto values = node.floats_attribute("value_floats", {});
    return node.set_output(0,
                           node.constant(Tensor::of<double>({int64_t(values.size())}, values).converted(DType::f32)));
  }
  if (node.has_attribute("value_string")) {
    const std::string value = node.string_attribute("value_string", "");
    return node.set_output(0, node.constant(tensor_of_strings({}, {&value, 1})));
  }
  if (node.has_attribute("value_strings")) {
    const auto values = node.strings_attribute("value_strings", {});
    return node.set_output(0, node.constant(tensor_of_strings({int64_t(values.size())}, values)));
  }
  if (node.has_attribute("sparse_value")) node.unsupported("a constant given by 'sparse_value'");
  node.bad("no value is given");
}

void import_ConstantOfShape(OnnxNode& node) {
  Tensor value = node.tensor_attribute("value").value_or(Tensor(DType::f32, {1}));
  if (value.count() != 1) node.bad("the value has ", value.count(), " elements");
  node.set_output(0, node.add(ops::Broadcast{}, {node.constant(value.reshaped({})), node.input(0)}));
}

}  // namespace temper
