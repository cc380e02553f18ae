// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/broadcast.h"

#include <algorithm>
#include <cstring>

namespace temper::ops {

bool Broadcast::absorb(const InferContext& context) {
  const Contents* target = context.contents(1);
  if (!target) return false;
  for (const Dim& dim : *target)
    if (dim.is_constant() && dim.value() < 0) fail(ErrorKind::bad_file, "a tensor cannot be expanded to ", *target);
  shape = broadcast_shapes(context.type(0).shape, *target);
  return true;
}

std::vector<TensorType> Broadcast::infer(const InferContext& context) const {
  context.expect_inputs(1, 2);
  const TensorType& x = context.type(0);
  if (context.has(1)) {
    context.expect_rank(1, 1, 1);
    Shape out;
    const int64_t rank = std::max(x.rank(), context.type(1).shape[0].value());
    for (int64_t i = 0; i < rank; ++i) out.push_back(context.unknown(0, i));
    return {{x.dtype, out}};
  }
  if (x.shape.size() > shape.size()) fail(ErrorKind::bad_file, "a tensor ", x, " cannot be broadcast to ", shape);
  const size_t skip = shape.size() - x.shape.size();
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i].is_constant() && shape[i].value() < 0) fail(ErrorKind::bad_file, "broadcast to ", shape);
    if (i < skip || !shape[i].is_constant() || !x.shape[i - skip].is_constant()) continue;
    if (x.shape[i - skip] != shape[i] && x.shape[i - skip] != Dim(1))
      fail(ErrorKind::bad_file, "a tensor ", x, " cannot be broadcast to ", shape);
  }
  return {{x.dtype, shape}};
}

std::vector<Tensor> Broadcast::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  const Tensor& x = inputs[0];
  const Dims dims = outputs[0].dims(), strides = broadcast_strides(x.dims(), dims);
  Tensor out(x.dtype(), dims);
  const size_t size = size_t(size_of(x.dtype()));
  for_each_index(dims, [&](const Dims& index, int64_t i) {
    int64_t offset = 0;
    for (size_t axis = 0; axis < index.size(); ++axis) offset += index[axis] * strides[axis];
    std::memcpy(out.raw_mutable() + size_t(i) * size, x.raw().data() + size_t(offset) * size, size);
  });
  return {out};
}

// At most axes of size 1 are added in front.
bool Broadcast::is_no_op(const TensorType& x, size_t inputs) const {
  if (inputs != 1 || shape.size() < x.shape.size()) return false;
  const auto skip = shape.begin() + int64_t(shape.size() - x.shape.size());
  return std::equal(skip, shape.end(), x.shape.begin()) &&
         std::all_of(shape.begin(), skip, [](const Dim& dim) { return dim == Dim(1); });
}

}  // namespace temper::ops
