// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace temper::ops {

std::vector<TensorType> Reduce::infer(const InferContext& context) const {
  context.expect_inputs(1, 1);
  const TensorType& x = context.type(0);
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] < 0 || axes[i] >= x.rank() || (i && axes[i] <= axes[i - 1]))
      fail(ErrorKind::bad_file, "axes ", axes, " are not sorted axes of ", x);
  Shape shape;
  for (int64_t i = 0; i < x.rank(); ++i) {
    const bool reduced = std::binary_search(axes.begin(), axes.end(), i);
    if (!reduced) shape.push_back(x.shape[size_t(i)]);
    else if (keepdims) shape.push_back(1);
  }
  return {{x.dtype, shape}};
}

std::vector<Tensor> Reduce::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  const Tensor& x = inputs[0];
  const Dims &dims = x.dims(), strides = row_major_strides(dims);
  Dims kept, kept_strides, inner, inner_strides;
  for (int64_t i = 0; i < x.rank(); ++i) {
    const bool reduced = std::binary_search(axes.begin(), axes.end(), i);
    (reduced ? inner : kept).push_back(dims[size_t(i)]);
    (reduced ? inner_strides : kept_strides).push_back(strides[size_t(i)]);
  }
  const int64_t n = element_count(inner);
  Tensor out(x.dtype(), outputs[0].dims());
  visit_dtype(x.dtype(), [&]<class T>() {
    using W = Wide<T>;
    constexpr bool floating = std::is_same_v<W, double>;
    const T* px = x.data<T>();
    for_each_index(kept, [&](const Dims& o, int64_t at) {
      int64_t base = 0;
      for (size_t i = 0; i < o.size(); ++i) base += o[i] * kept_strides[i];
      auto each = [&](auto&& f) {
        for_each_index(inner, [&](const Dims& k, int64_t) {
          int64_t offset = base;
          for (size_t i = 0; i < k.size(); ++i) offset += k[i] * inner_strides[i];
          f(static_cast<W>(px[offset]));
        });
      };
      W low = std::numeric_limits<T>::lowest(), high = std::numeric_limits<T>::max();
      if constexpr (floating) low = -std::numeric_limits<double>::infinity(), high = -low;
      if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) low = -std::numeric_limits<double>::infinity(), high = -low;
      W r = 0;
      switch (kind) {
        case ReduceKind::sum: each([&](W v) { r += v; }); break;
        case ReduceKind::mean:
          each([&](W v) { r += v; });
          if constexpr (floating) r /= double(n);
          else if (n) r /= W(n);
          break;
        case ReduceKind::max: r = low; each([&](W v) { if (v > r || v != v) r = v; }); break;
        case ReduceKind::min: r = high; each([&](W v) { if (v < r || v != v) r = v; }); break;
        case ReduceKind::prod: r = 1; each([&](W v) { r *= v; }); break;
        case ReduceKind::l1: each([&](W v) { r += v < 0 ? -v : v; }); break;
        case ReduceKind::l2: each([&](W v) { r += v * v; }); r = W(std::sqrt(double(r))); break;
        case ReduceKind::log_sum: each([&](W v) { r += v; }); r = W(std::log(double(r))); break;
        case ReduceKind::sum_square: each([&](W v) { r += v * v; }); break;
        case ReduceKind::log_sum_exp: {
          double peak = -std::numeric_limits<double>::infinity(), sum = 0;
          each([&](W v) { peak = std::max(peak, double(v)); });
          if (std::isinf(peak)) { r = W(peak); break; }
          each([&](W v) { sum += std::exp(double(v) - peak); });
          r = W(peak + std::log(sum));
          break;
        }
      }
      out.data<T>()[at] = static_cast<T>(r);
    });
  });
  return {out};
}

}  // namespace temper::ops
