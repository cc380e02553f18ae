// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/arg_reduce.h"

namespace temper::ops {

std::vector<TensorType> ArgReduce::infer(const InferContext& context) const {
  context.expect_inputs(1, 1);
  const TensorType& x = context.type(0);
  if (axis < 0 || axis >= x.rank()) fail(ErrorKind::bad_file, "axis ", axis, " of ", x);
  if (x.shape[size_t(axis)] == Dim(0))
    fail(ErrorKind::bad_file, "there is no largest element along the empty axis ", axis, " of ", x);
  TensorType out{DType::i64, x.shape};
  if (keepdims) out.shape[size_t(axis)] = 1;
  else out.shape.erase(out.shape.begin() + axis);
  return {out};
}

std::vector<Tensor> ArgReduce::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  const Tensor& x = inputs[0];
  Tensor out(DType::i64, outputs[0].dims());
  const int64_t n = x.dims()[size_t(axis)], inner = row_major_strides(x.dims())[size_t(axis)];
  visit_dtype(x.dtype(), [&]<class T>() {
    using W = Wide<T>;
    for (int64_t row = 0; row < out.count(); ++row) {
      const T* from = x.data<T>() + row / inner * n * inner + row % inner;
      int64_t best_at = 0;
      W best = static_cast<W>(from[0]);
      for (int64_t i = 1; i < n; ++i) {
        const W v = static_cast<W>(from[i * inner]);
        const bool v_nan = v != v, best_nan = best != best;
        const bool better = best_nan ? false : v_nan || (kind == ArgKind::max ? v > best : v < best);
        if (better || (last && (v == best || (v_nan && best_nan)))) best = v, best_at = i;
      }
      out.data<int64_t>()[row] = best_at;
    }
  });
  return {out};
}

OnnxForm ArgReduce::onnx_form() const {
  return {kind == ArgKind::max ? "ArgMax" : "ArgMin",
          {{"axis", axis}, {"keepdims", keepdims}, {"select_last_index", last}}};
}

}  // namespace temper::ops
