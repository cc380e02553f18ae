// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/dequantize.h"

#include "graph/ops/quantize.h"
#include "graph/untranspose.h"

namespace temper::ops {

std::vector<TensorType> Dequantize::infer(const InferContext& context) const {
  const TensorType& x = context.type(0);
  check_quantization(context, axis, x.dtype);
  const bool float8 = x.dtype == DType::f8e4m3fn;
  if (!float8 && (!is_int(x.dtype) || size_of(x.dtype) > 4)) fail(ErrorKind::bad_file, "dequantization of ", x);
  if (!is_float(dtype)) fail(ErrorKind::bad_file, "dequantization to ", dtype);
  if (float8 && (context.has(2) || dtype == DType::f64 || context.type(1).dtype == DType::f64))
    fail(ErrorKind::bad_file, "dequantization of ", x, " to ", dtype, " by ", context.type(1),
         context.has(2) ? " with a zero point" : "");
  return {{dtype, x.shape}};
}

std::vector<Tensor> Dequantize::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  const Tensor &x = inputs[0], &scale = inputs[1];
  if (x.dtype() == DType::f8e4m3fn) {
    const Tensor numbers = x.converted(DType::f32), factors = scale.converted(DType::f32);
    Tensor out(DType::f32, outputs[0].dims());
    for_each_quantized(x, factors, axis, [&](int64_t i, int64_t k) {
      out.data<float>()[i] = numbers.data<float>()[i] * factors.data<float>()[k];
    });
    return {out.converted(dtype)};
  }
  const bool shifted = inputs.size() > 2 && inputs[2].defined();
  Tensor out(dtype, outputs[0].dims());
  const std::vector<double> scales = scale.to_doubles();
  visit_dtype(x.dtype(), [&]<class Q>() {
    visit_dtype(dtype, [&]<class T>() {
      if constexpr (std::is_integral_v<Q> && std::is_same_v<Wide<T>, double>)
        for_each_quantized(x, scale, axis, [&](int64_t i, int64_t k) {
          const double zero = shifted ? double(inputs[2].data<Q>()[k]) : 0;
          out.data<T>()[i] = static_cast<T>((double(x.data<Q>()[i]) - zero) * scales[size_t(k)]);
        });
    });
  });
  return {out};
}

std::optional<std::vector<int64_t>> Dequantize::take_untransposed(std::span<const int64_t> perm, size_t) {
  // Beside a scalar the axis means nothing and may be any number.
  if (axis >= 0 && axis < int64_t(perm.size())) axis = perm[size_t(axis)];
  return same_transpose(perm);
}

}  // namespace temper::ops
