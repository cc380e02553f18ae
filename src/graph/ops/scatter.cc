// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/scatter.h"

#include <cmath>
#include <cstring>

#include "graph/ops/gather.h"

namespace temper::ops {

std::vector<TensorType> Scatter::infer(const InferContext& context) const {
  context.expect_inputs(3, 3);
  expect_indices(context, 1);
  context.expect_same_dtype(0, 2);
  const TensorType &x = context.type(0), &indices = context.type(1), &updates = context.type(2);
  auto agree = [&](const Dim& a, const Dim& b) {
    if (a.is_constant() && b.is_constant() && a != b)
      fail(ErrorKind::bad_file, "updates ", updates, " do not fit indices ", indices, " and ", x);
  };
  if (kind == ScatterKind::elements) {
    if (axis < 0 || axis >= x.rank()) fail(ErrorKind::bad_file, "axis ", axis, " of ", x);
    context.expect_rank(1, x.rank(), x.rank());
    context.expect_rank(2, x.rank(), x.rank());
    for (size_t k = 0; k < x.shape.size(); ++k) {
      agree(indices.shape[k], updates.shape[k]);
      if (int64_t(k) != axis && indices.shape[k].is_constant() && x.shape[k].is_constant() &&
          indices.shape[k].value() > x.shape[k].value())
        fail(ErrorKind::bad_file, "indices ", indices, " reach beyond ", x, " in axis ", k);
    }
    return {x};
  }
  context.expect_rank(1, 1);
  const int64_t length = indices.shape.back().value();
  if (length < 1 || length > x.rank()) fail(ErrorKind::bad_file, "positions of length ", length, " in ", x);
  context.expect_rank(2, indices.rank() - 1 + x.rank() - length, indices.rank() - 1 + x.rank() - length);
  for (size_t k = 0; k + 1 < indices.shape.size(); ++k) agree(indices.shape[k], updates.shape[k]);
  for (size_t k = 0; k < size_t(x.rank() - length); ++k)
    agree(x.shape[size_t(length) + k], updates.shape[indices.shape.size() - 1 + k]);
  return {x};
}

std::vector<Tensor> Scatter::reference(std::span<const Tensor> inputs, std::span<const TensorType>) const {
  const Tensor &x = inputs[0], &updates = inputs[2];
  const std::vector<int64_t> indices = inputs[1].to_ints();
  const Dims &xd = x.dims(), &id = inputs[1].dims(), strides = row_major_strides(xd);
  Tensor out(x.dtype(), xd);
  std::memcpy(out.raw_mutable(), x.raw().data(), size_t(x.bytes()));
  if (indices.empty() || updates.count() == 0) return {out};
  visit_dtype(x.dtype(), [&]<class T>() {
    T* to = out.data<T>();
    const T* from = updates.data<T>();
    auto combine = [&](int64_t at, int64_t update) {
      using W = Wide<T>;
      using U = std::conditional_t<std::is_same_v<W, int64_t>, uint64_t, W>;  // integers wrap
      const W a = static_cast<W>(to[at]), b = static_cast<W>(from[update]);
      switch (reduction) {
        case ScatterReduction::none: to[at] = from[update]; break;
        case ScatterReduction::add: to[at] = static_cast<T>(static_cast<W>(U(a) + U(b))); break;
        case ScatterReduction::mul: to[at] = static_cast<T>(static_cast<W>(U(a) * U(b))); break;
        // NaN passes on, as it does for the pointwise max and min.
        case ScatterReduction::max:
          if (b > a || b != b) to[at] = from[update];
          break;
        case ScatterReduction::min:
          if (b < a || b != b) to[at] = from[update];
          break;
      }
    };
    if (kind == ScatterKind::elements) {
      for_each_index(id, [&](const Dims& at, int64_t i) {
        int64_t offset = 0;
        for (size_t k = 0; k < at.size(); ++k)
          offset += (int64_t(k) == axis ? resolve_index(indices[size_t(i)], xd[k]) : at[k]) * strides[k];
        combine(offset, i);
      });
      return;
    }
    const int64_t length = id.back(), count = int64_t(indices.size()) / length, inner = strides[size_t(length - 1)];
    for (int64_t i = 0; i < count; ++i) {
      int64_t offset = 0;
      for (int64_t k = 0; k < length; ++k)
        offset += resolve_index(indices[size_t(i * length + k)], xd[size_t(k)]) * strides[size_t(k)];
      for (int64_t j = 0; j < inner; ++j) combine(offset + j, i * inner + j);
    }
  });
  return {out};
}

OnnxForm Scatter::onnx_form() const {
  OnnxForm form{kind == ScatterKind::elements ? "ScatterElements" : "ScatterND", {}};
  if (kind == ScatterKind::elements) form.attributes.push_back({"axis", axis});
  if (reduction != ScatterReduction::none)
    form.attributes.push_back({"reduction", enum_names(reduction)[size_t(reduction)]});
  return form;
}

}  // namespace temper::ops
