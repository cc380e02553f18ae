// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/nonzero.h"

namespace temper::ops {

namespace {
template <class F>
void each_nonzero(const Tensor& x, F&& f) {
  visit_dtype(x.dtype(), [&]<class T>() {
    for (int64_t i = 0; i < x.count(); ++i)
      if (static_cast<Wide<T>>(x.data<T>()[i]) != 0) f(i);
  });
}
}  // namespace

std::vector<TensorType> NonZero::infer(const InferContext& context) const {
  context.expect_inputs(1, 1);
  Dim count;
  if (const Tensor* x = context.constant(0)) {
    int64_t n = 0;
    each_nonzero(*x, [&](int64_t) { ++n; });
    count = n;
  } else {
    count = context.unknown(0, 1);
  }
  return {{DType::i64, {Dim(std::max<int64_t>(context.type(0).rank(), 1)), count}}};
}

std::vector<Tensor> NonZero::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  const Tensor& x = inputs[0];
  Tensor out(DType::i64, outputs[0].dims());
  const Dims dims = x.rank() ? x.dims() : Dims{1}, strides = row_major_strides(dims);
  const int64_t count = out.dims()[1];
  int64_t k = 0;
  each_nonzero(x, [&](int64_t i) {
    for (size_t axis = 0; axis < dims.size(); ++axis)
      out.data<int64_t>()[int64_t(axis) * count + k] = i / strides[axis] % dims[axis];
    ++k;
  });
  return {out};
}

}  // namespace temper::ops
