// SPDX-License-Identifier: Apache-2.0
#include "onnx/node.h"

namespace temper {

void import_Identity(OnnxNode& node) { node.set_output(0, node.input(0)); }
void import_Relu(OnnxNode& node) { node.set_output(0, node.pointwise(Scalar::relu, {node.input(0)})); }
void import_Add(OnnxNode& node) { node.set_output(0, node.pointwise(Scalar::add, {node.input(0), node.input(1)})); }

}  // namespace temper
