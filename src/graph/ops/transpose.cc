// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/transpose.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

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
  // Weights are turned when a graph is optimised: the last axis is one loop, whose steps in x are equal.
  const int64_t last = dims.empty() ? 1 : dims.back(), step = dims.empty() ? 0 : from[size_t(perm.back())];
  const Dims outer(dims.begin(), dims.end() - (dims.empty() ? 0 : 1));
  const auto copy = [&](auto element) {
    constexpr auto size = int64_t(sizeof element);
    const std::byte* const read = x.raw().data();
    std::byte* const write = out.raw_mutable();
    for_each_index(outer, [&](const Dims& index, int64_t i) {
      int64_t offset = 0;
      for (size_t axis = 0; axis < index.size(); ++axis) offset += index[axis] * from[size_t(perm[axis])];
      for (int64_t k = 0; k < last; ++k)
        std::memcpy(write + (i * last + k) * size, read + (offset + k * step) * size, size_t(size));
    });
  };
  switch (size_of(x.dtype())) {
    case 1: copy(uint8_t()); break;
    case 2: copy(uint16_t()); break;
    case 4: copy(uint32_t()); break;
    case 8: copy(uint64_t()); break;
    default: throw std::logic_error("elements of another size");
  }
  return {out};
}

}  // namespace temper::ops
