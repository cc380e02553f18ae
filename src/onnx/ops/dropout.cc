// SPDX-License-Identifier: Apache-2.0
// Imports Dropout at inference: the input, and a mask that keeps everything.
#include "onnx/node.h"

namespace temper {

void import_Dropout(OnnxNode& node) {
  node.ignore_attribute("consumed_inputs");
  node.ignore_attribute("seed");
  node.ignore_attribute("ratio");
  if (node.opset() < 7 && node.int_attribute("is_test", 0) == 0)
    node.refuse("Dropout in training mode (is_test = 0); export the model for inference, after model.eval()");
  if (node.has(2)) {
    const Tensor* training = node.constant(2);
    if (!training)
      node.refuse("Dropout whose training_mode is not a constant; export the model for inference, after model.eval()");
    if (training->to_doubles().at(0) != 0)
      node.refuse("Dropout in training mode; export the model for inference, after model.eval()");
  }
  node.set_output(0, node.input(0));
  if (!node.wants_output(1)) return;
  ProgramBuilder b({node.type(0).dtype});
  node.set_output(1, node.program(b.result(b.constant(node.opset() < 10 ? node.type(0).dtype : DType::boolean, 1)),
                                  {node.input(0)}));
}

}  // namespace temper
