// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/transpose.h"

#include <algorithm>
#include <cstring>

namespace temper::ops {

std::vector<TensorType> Transpose::infer(const InferContext& context) const {
  context.expect_inputs(1, 1);
  const TensorType& x = context.type(0);
  std::vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != int64_t(i) || sorted.size() != x.shape.size())
      fail(ErrorKind::bad_file, "perm ", perm, " is not a permutation of the axes of ", x);
  if (sorted.size() != x.shape.size()) fail(ErrorKind::bad_file, "perm ", perm, " does not fit ", x);
  TensorType out{x.dtype, {}};
  for (int64_t axis : perm) out.shape.push_back(x.shape[size_t(axis)]);
  return {out};
}

std::vector<Tensor> Transpose::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  const Tensor& x = inputs[0];
  const Dims dims = outputs[0].dims(), from = row_major_strides(x.dims());
  Tensor out(x.dtype(), dims);
  const size_t size = size_t(size_of(x.dtype()));
  for_each_index(dims, [&](const Dims& index, int64_t i) {
    int64_t offset = 0;
    for (size_t axis = 0; axis < index.size(); ++axis) offset += index[axis] * from[size_t(perm[axis])];
    std::memcpy(out.raw_mutable() + size_t(i) * size, x.raw().data() + size_t(offset) * size, size);
  });
  return {out};
}

}  // namespace temper::ops
