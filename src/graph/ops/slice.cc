// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/slice.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "graph/untranspose.h"

namespace temper::ops {

namespace {

// Exporters write "to the end" as INT32_MAX or INT64_MAX (and their negatives): beyond any size of an axis.
constexpr int64_t kFar = (int64_t(1) << 31) - 1;

struct Bound {
  Dim at;                 // counted from the front, not clamped
  bool from_end = false;  // was negative: may lie before the front, but not behind the last element
};

// Nothing where the sign of a symbolic bound, and with it what it counts from, is not known.
std::optional<Bound> resolve(const Dim& value, const Dim& size, int64_t before_front) {
  if (value.is_constant()) {
    if (value.value() >= kFar) return Bound{size};
    if (value.value() <= -kFar) return Bound{before_front};
    return value.value() < 0 ? Bound{size + value, true} : Bound{value};
  }
  if (value.is_non_negative()) return Bound{value};
  if ((Dim(-1) - value).is_non_negative()) return Bound{size + value, true};
  return std::nullopt;
}

// min(a, b), without the brackets where it can be shown which is smaller.
Dim smaller(const Dim& a, const Dim& b) {
  if ((b - a).is_non_negative()) return a;
  if ((a - b).is_non_negative()) return b;
  return dim_min(a, b);
}
Dim at_least_zero(const Dim& a) { return a.is_non_negative() ? a : dim_max(a, 0); }

// ONNX clamps, for positive steps, both bounds to [0, size]; for negative ones the start to [0, size-1] and the end to
// [-1, size-1].
bool bound_axis(Slice& slice, size_t axis, const Dim& from, const Dim& to, int64_t step, const Dim& size) {
  const auto start = resolve(from, size, 0), end = resolve(to, size, step > 0 ? 0 : -1);
  if (!start || !end) return false;
  slice.steps[axis] = step;
  if (step > 0) {
    const Dim first = start->from_end ? at_least_zero(start->at) : start->at;
    const Dim last = end->from_end ? at_least_zero(end->at) : smaller(end->at, size);
    slice.starts[axis] = start->from_end ? first : smaller(first, size);
    if (step == 1 && start->from_end && last == size)
      slice.sizes[axis] = smaller(size - start->at, size);  // the last k of n: min(k, n)
    else slice.sizes[axis] = at_least_zero(ceil_div(last - first, Dim(step)));
    return true;
  }
  const Dim back = size - Dim(1);
  const Dim first = start->at == back ? back : start->from_end ? at_least_zero(start->at) : smaller(start->at, back);
  const Dim last = end->from_end ? dim_max(end->at, -1) : smaller(end->at, back);
  slice.starts[axis] = first;
  slice.sizes[axis] = at_least_zero(ceil_div(first - last, Dim(-step)));
  return true;
}

}  // namespace

Slice slice_all(const Shape& shape) {
  Slice slice;
  slice.starts.assign(shape.size(), Dim(0));
  slice.sizes = shape;
  slice.steps.assign(shape.size(), 1);
  return slice;
}

bool Slice::absorb(const InferContext& context) {
  const TensorType& x = context.type(0);
  for (size_t i = 1; i < context.size(); ++i)
    if (context.has(i) && !context.contents(i)) return false;
  if (!context.has(1) || !context.has(2)) fail(ErrorKind::bad_file, "the starts or ends are missing");
  const Contents &from = *context.contents(1), &to = *context.contents(2);
  const Contents* by = context.contents(4);
  if (from.size() != to.size() || (by && by->size() != from.size()))
    fail(ErrorKind::bad_file, "starts ", from, " and ends ", to, " differ in length");
  Contents axes;
  if (context.has(3)) axes = *context.contents(3);
  else
    for (size_t i = 0; i < from.size(); ++i) axes.push_back(int64_t(i));
  if (axes.size() != from.size()) fail(ErrorKind::bad_file, "starts ", from, " and axes ", axes, " differ in length");
  Slice result = slice_all(x.shape);
  std::vector<char> seen(x.shape.size(), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    if (!axes[i].is_constant() || (by && !(*by)[i].is_constant())) return false;
    const size_t axis = size_t(normalize_axis(axes[i].value(), x.rank()));
    const int64_t step = by ? (*by)[i].value() : 1;
    if (step == 0 || step == INT64_MIN) fail(ErrorKind::bad_file, "a slice cannot have step ", step);
    if (seen[axis]++) fail(ErrorKind::bad_file, "axis ", int64_t(axis), " is named twice");
    if (!bound_axis(result, axis, from[i], to[i], step, x.shape[axis])) return false;
  }
  *this = result;
  return true;
}

std::vector<TensorType> Slice::infer(const InferContext& context) const {
  context.expect_inputs(1, 5);
  const TensorType& x = context.type(0);
  if (context.size() > 1) {
    TensorType out = x;
    const Contents* axes = context.contents(3);
    for (int64_t axis = 0; axis < x.rank(); ++axis) {
      bool cut = !axes;
      if (axes)
        for (const Dim& dim : *axes) cut |= !dim.is_constant() || normalize_axis(dim.value(), x.rank()) == axis;
      if (cut) out.shape[size_t(axis)] = context.unknown(0, axis);
    }
    return {out};
  }
  if (starts.size() != x.shape.size() || sizes.size() != x.shape.size() || steps.size() != x.shape.size())
    fail(ErrorKind::bad_file, "starts ", starts, ", sizes ", sizes, ", steps ", steps, " do not fit ", x);
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (steps[i] == 0) fail(ErrorKind::bad_file, "a step is 0");
    if (!sizes[i].is_constant() || !starts[i].is_constant() || !x.shape[i].is_constant()) continue;
    const int64_t n = sizes[i].value(), first = starts[i].value(), size = x.shape[i].value();
    if (n < 0) fail(ErrorKind::bad_file, "axis ", i, ": a slice of ", n, " elements");
    if (n == 0) continue;
    const int64_t last = checked_add(first, checked_mul(n - 1, steps[i]));
    if (std::min(first, last) < 0 || std::max(first, last) >= size)
      fail(ErrorKind::bad_file, "axis ", i, ": elements ", first, " to ", last, " of ", size);
  }
  return {{x.dtype, sizes}};
}

std::vector<Tensor> Slice::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  const Tensor& x = inputs[0];
  Tensor out(x.dtype(), outputs[0].dims());
  const Dims from = row_major_strides(x.dims());
  int64_t base = 0;
  Dims strides;
  for (size_t axis = 0; axis < from.size(); ++axis) {
    base += starts[axis].value() * from[axis];
    strides.push_back(steps[axis] * from[axis]);
  }
  const size_t size = size_t(size_of(x.dtype()));
  for_each_index(out.dims(), [&](const Dims& index, int64_t i) {
    int64_t offset = base;
    for (size_t axis = 0; axis < index.size(); ++axis) offset += index[axis] * strides[axis];
    std::memcpy(out.raw_mutable() + size_t(i) * size, x.raw().data() + size_t(offset) * size, size);
  });
  return {out};
}

bool Slice::is_no_op(const TensorType& x, size_t inputs) const {
  return inputs == 1 && sizes == x.shape && std::all_of(steps.begin(), steps.end(), [](int64_t s) { return s == 1; });
}

std::optional<std::vector<int64_t>> Slice::take_untransposed(std::span<const int64_t> perm, size_t inputs) {
  if (inputs != 1) return std::nullopt;
  starts = untransposed(starts, perm), sizes = untransposed(sizes, perm), steps = untransposed(steps, perm);
  return same_transpose(perm);
}

}  // namespace temper::ops
