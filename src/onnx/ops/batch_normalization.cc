// SPDX-License-Identifier: Apache-2.0
// Imports BatchNormalization; at inference: x * scale + shift per channel, with scale = gamma / sqrt(variance +
// epsilon) and shift = beta - mean * scale.
#include <cmath>

#include "onnx/broadcast.h"

namespace temper {

namespace {

// The mean and variance are those of the batch, and the running ones move towards them.
void train_batch_normalization(OnnxNode& node) {
  const TensorType x = node.type(0);
  if (node.opset() < 14)
    node.refuse("BatchNormalization in training mode before opset 14; export the model with opset 14 or later");
  if (x.rank() < 2) node.unsupported("BatchNormalization in training mode on ", x);
  const DType running = node.type(3).dtype;
  const DType wide = running == DType::f64 || x.dtype == DType::f64 ? DType::f64 : DType::f32;
  std::string axes = "0";
  for (int64_t i = 2; i < x.rank(); ++i) axes += concat(", ", i);
  const double momentum = node.float_attribute("momentum", 0.9f);
  std::vector<ValueId> inputs{node.cast(node.input(0), wide)};
  for (size_t i = 1; i < 3; ++i) inputs.push_back(along_axis(node, node.cast(node.input(i), wide), 1, x.rank()));
  for (size_t i = 3; i < 5; ++i) inputs.push_back(node.cast(node.input(i), wide));
  for (double number : {node.float_attribute("epsilon", 1e-5f), momentum, 1 - momentum})
    inputs.push_back(node.scalar(wide, number));
  const auto outputs =
      node.body(concat(R"((x, scale, bias, old_mean, old_variance, epsilon, momentum, rest) => (y, mean, variance) {
    axes = Constant <value_ints = [)",
                       axes, R"(]> ()
    now = ReduceMean <keepdims = 1> (x, axes) centered = Sub(x, now) square = Mul(centered, centered)
    spread = ReduceMean <keepdims = 1> (square, axes) safe = Add(spread, epsilon) divisor = Sqrt(safe)
    unit = Div(centered, divisor) scaled = Mul(unit, scale) y = Add(scaled, bias)
    flat_mean = Squeeze(now, axes) flat_spread = Squeeze(spread, axes)
    kept_mean = Mul(old_mean, momentum) new_mean = Mul(flat_mean, rest) mean = Add(kept_mean, new_mean)
    kept = Mul(old_variance, momentum) fresh = Mul(flat_spread, rest) variance = Add(kept, fresh)
  })"),
                inputs);
  node.set_output(0, node.cast(outputs[0], x.dtype));
  node.set_output(1, node.cast(outputs[1], running));
  node.set_output(2, node.cast(outputs[2], running));
}

}  // namespace

// In training mode the batch has statistics of its own.
void import_BatchNormalization(OnnxNode& node) {
  node.ignore_attribute("momentum");  // of training
  node.ignore_attribute("consumed_inputs");
  if (node.opset() < 7 && node.int_attribute("is_test", 0) == 0)
    node.refuse(
        "BatchNormalization in training mode (is_test = 0); export the model for inference, after model.eval()");
  if (node.int_attribute("training_mode", 0) != 0) return train_batch_normalization(node);
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
