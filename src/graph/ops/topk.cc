// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/topk.h"

#include <algorithm>
#include <numeric>

namespace temper::ops {

bool TopK::absorb(const InferContext& context) {
  const Contents* count = context.contents(1);
  if (!count) return false;
  if (count->size() != 1) fail(ErrorKind::bad_file, "k is ", *count, ", not one number");
  k = count->front();
  return true;
}

std::vector<TensorType> TopK::infer(const InferContext& context) const {
  context.expect_inputs(1, 2);
  const TensorType& x = context.type(0);
  if (axis < 0 || axis >= x.rank()) fail(ErrorKind::bad_file, "axis ", axis, " of ", x);
  const Dim& size = x.shape[size_t(axis)];
  const Dim count = context.has(1) ? context.unknown(0, axis) : k;
  if (count.is_constant() && (count.value() < 0 || (size.is_constant() && count.value() > size.value())))
    fail(ErrorKind::bad_file, "the ", count, " first of ", size, " elements");
  TensorType values = x, indices{DType::i64, {}};
  values.shape[size_t(axis)] = count;
  indices.shape = values.shape;
  return {values, indices};
}

std::vector<Tensor> TopK::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  const Tensor& x = inputs[0];
  Tensor values(x.dtype(), outputs[0].dims()), indices(DType::i64, outputs[0].dims());
  const int64_t n = x.dims()[size_t(axis)], count = values.dims()[size_t(axis)];
  const int64_t inner = row_major_strides(x.dims())[size_t(axis)];
  const int64_t rows = count == 0 ? 0 : values.count() / count;
  visit_dtype(x.dtype(), [&]<class T>() {
    std::vector<int64_t> order(static_cast<size_t>(n));
    for (int64_t row = 0; row < rows; ++row) {
      const T* from = x.data<T>() + row / inner * n * inner + row % inner;
      std::iota(order.begin(), order.end(), 0);
      auto larger = [&](int64_t a, int64_t b) {
        const auto va = static_cast<Wide<T>>(from[a * inner]), vb = static_cast<Wide<T>>(from[b * inner]);
        if (va != va || vb != vb) return largest ? va != va && vb == vb : va == va && vb != vb;
        return largest ? va > vb : va < vb;
      };
      std::stable_sort(order.begin(), order.end(), larger);
      const int64_t to = row / inner * count * inner + row % inner;
      for (int64_t i = 0; i < count; ++i) {
        values.data<T>()[to + i * inner] = from[order[size_t(i)] * inner];
        indices.data<int64_t>()[to + i * inner] = order[size_t(i)];
      }
    }
  });
  return {values, indices};
}

}  // namespace temper::ops
