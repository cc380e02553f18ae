// SPDX-License-Identifier: Apache-2.0
// Imports Max, Min, Sum and Mean of any number of inputs, and Clip.
#include "onnx/node.h"

namespace temper {

namespace {

void variadic(OnnxNode& node, Scalar op, bool mean = false) {
  node.ignore_attribute("consumed_inputs");  // a memory hint of opset 1
  if (node.input_count() == 0) node.bad("no inputs");
  std::vector<ValueId> inputs;
  std::vector<DType> dtypes;
  for (size_t i = 0; i < node.input_count(); ++i) {
    inputs.push_back(node.input(i));
    dtypes.push_back(node.type(i).dtype);
  }
  if (inputs.size() > 1000) node.refuse(inputs.size(), " inputs; the limit is 1000");
  ProgramBuilder b(dtypes);
  int result = 0;
  for (size_t i = 1; i < inputs.size(); ++i) result = b.op(op, result, int(i));
  if (mean) result = b.op(Scalar::div, result, b.constant(dtypes[0], double(inputs.size())));
  node.set_output(0, inputs.size() == 1 ? inputs[0] : node.program(b.result(result), inputs));
}

}  // namespace

void import_Max(OnnxNode& node) { variadic(node, Scalar::max); }
void import_Min(OnnxNode& node) { variadic(node, Scalar::min); }
void import_Sum(OnnxNode& node) { variadic(node, Scalar::add); }
void import_Mean(OnnxNode& node) { variadic(node, Scalar::add, true); }

// min(max(x, low), high): where low > high, high wins.
void import_Clip(OnnxNode& node) {
  node.ignore_attribute("consumed_inputs");
  const DType dtype = node.type(0).dtype;
  std::vector<ValueId> inputs{node.input(0)};
  if (node.opset() < 11) {
    ProgramBuilder b({dtype});
    int result = 0;
    if (node.has_attribute("min"))
      result = b.op(Scalar::max, result, b.constant(dtype, node.float_attribute("min", 0)));
    if (node.has_attribute("max"))
      result = b.op(Scalar::min, result, b.constant(dtype, node.float_attribute("max", 0)));
    node.set_output(0, node.program(b.result(result), inputs));
    return;
  }
  std::vector<DType> dtypes{dtype};
  for (size_t i = 1; i < 3; ++i) {
    if (!node.has(i)) continue;
    if (node.type(i).rank() > 1 || (node.type(i).rank() == 1 && node.type(i).shape[0] != Dim(1)))
      node.bad("the limit ", node.type(i), " is no scalar");
    inputs.push_back(node.reshape(node.input(i), {}));
    dtypes.push_back(node.type(i).dtype);
  }
  ProgramBuilder b(dtypes);
  int result = 0;
  if (node.has(1)) result = b.op(Scalar::max, result, 1);
  if (node.has(2)) result = b.op(Scalar::min, result, int(inputs.size()) - 1);
  node.set_output(0, inputs.size() == 1 ? inputs[0] : node.program(b.result(result), inputs));
}

}  // namespace temper
