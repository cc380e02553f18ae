// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/reshape.h"

namespace temper::ops {

Shape resolve_reshape(const Shape& from, const Contents& target, bool allow_zero) {
  Shape shape;
  int inferred = -1;
  for (size_t i = 0; i < target.size(); ++i) {
    Dim dim = target[i];
    if (dim == Dim(0) && !allow_zero) {
      if (i >= from.size())
        fail(ErrorKind::bad_file, "reshape to ", target, ": axis ", i, " is copied from an input of rank ",
             from.size());
      dim = from[i];
    } else if (dim == Dim(-1)) {
      if (inferred >= 0) fail(ErrorKind::bad_file, "reshape to ", target, " has two -1");
      inferred = int(i);
      dim = 1;
    } else if (dim.is_constant() && dim.value() < 0) {
      fail(ErrorKind::bad_file, "reshape to ", target, " has a negative dimension");
    }
    shape.push_back(dim);
  }
  if (inferred >= 0) {
    // Axes that both sides share cancel, so that [N,C,H,W] -> [N,-1] needs no division by a symbol.
    Shape left, right = shape;
    for (const Dim& dim : from) {
      bool cancelled = false;
      for (Dim& other : right)
        if (!(dim == Dim(1)) && !(dim == Dim(0)) && dim == other) {
          other = 1;
          cancelled = true;
          break;
        }
      if (!cancelled) left.push_back(dim);
    }
    Dim total = 1, known = 1;
    for (const Dim& dim : left) total = total * dim;
    for (const Dim& dim : right) known = known * dim;
    if (known == Dim(0)) fail(ErrorKind::bad_file, "reshape to ", target, ": -1 cannot be found beside a 0");
    shape[size_t(inferred)] = floor_div(total, known);
  }
  return shape;
}

bool Reshape::absorb(const InferContext& context) {
  const Contents* target = context.contents(1);
  if (!target) return false;
  shape = resolve_reshape(context.type(0).shape, *target, allow_zero);
  allow_zero = false;
  return true;
}

std::vector<TensorType> Reshape::infer(const InferContext& context) const {
  context.expect_inputs(1, 2);
  const TensorType& x = context.type(0);
  TensorType out{x.dtype, shape};
  if (context.has(1)) {
    context.expect_rank(1, 1, 1);
    out.shape.clear();
    const int64_t rank = context.type(1).shape[0].value();
    if (rank > kMaxRank) fail(ErrorKind::bad_file, "a shape of ", rank, " dimensions; ", kMaxRank, " are allowed");
    for (int64_t i = 0; i < rank; ++i) out.shape.push_back(context.unknown(0, i));
    return {out};
  }
  if (x.is_concrete() && out.is_concrete() && element_count(x.dims()) != element_count(out.dims()))
    fail(ErrorKind::bad_file, "a tensor ", x, " cannot be reshaped to ", out.shape);
  return {out};
}

std::vector<Tensor> Reshape::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  return {inputs[0].reshaped(outputs[0].dims())};
}

}  // namespace temper::ops
