// SPDX-License-Identifier: Apache-2.0
// Imports Det and com.microsoft's Inverse: elimination with the largest pivot of each column, one step of it after the
// other.
#include "onnx/node.h"

namespace temper {

namespace {

// The rows of square matrices of floats.
Dim squares_of(const OnnxNode& node, const TensorType& x, std::string_view what) {
  if (x.rank() < 2 || x.shape[size_t(x.rank() - 1)] != x.shape[size_t(x.rank() - 2)] || !is_float(x.dtype))
    node.bad("the ", what, " of ", x);
  if (!x.shape.back().is_constant()) node.refuse("the ", what, " of ", x, "; give a fixed shape with --shapes");
  if (x.shape.back().value() > 64) node.unsupported("the ", what, " of matrices of ", x.shape.back(), " rows");
  return x.shape.back();
}

// How many there are.
Dim batch_of(const TensorType& x) {
  Dim count = 1;
  for (size_t axis = 0; axis + 2 < x.shape.size(); ++axis) count = count * x.shape[axis];
  return count;
}

}  // namespace

void import_Det(OnnxNode& node) {
  const TensorType x = node.type(0);
  const int64_t size = squares_of(node, x, "determinant").value();
  const Shape batch(x.shape.begin(), x.shape.end() - 2);
  ValueId rest = node.reshape(node.cast(node.input(0), DType::f64), {batch_of(x), Dim(size), Dim(size)});
  ValueId det = node.body("(x, one) => (y) { n = Shape <end = 1> (x) y = Expand(one, n) }",
                          {rest, node.scalar(DType::f64, 1)})[0];
  // The pivot's row changes places with the first one; a column of zeros has the determinant 0, whatever is left.
  for (int64_t left = size; left > 0; --left) {
    const auto next =
        node.body(R"((a, det, zero, one, minus) => (rest, next) {
      first = Constant <value_int = 0> () first_ = Constant <value_ints = [0]> ()
      at1 = Constant <value_ints = [1]> () at2 = Constant <value_ints = [2]> ()
      far = Constant <value_ints = [1000]> () behind = Constant <value_int = 1> ()
      column = Gather <axis = 2> (a, first) size = Abs(column) index = ArgMax <axis = 1, keepdims = 1> (size)
      pivot_row = GatherND <batch_dims = 1> (a, index) top = Gather <axis = 1> (a, first)
      pivot = Gather <axis = 1> (pivot_row, first) none = Constant <value_ints = [1]> ()
      flat = Squeeze(index, none) moved = Greater(flat, first) sign = Where(moved, minus, one)
      signed = Mul(pivot, sign) next = Mul(det, signed)
      count = Shape <start = 1, end = 2> (a) count_ = Squeeze(count) numbers = Range(first, count_, behind)
      taken = Equal(index, numbers) taken_ = Unsqueeze(taken, at2) top_ = Unsqueeze(top, at1)
      swapped = Where(taken_, top_, a) below = Slice(swapped, at1, far, at1)
      factors = Slice(below, first_, at1, at2) right = Slice(below, at1, far, at2)
      flat_zero = Equal(pivot, zero) safe = Where(flat_zero, one, pivot) safe_ = Unsqueeze(safe, at1)
      safe__ = Unsqueeze(safe_, at1)
      scale = Div(factors, safe__) row = Unsqueeze(pivot_row, at1) row_ = Slice(row, at1, far, at2)
      change = Mul(scale, row_) rest = Sub(right, change)
    })",
                  {rest, det, node.scalar(DType::f64, 0), node.scalar(DType::f64, 1), node.scalar(DType::f64, -1)});
    rest = next[0];
    det = next[1];
  }
  node.set_output(0, node.cast(node.reshape(det, batch), x.dtype));
}

namespace microsoft {

// By Gauss and Jordan, of [a, 1]: each step brings the largest pivot of the first column's rows that have had none to
// the end, takes it out of the others, and leaves the column away. After all of them the rows are in order.
void import_Inverse(OnnxNode& node) {
  const TensorType x = node.type(0);
  const Dim size = squares_of(node, x, "inverse");
  const ValueId a = node.reshape(node.cast(node.input(0), DType::f64), {batch_of(x), size, size});
  ValueId rest = node.body(R"((a, n) => (y) { zero = Constant <value_float = 0.0> () wide = CastLike(zero, a)
      side = Concat <axis = 0> (n, n) zeros = Expand(wide, side) unit = EyeLike <k = 0> (zeros)
      b = Shape <end = 1> (a) all = Concat <axis = 0> (b, side)
      units = Expand(unit, all) y = Concat <axis = 2> (a, units) })",
                           {a, node.ints({size.value()})})[0];
  for (int64_t left = size.value(); left > 0; --left)
    rest = node.body(R"((a, left) => (next) {
      first = Constant <value_int = 0> () first_ = Constant <value_ints = [0]> ()
      at1 = Constant <value_ints = [1]> () at2 = Constant <value_ints = [2]> ()
      far = Constant <value_ints = [1000]> () behind = Constant <value_int = 1> ()
      column = Gather <axis = 2> (a, first) open = Slice(column, first_, left, at1) size = Abs(open)
      index = ArgMax <axis = 1, keepdims = 1> (size)
      pivot_row = GatherND <batch_dims = 1> (a, index) top = Gather <axis = 1> (a, first) top_ = Unsqueeze(top, at1)
      count = Shape <start = 1, end = 2> (a) count_ = Squeeze(count) numbers = Range(first, count_, behind)
      taken = Equal(index, numbers) taken_ = Unsqueeze(taken, at2) swapped = Where(taken_, top_, a)
      others = Slice(swapped, at1, far, at1) factors = Slice(others, first_, at1, at2)
      kept = Slice(others, at1, far, at2)
      pivot = Slice(pivot_row, first_, at1, at1)
      tail = Slice(pivot_row, at1, far, at1) scaled = Div(tail, pivot)
      row = Unsqueeze(scaled, at1) change = Mul(factors, row) reduced = Sub(kept, change)
      next = Concat <axis = 1> (reduced, row)
    })",
                     {rest, node.ints({left})})[0];
  node.set_output(0, node.cast(node.reshape(rest, x.shape), x.dtype));
}

}  // namespace microsoft

}  // namespace temper
