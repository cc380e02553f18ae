// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/pad.h"

#include <algorithm>
#include <cstring>

#include "graph/untranspose.h"

namespace temper::ops {

bool Pad::absorb(const InferContext& context) {
  const TensorType& x = context.type(0);
  const Contents *pads = context.contents(2), *axes = context.contents(3);
  if (!pads || (context.has(3) && !axes)) return false;
  Contents all;
  for (int64_t i = 0; i < x.rank() && !axes; ++i) all.push_back(i);
  if (!axes) axes = &all;
  if (pads->size() != 2 * axes->size())
    fail(ErrorKind::bad_file, "pads ", *pads, " do not fit ", axes->size(), " axes");
  Pad result = *this;
  result.before.assign(x.shape.size(), Dim(0));
  result.after = result.before;
  std::vector<char> seen(x.shape.size(), 0);
  for (size_t i = 0; i < axes->size(); ++i) {
    if (!(*axes)[i].is_constant()) return false;
    const size_t axis = size_t(normalize_axis((*axes)[i].value(), x.rank()));
    if (seen[axis]++) fail(ErrorKind::bad_file, "axis ", int64_t(axis), " is padded twice");
    result.before[axis] = (*pads)[i];
    result.after[axis] = (*pads)[i + axes->size()];
  }
  *this = result;
  return true;
}

std::vector<TensorType> Pad::infer(const InferContext& context) const {
  context.expect_inputs(1, 4);
  TensorType out = context.type(0);
  if (context.has(1)) {
    context.expect_same_dtype(0, 1);
    if (!context.type(1).is_concrete() || element_count(context.type(1).dims()) != 1)
      fail(ErrorKind::bad_file, "the value to pad with is ", context.type(1), ", not a scalar");
  }
  if (context.size() > 2) {
    for (int64_t i = 0; i < out.rank(); ++i) out.shape[size_t(i)] = context.unknown(0, i);
    return {out};
  }
  if (before.size() != out.shape.size() || after.size() != out.shape.size())
    fail(ErrorKind::bad_file, "pads ", before, " and ", after, " do not fit ", out);
  for (size_t i = 0; i < before.size(); ++i) {
    Dim& dim = out.shape[i];
    if (dim.is_constant() && before[i].is_constant() && after[i].is_constant()) {
      const int64_t size = dim.value(),
                    left = size + std::min<int64_t>(before[i].value(), 0) + std::min<int64_t>(after[i].value(), 0);
      if (left < 0)
        fail(ErrorKind::bad_file, "axis ", i, " of ", context.type(0), " cannot lose ", before[i], " and ", after[i]);
      if (kind != PadKind::constant && left == 0 && (before[i].value() > 0 || after[i].value() > 0))
        fail(ErrorKind::bad_file, "an empty axis cannot be padded with what is in it");
    }
    dim = dim + before[i] + after[i];
  }
  return {out};
}

std::vector<Tensor> Pad::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  const Tensor& x = inputs[0];
  Tensor out(x.dtype(), outputs[0].dims());
  const Dims &from = x.dims(), strides = row_major_strides(from);
  const size_t size = size_t(size_of(x.dtype()));
  const std::byte* value = inputs.size() > 1 && inputs[1].defined() ? inputs[1].raw().data() : nullptr;
  // Cropped elements are gone: the other modes see only the rest, [low, high).
  Dims low, high, first;
  for (size_t i = 0; i < from.size(); ++i) {
    low.push_back(std::max<int64_t>(0, -before[i].value()));
    high.push_back(from[i] - std::max<int64_t>(0, -after[i].value()));
    first.push_back(before[i].value());
  }
  auto wrap = [](int64_t a, int64_t n) { return ((a % n) + n) % n; };
  for_each_index(out.dims(), [&](const Dims& index, int64_t at) {
    int64_t offset = 0;
    bool inside = true;
    for (size_t i = 0; i < index.size(); ++i) {
      int64_t position = index[i] - first[i] - low[i];
      const int64_t n = high[i] - low[i];
      if (position < 0 || position >= n) switch (kind) {
          case PadKind::constant: inside = false; break;
          case PadKind::edge: position = std::clamp<int64_t>(position, 0, n - 1); break;
          case PadKind::wrap: position = wrap(position, n); break;
          case PadKind::reflect:
            position = n == 1 ? 0 : wrap(position, 2 * (n - 1));
            if (position >= n) position = 2 * (n - 1) - position;
            break;
        }
      offset += (position + low[i]) * strides[i];
    }
    std::byte* to = out.raw_mutable() + size_t(at) * size;
    if (inside) std::memcpy(to, x.raw().data() + size_t(offset) * size, size);
    else if (value) std::memcpy(to, value, size);
  });
  return {out};
}

NarrowForm Pad::narrow_form(const NarrowNode& node) const {
  const bool fills = kind == PadKind::constant && node.has(1);
  if (node.inputs() <= 2 && (!fills || node.survives(1))) return NarrowForm::carries(2);
  return NarrowForm::stays_f32(concat(node.dtype(), " does not hold what it fills in"));
}

// A second input is the value that it fills with.
bool Pad::is_no_op(const TensorType&, size_t inputs) const {
  const auto none = [](const Dim& dim) { return dim == Dim(0); };
  return inputs <= 2 && std::all_of(before.begin(), before.end(), none) &&
         std::all_of(after.begin(), after.end(), none);
}

std::optional<std::vector<int64_t>> Pad::take_untransposed(std::span<const int64_t> perm, size_t inputs) {
  if (inputs != 1) return std::nullopt;
  before = untransposed(before, perm), after = untransposed(after, perm);
  return same_transpose(perm);
}

}  // namespace temper::ops
