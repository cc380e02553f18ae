// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/range.h"

#include <cmath>

namespace temper::ops {

namespace {
Dim length_of(const Tensor& start, const Tensor& limit, const Tensor& delta) {
  if (!is_float(start.dtype())) {
    const Dim step = delta.to_ints()[0], span = Dim(limit.to_ints()[0]) - Dim(start.to_ints()[0]);
    if (step == Dim(0)) fail(ErrorKind::bad_file, "a range with delta 0");
    const Dim n = Dim(0) - floor_div(Dim(0) - span, step);  // ceil(span / step)
    return n.value() < 0 ? Dim(0) : n;
  }
  const double n = std::ceil((limit.to_doubles()[0] - start.to_doubles()[0]) / delta.to_doubles()[0]);
  if (delta.to_doubles()[0] == 0) fail(ErrorKind::bad_file, "a range with delta 0");
  if (!(n < 1e15)) fail(ErrorKind::bad_file, "a range of ", n, " elements");
  return n > 0 ? Dim(int64_t(n)) : Dim(0);
}
}  // namespace

std::vector<TensorType> Range::infer(const InferContext& context) const {
  context.expect_inputs(3, 3);
  for (size_t i = 0; i < 3; ++i) {
    context.expect_same_dtype(0, i);
    if (!context.type(i).is_concrete() || element_count(context.type(i).dims()) != 1)
      fail(ErrorKind::bad_file, "input ", i, " is ", context.type(i), ", not a scalar");
  }
  const DType dtype = context.type(0).dtype;
  if (dtype == DType::boolean) fail(ErrorKind::bad_file, "a range of bool");
  Shape shape{Dim()};
  if (context.constant(0) && context.constant(1) && context.constant(2)) {
    shape[0] = length_of(*context.constant(0), *context.constant(1), *context.constant(2));
  } else if (context.contents(0) && context.contents(1) && context.contents(2) &&
             context.contents(2)->front().is_constant()) {
    const Dim step = context.contents(2)->front(), span = context.contents(1)->front() - context.contents(0)->front();
    if (step == Dim(0)) fail(ErrorKind::bad_file, "a range with delta 0");
    const Dim n = step.value() > 0 ? ceil_div(span, step) : ceil_div(Dim(0) - span, Dim(0) - step);
    shape[0] = n.is_non_negative() ? n : dim_max(n, 0);
  } else {
    shape[0] = context.unknown(0, 0);
  }
  return {{dtype, shape}};
}

std::vector<Tensor> Range::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  Tensor out(outputs[0].dtype, outputs[0].dims());
  visit_dtype(out.dtype(), [&]<class T>() {
    using W = Wide<T>;
    using U = std::conditional_t<std::is_same_v<W, int64_t>, uint64_t, W>;  // integers wrap
    const U start = U(W(inputs[0].data<T>()[0])), delta = U(W(inputs[2].data<T>()[0]));
    for (int64_t i = 0; i < out.count(); ++i) out.data<T>()[i] = static_cast<T>(static_cast<W>(start + U(i) * delta));
  });
  return {out};
}

}  // namespace temper::ops
