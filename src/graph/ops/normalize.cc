// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/normalize.h"

#include <algorithm>
#include <cmath>

#include "graph/untranspose.h"

namespace temper::ops {

std::vector<TensorType> Normalize::infer(const InferContext& context) const {
  context.expect_inputs(1, 1);
  const TensorType& x = context.type(0);
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] < 0 || axes[i] >= x.rank() || (i && axes[i] <= axes[i - 1]))
      fail(ErrorKind::bad_file, "axes ", axes, " are not sorted axes of ", x);
  if (!is_float(x.dtype)) fail(ErrorKind::bad_file, "normalization of ", x);
  if (groups < 1) fail(ErrorKind::bad_file, "normalization in ", groups, " groups");
  if (groups > 1) {
    if (!std::binary_search(axes.begin(), axes.end(), 1))
      fail(ErrorKind::bad_file, "groups of the channels of ", x, ", which axes ", axes, " are not over");
    if (x.shape[1].is_constant() && x.shape[1].value() % groups != 0)
      fail(ErrorKind::bad_file, groups, " groups of the channels of ", x);
  }
  return {x};
}

std::vector<Normalize::Axis> Normalize::walked(const Dims& dims) const {
  std::vector<Axis> out;
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool along = std::binary_search(axes.begin(), axes.end(), int64_t(i));
    const bool cut = i == 1 && groups > 1;
    if (cut) out.push_back({i, groups, dims[i] / groups, false});
    out.push_back({i, cut ? dims[i] / groups : dims[i], 1, along});
  }
  return out;
}

std::vector<Tensor> Normalize::reference(std::span<const Tensor> inputs, std::span<const TensorType>) const {
  const Tensor& x = inputs[0];
  const Dims &dims = x.dims(), strides = row_major_strides(dims);
  Dims kept, kept_strides, inner, inner_strides;
  for (const Axis& axis : walked(dims)) {
    (axis.along ? inner : kept).push_back(axis.size);
    (axis.along ? inner_strides : kept_strides).push_back(strides[axis.axis] * axis.step);
  }
  const double n = double(element_count(inner));
  Tensor out(x.dtype(), dims);
  visit_dtype(x.dtype(), [&]<class T>() {
    if constexpr (std::is_same_v<Wide<T>, double>) {
      const T* from = x.data<T>();
      T* to = out.data<T>();
      for_each_index(kept, [&](const Dims& o, int64_t) {
        int64_t base = 0;
        for (size_t i = 0; i < o.size(); ++i) base += o[i] * kept_strides[i];
        auto each = [&](auto&& f) {
          for_each_index(inner, [&](const Dims& k, int64_t) {
            int64_t offset = base;
            for (size_t i = 0; i < k.size(); ++i) offset += k[i] * inner_strides[i];
            f(offset);
          });
        };
        double mean = 0, squares = 0;
        if (center) {
          each([&](int64_t at) { mean += double(from[at]); });
          mean /= n;
        }
        each([&](int64_t at) { squares += (double(from[at]) - mean) * (double(from[at]) - mean); });
        const double divisor = std::sqrt(squares / n + epsilon);
        each([&](int64_t at) { to[at] = static_cast<T>((double(from[at]) - mean) / divisor); });
      });
    }
  });
  return {out};
}

std::optional<std::vector<int64_t>> Normalize::take_untransposed(std::span<const int64_t> perm, size_t) {
  if (groups > 1) return std::nullopt;  // they are of axis 1
  axes = untransposed_axes(axes, perm);
  return same_transpose(perm);
}

}  // namespace temper::ops
