// SPDX-License-Identifier: Apache-2.0
// Imports Dropout: at inference the input, and a mask that keeps everything. In training mode each element is dropped
// with the probability `ratio`, and the others are made larger, so that the mean stays.
#include "onnx/node.h"
#include "onnx/random_numbers.h"

namespace temper {

namespace {

void train_dropout(OnnxNode& node) {
  const DType dtype = node.type(0).dtype, wide = dtype == DType::f64 ? DType::f64 : DType::f32;
  const ValueId u = uniform_like(node, node.input(0), wide, seed_of(node));
  const ValueId ratio = node.has(1) ? node.cast(node.input(1), wide) : node.scalar(wide, 0.5);
  ProgramBuilder keep({wide, wide, DType::boolean});
  const int dropped = keep.op(Scalar::less, 0, 1);
  const ValueId mask = node.program(
      keep.result(keep.op(Scalar::logical_or, keep.op(Scalar::logical_not, dropped), keep.op(Scalar::logical_not, 2))),
      {u, ratio, node.input(2)});
  ProgramBuilder b({dtype, wide, DType::boolean, DType::boolean});
  const int larger = b.op(Scalar::div, b.cast(0, wide), b.op(Scalar::sub, b.constant(wide, 1), 1));
  const int kept = b.op(Scalar::where, 3, b.op(Scalar::where, 2, b.cast(larger, dtype), b.constant(dtype, 0)), 0);
  node.set_output(0, node.program(b.result(kept), {node.input(0), ratio, mask, node.input(2)}));
  node.set_output(1, mask);
}

}  // namespace

void import_Dropout(OnnxNode& node) {
  node.ignore_attribute("consumed_inputs");
  node.ignore_attribute("seed");
  node.ignore_attribute("ratio");
  if (node.opset() < 7 && node.int_attribute("is_test", 0) == 0)
    node.refuse("Dropout in training mode (is_test = 0); export the model for inference, after model.eval()");
  if (node.has(2)) {
    const Tensor* training = node.constant(2);
    if (training && training->count() != 1) node.bad("training_mode has ", training->count(), " elements");
    if (!training || training->to_doubles()[0] != 0) return train_dropout(node);
  }
  node.set_output(0, node.input(0));
  if (!node.wants_output(1)) return;
  ProgramBuilder b({node.type(0).dtype});
  node.set_output(1, node.program(b.result(b.constant(node.opset() < 10 ? node.type(0).dtype : DType::boolean, 1)),
                                  {node.input(0)}));
}

}  // namespace temper
