// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/concat.h"

#include <cstring>

#include "graph/untranspose.h"

namespace temper::ops {

std::vector<TensorType> Concat::infer(const InferContext& context) const {
  context.expect_inputs(1, 1 << 20);
  TensorType out = context.type(0);
  if (axis < 0 || axis >= out.rank()) fail(ErrorKind::bad_file, "axis ", axis, " of ", out);
  for (size_t i = 1; i < context.size(); ++i) {
    context.expect_same_dtype(0, i);
    context.expect_rank(i, out.rank(), out.rank());
    const TensorType& x = context.type(i);
    for (size_t k = 0; k < x.shape.size(); ++k) {
      Dim& dim = out.shape[k];
      if (int64_t(k) == axis) dim = dim + x.shape[k];
      else if (dim.is_constant() && x.shape[k].is_constant() && dim != x.shape[k])
        fail(ErrorKind::bad_file, "input ", i, ' ', x, " does not fit input 0 ", context.type(0), " in axis ", k);
      else if (x.shape[k].is_constant()) dim = x.shape[k];
    }
  }
  return {out};
}

std::vector<Tensor> Concat::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  Tensor out(outputs[0].dtype, outputs[0].dims());
  const Dims& dims = out.dims();
  int64_t inner = size_of(out.dtype()), outer = 1, offset = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (int64_t(i) < axis) outer *= dims[i];
    if (int64_t(i) > axis) inner *= dims[i];
  }
  const int64_t row = dims[size_t(axis)] * inner;
  for (const Tensor& x : inputs) {
    const int64_t bytes = x.dims()[size_t(axis)] * inner;
    if (x.bytes() != bytes * outer) fail(ErrorKind::bad_file, "an input ", x.type(), " does not fit ", outputs[0]);
    if (x.bytes() == 0) continue;
    for (int64_t o = 0; o < outer; ++o)
      std::memcpy(out.raw_mutable() + o * row + offset, x.raw().data() + o * bytes, size_t(bytes));
    offset += bytes;
  }
  return {out};
}

std::optional<std::vector<int64_t>> Concat::take_untransposed(std::span<const int64_t> perm, size_t) {
  axis = perm[size_t(axis)];
  return same_transpose(perm);
}

}  // namespace temper::ops
