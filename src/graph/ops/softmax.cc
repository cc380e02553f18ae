// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/softmax.h"

#include <cmath>
#include <limits>

#include "graph/untranspose.h"

namespace temper::ops {

std::vector<TensorType> Softmax::infer(const InferContext& context) const {
  context.expect_inputs(1, 1);
  const TensorType& x = context.type(0);
  if (axis < 0 || axis >= x.rank()) fail(ErrorKind::bad_file, "axis ", axis, " of ", x);
  if (!is_float(x.dtype)) fail(ErrorKind::bad_file, "softmax of ", x);
  return {x};
}

std::vector<Tensor> Softmax::reference(std::span<const Tensor> inputs, std::span<const TensorType>) const {
  const Tensor& x = inputs[0];
  Tensor out(x.dtype(), x.dims());
  const int64_t n = x.dims()[size_t(axis)], inner = row_major_strides(x.dims())[size_t(axis)];
  const int64_t outer = n == 0 ? 0 : x.count() / (n * inner);
  visit_dtype(x.dtype(), [&]<class T>() {
    if constexpr (std::is_same_v<Wide<T>, double>) {
      for (int64_t row = 0; row < outer * inner; ++row) {
        const int64_t base = row / inner * n * inner + row % inner;
        const T* from = x.data<T>() + base;
        T* to = out.data<T>() + base;
        double peak = -std::numeric_limits<double>::infinity(), sum = 0;
        for (int64_t i = 0; i < n; ++i) peak = std::max(peak, double(from[i * inner]));
        for (int64_t i = 0; i < n; ++i) sum += std::exp(double(from[i * inner]) - peak);
        for (int64_t i = 0; i < n; ++i) {
          const double shifted = double(from[i * inner]) - peak;
          to[i * inner] = static_cast<T>(log ? shifted - std::log(sum) : std::exp(shifted) / sum);
        }
      }
    }
  });
  return {out};
}

std::optional<std::vector<int64_t>> Softmax::take_untransposed(std::span<const int64_t> perm, size_t) {
  axis = perm[size_t(axis)];
  return same_transpose(perm);
}

}  // namespace temper::ops
