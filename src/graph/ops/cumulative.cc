// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/cumulative.h"

namespace temper::ops {

std::vector<TensorType> Cumulative::infer(const InferContext& context) const {
  context.expect_inputs(1, 2);
  const TensorType& x = context.type(0);
  if (x.dtype == DType::boolean) fail(ErrorKind::bad_file, "a running total of ", x);
  if (context.has(1)) {
    if (!is_int(context.type(1).dtype) || context.type(1).rank() > 1)
      fail(ErrorKind::bad_file, "the axis has type ", context.type(1));
  } else if (axis < 0 || axis >= x.rank()) {
    fail(ErrorKind::bad_file, "axis ", axis, " of ", x);
  }
  return {x};
}

std::vector<Tensor> Cumulative::reference(std::span<const Tensor> inputs, std::span<const TensorType>) const {
  const Tensor& x = inputs[0];
  int64_t along = axis;
  if (inputs.size() > 1 && inputs[1].defined()) {
    if (inputs[1].count() != 1)
      fail(ErrorKind::bad_file, "the axis is a tensor ", inputs[1].type(), ", not one number");
    along = normalize_axis(inputs[1].to_ints()[0], x.rank());
  }
  Tensor out(x.dtype(), x.dims());
  const int64_t n = x.dims()[size_t(along)], inner = row_major_strides(x.dims())[size_t(along)];
  const int64_t rows = n == 0 ? 0 : x.count() / n;
  visit_dtype(x.dtype(), [&]<class T>() {
    using W = std::conditional_t<std::is_same_v<Wide<T>, double>, double, uint64_t>;  // integers wrap
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t base = row / inner * n * inner + row % inner;
      W total = kind == CumulativeKind::sum ? W(0) : W(1);
      for (int64_t step = 0; step < n; ++step) {
        const int64_t at = base + (reverse ? n - 1 - step : step) * inner;
        const W v = static_cast<W>(x.data<T>()[at]), before = total;
        total = kind == CumulativeKind::sum ? total + v : total * v;
        out.data<T>()[at] = static_cast<T>(exclusive ? before : total);
      }
    }
  });
  return {out};
}

}  // namespace temper::ops
