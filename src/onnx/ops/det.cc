// SPDX-License-Identifier: Apache-2.0
// Imports Det: elimination with the largest pivot of each column, one step of it after the other.
#include "onnx/node.h"

namespace temper {

void import_Det(OnnxNode& node) {
  const TensorType x = node.type(0);
  if (x.rank() < 2 || x.shape[size_t(x.rank() - 1)] != x.shape[size_t(x.rank() - 2)] || !is_float(x.dtype))
    node.bad("the determinant of ", x);
  if (!x.shape.back().is_constant()) node.refuse("the determinant of ", x, "; give a fixed shape with --shapes");
  const int64_t size = x.shape.back().value();
  if (size > 64) node.unsupported("the determinant of matrices of ", size, " rows");
  const Shape batch(x.shape.begin(), x.shape.end() - 2);
  Dim count = 1;
  for (const Dim& dim : batch) count = count * dim;
  ValueId rest = node.reshape(node.cast(node.input(0), DType::f64), {count, Dim(size), Dim(size)});
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

}  // namespace temper
