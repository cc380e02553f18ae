// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/gather.h"

#include <cstring>

namespace temper::ops {

int64_t resolve_index(int64_t index, int64_t size) {
  if (index < -size || index >= size)
    fail(ErrorKind::usage, "the index ", index, " is outside of an axis of ", size, " elements");
  return index < 0 ? index + size : index;
}

void expect_indices(const InferContext& context, size_t input) {
  const TensorType& type = context.type(input);
  if (type.dtype != DType::i64 && type.dtype != DType::i32)
    fail(ErrorKind::bad_file, "the indices are ", type, "; i32 or i64 is needed");
}

std::vector<TensorType> Gather::infer(const InferContext& context) const {
  context.expect_inputs(2, 2);
  expect_indices(context, 1);
  const TensorType &x = context.type(0), &indices = context.type(1);
  const Shape &s = x.shape, &i = indices.shape;
  if (kind != GatherKind::nd && (axis < 0 || axis >= x.rank())) fail(ErrorKind::bad_file, "axis ", axis, " of ", x);
  Shape out;
  switch (kind) {
    case GatherKind::axis:
      out.assign(s.begin(), s.begin() + axis);
      out.insert(out.end(), i.begin(), i.end());
      out.insert(out.end(), s.begin() + axis + 1, s.end());
      break;
    case GatherKind::elements:
      if (s.size() != i.size())
        fail(ErrorKind::bad_file, "elements of ", x, " by indices ", indices, " of another rank");
      for (size_t k = 0; k < s.size(); ++k)
        if (int64_t(k) != axis && s[k].is_constant() && i[k].is_constant() && i[k].value() > s[k].value())
          fail(ErrorKind::bad_file, "indices ", indices, " reach beyond ", x, " in axis ", k);
      out = i;
      break;
    case GatherKind::nd: {
      context.expect_rank(0, 1);
      context.expect_rank(1, 1);
      const int64_t length = i.back().value();
      if (batch_dims < 0 || batch_dims >= std::min(x.rank(), indices.rank()) || length < 1 ||
          batch_dims + length > x.rank())
        fail(ErrorKind::bad_file, "positions of length ", length, " after ", batch_dims, " batch axes in ", x);
      for (int64_t k = 0; k < batch_dims; ++k)
        if (s[size_t(k)].is_constant() && i[size_t(k)].is_constant() && s[size_t(k)] != i[size_t(k)])
          fail(ErrorKind::bad_file, x, " and ", indices, " differ in batch axis ", k);
      out.assign(i.begin(), i.end() - 1);
      out.insert(out.end(), s.begin() + batch_dims + length, s.end());
      break;
    }
  }
  return {{x.dtype, out}};
}

std::vector<Tensor> Gather::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  const Tensor& x = inputs[0];
  const std::vector<int64_t> indices = inputs[1].to_ints();
  const Dims &xd = x.dims(), &id = inputs[1].dims(), strides = row_major_strides(xd);
  Tensor out(x.dtype(), outputs[0].dims());
  const int64_t size = size_of(x.dtype());
  auto copy = [&](int64_t to, int64_t from, int64_t count) {
    if (count) std::memcpy(out.raw_mutable() + to * size, x.raw().data() + from * size, size_t(count * size));
  };
  if (out.count() == 0) return {out};
  switch (kind) {
    case GatherKind::axis: {
      const int64_t n = xd[size_t(axis)], inner = strides[size_t(axis)], count = int64_t(indices.size());
      const int64_t outer = out.count() / (count * inner);
      for (int64_t o = 0; o < outer; ++o)
        for (int64_t k = 0; k < count; ++k)
          copy((o * count + k) * inner, (o * n + resolve_index(indices[size_t(k)], n)) * inner, inner);
      break;
    }
    case GatherKind::elements:
      for_each_index(id, [&](const Dims& at, int64_t i) {
        int64_t offset = 0;
        for (size_t k = 0; k < at.size(); ++k)
          offset += (int64_t(k) == axis ? resolve_index(indices[size_t(i)], xd[k]) : at[k]) * strides[k];
        copy(i, offset, 1);
      });
      break;
    case GatherKind::nd: {
      const int64_t length = id.back();
      int64_t batches = 1;
      for (int64_t k = 0; k < batch_dims; ++k) batches *= id[size_t(k)];
      const int64_t count = int64_t(indices.size()) / length, inner = strides[size_t(batch_dims + length - 1)];
      const int64_t batch_stride = batch_dims ? strides[size_t(batch_dims - 1)] : 0;
      for (int64_t i = 0; i < count; ++i) {
        int64_t offset = i / (count / batches) * batch_stride;
        for (int64_t k = 0; k < length; ++k) {
          const size_t along = size_t(batch_dims + k);
          offset += resolve_index(indices[size_t(i * length + k)], xd[along]) * strides[along];
        }
        copy(i * inner, offset, inner);
      }
      break;
    }
  }
  return {out};
}

OnnxForm Gather::onnx_form() const {
  switch (kind) {
    case GatherKind::axis: return {"Gather", {{"axis", axis}}};
    case GatherKind::elements: return {"GatherElements", {{"axis", axis}}};
    default: return {"GatherND", {{"batch_dims", batch_dims}}};
  }
}

}  // namespace temper::ops
