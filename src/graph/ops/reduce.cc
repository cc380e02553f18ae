// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/cast_value.h"
#include "graph/untranspose.h"

namespace temper::ops {

std::vector<int64_t> resolve_axes(std::vector<int64_t> axes, int64_t rank, bool empty_means_none) {
  if (axes.empty() && !empty_means_none) {
    axes.resize(size_t(rank));
    std::iota(axes.begin(), axes.end(), 0);
  }
  for (int64_t& axis : axes) axis = normalize_axis(axis, rank);
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end())
    fail(ErrorKind::bad_file, "axes ", axes, " name one axis twice");
  return axes;
}

bool Reduce::absorb(const InferContext& context) {
  if (!is_int(context.type(1).dtype)) return false;
  // None, or as many as there are, say which without their values; and the type of the result would not wait for them.
  const TensorType& type = context.type(1);
  const int64_t rank = context.type(0).rank();
  if (type.rank() == 1 && (type.shape[0] == Dim(0) || (type.shape[0] == Dim(rank) && !keepdims))) {
    std::vector<int64_t> all;
    for (int64_t i = 0; type.shape[0] != Dim(0) && i < rank; ++i) all.push_back(i);
    axes = resolve_axes(all, rank, noop_with_empty_axes);
    noop_with_empty_axes = false;
    return true;
  }
  const Contents* known = context.contents(1);
  if (!known) return false;
  std::vector<int64_t> given;
  for (const Dim& axis : *known) {
    if (!axis.is_constant()) return false;
    given.push_back(axis.value());
  }
  axes = resolve_axes(given, context.type(0).rank(), noop_with_empty_axes);
  noop_with_empty_axes = false;
  return true;
}

std::vector<TensorType> Reduce::infer(const InferContext& context) const {
  context.expect_inputs(1, 2);
  const TensorType& x = context.type(0);
  if (x.dtype == DType::boolean && kind != ReduceKind::max && kind != ReduceKind::min)
    fail(ErrorKind::bad_file, "this reduction of ", x);
  if (context.has(1)) {
    if (!is_int(context.type(1).dtype)) fail(ErrorKind::bad_file, "the axes have type ", context.type(1));
    context.expect_rank(1, 1, 1);
    const Dim& count = context.type(1).shape[0];
    if (count.is_constant() && count.value() > x.rank()) fail(ErrorKind::bad_file, count, " axes of ", x);
    // How many there are decides the rank, unless each leaves an axis of 1.
    const int64_t rank = keepdims ? x.rank() : count == Dim(0) && !noop_with_empty_axes ? 0 : x.rank() - count.value();
    Shape unknown;
    for (int64_t i = 0; i < rank; ++i) unknown.push_back(context.unknown(0, i));
    return {{x.dtype, unknown}};
  }
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
    using U = std::conditional_t<std::is_same_v<W, int64_t>, uint64_t, W>;  // integers wrap
    const auto add = [](W a, W b) { return W(U(a) + U(b)); };
    const auto mul = [](W a, W b) { return W(U(a) * U(b)); };
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
      if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
        low = -std::numeric_limits<double>::infinity(), high = -low;
      W r = 0;
      switch (kind) {
        case ReduceKind::sum: each([&](W v) { r = add(r, v); }); break;
        case ReduceKind::mean:
          each([&](W v) { r = add(r, v); });
          if constexpr (floating) r /= double(n);
          else if (n) r /= W(n);
          break;
        case ReduceKind::max:
          r = low;
          each([&](W v) {
            if (v > r || v != v) r = v;
          });
          break;
        case ReduceKind::min:
          r = high;
          each([&](W v) {
            if (v < r || v != v) r = v;
          });
          break;
        case ReduceKind::prod:
          r = 1;
          each([&](W v) { r = mul(r, v); });
          break;
        case ReduceKind::l1: each([&](W v) { r = add(r, v < 0 ? mul(v, W(-1)) : v); }); break;
        case ReduceKind::l2:
          each([&](W v) { r = add(r, mul(v, v)); });
          r = cast_value<W>(std::sqrt(double(r)));
          break;
        case ReduceKind::log_sum:
          each([&](W v) { r = add(r, v); });
          r = cast_value<W>(std::log(double(r)));
          break;
        case ReduceKind::sum_square: each([&](W v) { r = add(r, mul(v, v)); }); break;
        case ReduceKind::log_sum_exp: {
          double peak = -std::numeric_limits<double>::infinity(), sum = 0;
          each([&](W v) { peak = std::max(peak, double(v)); });
          if (std::isinf(peak)) {
            r = cast_value<W>(peak);
            break;
          }
          each([&](W v) { sum += std::exp(double(v) - peak); });
          r = cast_value<W>(peak + std::log(sum));
          break;
        }
      }
      out.data<T>()[at] = static_cast<T>(r);
    });
  });
  return {out};
}

NarrowForm Reduce::narrow_form(const NarrowNode&) const {
  if (flow(0) != Flow::computed) return NarrowRole::carrier;
  return NarrowForm::stays_f32("its sums stay in fp32");
}

Operations Reduce::operations(std::span<const TensorType> inputs, std::span<const TensorType>) const {
  return {0, element_count(inputs[0])};
}

Flow Reduce::flow(size_t input) const {
  if (input != 0) return Flow::computed;
  switch (kind) {
    case ReduceKind::sum: return Flow::summed;
    case ReduceKind::mean: return Flow::averaged;
    case ReduceKind::max:
    case ReduceKind::min: return Flow::chosen;
    default: return Flow::computed;
  }
}

// Reducing axes of size 1 leaves the elements as they are. With a second input the axes are data.
bool Reduce::is_no_op(const TensorType& x, size_t inputs) const {
  switch (kind) {
    case ReduceKind::sum:
    case ReduceKind::mean:
    case ReduceKind::max:
    case ReduceKind::min:
    case ReduceKind::prod: break;
    default: return false;
  }
  return inputs == 1 &&
         std::all_of(axes.begin(), axes.end(), [&](int64_t axis) { return x.shape[size_t(axis)] == Dim(1); });
}

std::optional<std::vector<int64_t>> Reduce::take_untransposed(std::span<const int64_t> perm, size_t inputs) {
  if (inputs != 1) return std::nullopt;
  axes = untransposed_axes(axes, perm);
  if (keepdims) return same_transpose(perm);
  // What is left of the permutation without the reduced axes.
  std::vector<int64_t> rest;
  for (int64_t axis : perm)
    if (!std::binary_search(axes.begin(), axes.end(), axis))
      rest.push_back(axis - (std::lower_bound(axes.begin(), axes.end(), axis) - axes.begin()));
  return rest;
}

}  // namespace temper::ops
