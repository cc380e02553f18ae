// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/quantize.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/small_types.h"
#include "graph/untranspose.h"

namespace temper::ops {

void check_quantization(const InferContext& context, int64_t axis, DType zero) {
  context.expect_inputs(2, 3);
  const TensorType& x = context.type(0);
  if (!is_float(context.type(1).dtype)) fail(ErrorKind::bad_file, "the scale has type ", context.type(1));
  if (context.has(2) && (context.type(2).dtype != zero || context.type(2).shape != context.type(1).shape))
    fail(ErrorKind::bad_file, "the zero point has type ", context.type(2), " beside a scale ", context.type(1));
  context.expect_rank(1, 0, 1);
  if (context.type(1).rank() == 0) return;
  if (axis < 0 || axis >= x.rank()) fail(ErrorKind::bad_file, "axis ", axis, " of ", x);
  const Dim &have = context.type(1).shape[0], &need = x.shape[size_t(axis)];
  if (have.is_constant() && need.is_constant() && have != need)
    fail(ErrorKind::bad_file, "the scales ", context.type(1), " do not fit axis ", axis, " of ", x,
         ", which needs one for each of its entries");
}

std::vector<TensorType> Quantize::infer(const InferContext& context) const {
  check_quantization(context, axis, dtype);
  if (!is_float(context.type(0).dtype) && context.type(0).dtype != DType::i32)
    fail(ErrorKind::bad_file, "quantization of ", context.type(0));
  const bool float8 = dtype == DType::f8e4m3fn;
  if (!float8 && (!is_int(dtype) || size_of(dtype) > 2)) fail(ErrorKind::bad_file, "quantization to ", dtype);
  if (float8 && (context.has(2) || context.type(0).dtype == DType::i32 || context.type(1).dtype == DType::f64))
    fail(ErrorKind::bad_file, "quantization of ", context.type(0), " to ", dtype, " by ", context.type(1),
         context.has(2) ? " with a zero point" : "");
  return {{dtype, context.type(0).shape}};
}

std::vector<Tensor> Quantize::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  const Tensor &x = inputs[0], &scale = inputs[1];
  const bool shifted = inputs.size() > 2 && inputs[2].defined();
  Tensor out(dtype, outputs[0].dims());
  const auto each_quotient = [&](auto&& f) {
    visit_dtype(x.dtype(), [&]<class X>() {
      visit_dtype(scale.dtype(), [&]<class S>() {
        if constexpr (std::is_same_v<Wide<S>, double>)
          for_each_quantized(x, scale, axis, [&](int64_t i, int64_t k) {
            const S dividend = static_cast<S>(static_cast<double>(x.data<X>()[i]));
            f(i, k, double(static_cast<S>(double(dividend) / double(scale.data<S>()[k]))));
          });
      });
    });
  };
  if (dtype == DType::f8e4m3fn) {
    each_quotient(
        [&](int64_t i, int64_t, double quotient) { out.raw_mutable()[i] = std::byte(float_to_e4m3(float(quotient))); });
    return {out};
  }
  visit_dtype(dtype, [&]<class Q>() {
    if constexpr (std::is_integral_v<Q> && sizeof(Q) <= 2)
      each_quotient([&](int64_t i, int64_t k, double quotient) {
        double whole = std::nearbyint(quotient);
        if (shifted) whole += double(inputs[2].data<Q>()[k]);
        if (std::isnan(whole)) whole = 0;
        out.data<Q>()[i] =
            static_cast<Q>(std::clamp<double>(whole, std::numeric_limits<Q>::min(), std::numeric_limits<Q>::max()));
      });
  });
  return {out};
}

std::optional<std::vector<int64_t>> Quantize::take_untransposed(std::span<const int64_t> perm, size_t) {
  // Beside a scalar the axis means nothing and may be any number.
  if (axis >= 0 && axis < int64_t(perm.size())) axis = perm[size_t(axis)];
  return same_transpose(perm);
}

}  // namespace temper::ops
