// SPDX-License-Identifier: Apache-2.0
// Imports BatchNormalization at inference: x * scale + shift per channel, with scale = gamma / sqrt(variance + epsilon)
// and shift = beta - mean * scale.
#include <cmath>

#include "onnx/broadcast.h"

namespace temper {

void import_BatchNormalization(OnnxNode& node) {
  node.ignore_attribute("momentum");  // of training
  node.ignore_attribute("consumed_inputs");
  if (node.opset() < 7 && node.int_attribute("is_test", 0) == 0)
    node.refuse(
        "BatchNormalization in training mode (is_test = 0); export the model for inference, after model.eval()");
  if (node.int_attribute("training_mode", 0) != 0)
    node.refuse("BatchNormalization in training mode; export the model for inference, after model.eval()");
  if (node.int_attribute("spatial", 1) == 0) node.unsupported("BatchNormalization with spatial = 0");
  const double epsilon = node.float_attribute("epsilon", 1e-5f);
  const TensorType x = node.type(0);
  if (x.rank() < 1) node.bad("the input is ", x);
  const int64_t channel_axis = x.rank() > 1 ? 1 : 0;
  auto per_channel = [&](ValueId value) { return along_axis(node, value, channel_axis, x.rank()); };
  if (node.constant(1) && node.constant(2) && node.constant(3) && node.constant(4)) {
    const auto gamma = node.constant(1)->to_doubles(), beta = node.constant(2)->to_doubles();
    const auto mean = node.constant(3)->to_doubles(), variance = node.constant(4)->to_doubles();
    const size_t n = gamma.size();
    if (beta.size() != n || mean.size() != n || variance.size() != n) node.bad("the parameters differ in size");
    std::vector<double> scale(n), shift(n);
    for (size_t i = 0; i < n; ++i) {
      scale[i] = gamma[i] / std::sqrt(variance[i] + epsilon);
      shift[i] = beta[i] - mean[i] * scale[i];
    }
    auto stored = [&](const std::vector<double>& values) {
      return per_channel(node.constant(Tensor::of<double>({int64_t(n)}, values).converted(x.dtype)));
    };
    const ValueId scaled = node.pointwise(Scalar::mul, {node.input(0), stored(scale)});
    node.set_output(0, node.pointwise(Scalar::add, {scaled, stored(shift)}));
    return;
  }
  // Parameters that only the data tells. Statistics may be wider than x.
  const DType dtype = node.type(3).dtype == DType::f64 || x.dtype == DType::f64 ? DType::f64 : DType::f32;
  std::vector<ValueId> inputs{node.input(0)};
  std::vector<DType> dtypes{x.dtype};
  for (size_t i = 1; i < 5; ++i) {
    inputs.push_back(per_channel(node.input(i)));
    dtypes.push_back(node.type(i).dtype);
  }
  ProgramBuilder b(dtypes);
  const int divisor = b.op(Scalar::sqrt, b.op(Scalar::add, b.cast(4, dtype), b.constant(dtype, epsilon)));
  const int centered = b.op(Scalar::sub, b.cast(0, dtype), b.cast(3, dtype));
  const int scaled = b.op(Scalar::mul, b.op(Scalar::div, centered, divisor), b.cast(1, dtype));
  node.set_output(0, node.program(b.result(b.cast(b.op(Scalar::add, scaled, b.cast(2, dtype)), x.dtype)), inputs));
}

}  // namespace temper
