// SPDX-License-Identifier: Apache-2.0
// quantize(x, scale, zero_point?) -> dtype: saturate(round(x / scale) + zero_point), round half to even. Scale and zero
// point are scalars, or vectors along `axis`. The quotient is rounded to the dtype of the scale before it is made
// whole; that decides ties. NaN gives the integer 0. To f8e4m3fn: x / scale as the nearest number of that type, at most
// 448 either way, without a zero point; NaN stays NaN.
#pragma once
#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/op_kind.h"

namespace temper::ops {

struct Quantize {
  static constexpr std::string_view name = "quantize";
  static constexpr OpKind op_kind = OpKind::quantize;
  DType dtype = DType::i8;  // i8, u8, i16, u16, f8e4m3fn
  int64_t axis = 0;         // 0 <= axis < rank; without meaning for scalars

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("dtype", op.dtype);
    f("axis", op.axis);
  }
  bool operator==(const Quantize&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  std::optional<std::vector<int64_t>> take_untransposed(std::span<const int64_t> perm, size_t inputs);
};

// The checks that quantize and dequantize share: inputs 1 (scale, a float) and 2 (zero point, of dtype `zero`) are
// scalars or vectors as long as axis `axis` of input 0. Throws Error{bad_file}.
void check_quantization(const InferContext& context, int64_t axis, DType zero);
// Calls f(element, index into scale and zero point) for each element of `x`.
template <class F>
void for_each_quantized(const Tensor& x, const Tensor& scale, int64_t axis, F&& f) {
  if (scale.rank() == 0) {
    for (int64_t i = 0; i < x.count(); ++i) f(i, int64_t(0));
    return;
  }
  const int64_t inner = row_major_strides(x.dims())[size_t(axis)], n = x.dims()[size_t(axis)];
  for (int64_t i = 0; i < x.count(); ++i) f(i, i / inner % n);
}

}  // namespace temper::ops
