// SPDX-License-Identifier: Apache-2.0
// Imports MaxRoiPool (Girshick, "Fast R-CNN", 2015): the maximum of each bin of a region, whose corners are rounded to
// elements. A bin is a rectangle: the maximum along its columns, then along its rows. One without elements is 0.
#include <limits>

#include "onnx/node.h"

namespace temper {

void import_MaxRoiPool(OnnxNode& node) {
  const TensorType x = node.type(0), rois = node.type(1);
  if (x.rank() != 4 || rois.rank() != 2 || (rois.shape[1].is_constant() && rois.shape[1] != Dim(5)))
    node.bad("regions ", rois, " of ", x);
  const auto pooled = node.ints_attribute("pooled_shape", {});
  if (pooled.size() != 2 || pooled[0] < 1 || pooled[1] < 1) node.bad("pooled_shape is ", pooled);
  const DType exact = x.dtype == DType::f64 ? DType::f64 : DType::f32;
  // ONNX Runtime begins with the lowest finite number, so that a bin of -inf alone gives it; here it gives -inf.
  const ValueId lowest = node.cast(node.scalar(exact, -std::numeric_limits<double>::infinity()), x.dtype);
  const auto number = [&](double value) { return node.scalar(exact, value); };
  const ValueId size = node.cast(node.constant(Tensor::of<int64_t>({2}, {pooled[1], pooled[0]})), exact);
  const auto y =
      node.body(concat(R"((x, rois, scale, half, one, size, lowest) => (y) {
    i0 = Constant <value_int = 0> () i1 = Constant <value_int = 1> ()
    a0 = Constant <value_ints = [0]> () a1 = Constant <value_ints = [1]> () a2 = Constant <value_ints = [2]> ()
    last = Constant <value_ints = [-1]> () across = Constant <value_ints = [1, 2]> ()
    rows_at = Constant <value_ints = [1, 3]> () cells_at = Constant <value_ints = [1, 4]> ()
    number = Gather <axis = 1> (rois, i0) number_ = Cast <to = 7> (number) picture = Gather(x, number_)
    ends = Constant <value_ints = [5]> () corners = Slice(rois, a1, ends, a1)
    scaled = Mul(corners, scale) far = Abs(scaled) more = Add(far, half) whole = Floor(more) sign = Sign(scaled)
    rounded = Mul(whole, sign) first, end = Split <axis = 1, num_outputs = 2> (rounded)
    long_ = Sub(end, first) long = Add(long_, one) length = Max(long, one) bin = Div(length, size)
    h_ = Shape <start = 2, end = 3> (x) w_ = Shape <start = 3> (x) h = Squeeze(h_) w = Squeeze(w_)
    hf = CastLike(h, one) wf = CastLike(w, one) zero = Sub(one, one)

    column_ = Range(i0, w, i1) column = CastLike(column_, one)
    pw = Constant <value_int = )",
                       pooled[1], R"(> () px_ = Range(i0, pw, i1) px = CastLike(px_, one) px1 = Add(px, one)
    bin_w = Gather <axis = 1> (bin, a0) from_w = Gather <axis = 1> (first, a0)
    left_a = Mul(px, bin_w) left_b = Floor(left_a) left_c = Add(left_b, from_w) left_d = Max(left_c, zero)
    left = Min(left_d, wf)
    right_a = Mul(px1, bin_w) right_b = Ceil(right_a) right_c = Add(right_b, from_w) right_d = Max(right_c, zero)
    right = Min(right_d, wf) no_columns = LessOrEqual(right, left)
    left_ = Unsqueeze(left, last) right_ = Unsqueeze(right, last)
    in_a = GreaterOrEqual(column, left_) in_b = Less(column, right_) in_c = And(in_a, in_b)
    in_columns = Unsqueeze(in_c, across)
    spread = Unsqueeze(picture, last) spread_ = Transpose <perm = [0, 1, 2, 4, 3]> (spread)
    chosen = Where(in_columns, spread_, lowest) strips = ReduceMax <keepdims = 0> (chosen, last)

    row_ = Range(i0, h, i1) row = CastLike(row_, one)
    ph = Constant <value_int = )",
                       pooled[0], R"(> () py_ = Range(i0, ph, i1) py = CastLike(py_, one) py1 = Add(py, one)
    bin_h = Gather <axis = 1> (bin, a1) from_h = Gather <axis = 1> (first, a1)
    top_a = Mul(py, bin_h) top_b = Floor(top_a) top_c = Add(top_b, from_h) top_d = Max(top_c, zero) top = Min(top_d, hf)
    bottom_a = Mul(py1, bin_h) bottom_b = Ceil(bottom_a) bottom_c = Add(bottom_b, from_h) bottom_d = Max(bottom_c, zero)
    bottom = Min(bottom_d, hf) no_rows = LessOrEqual(bottom, top)
    top_ = Unsqueeze(top, last) bottom_ = Unsqueeze(bottom, last)
    on_a = GreaterOrEqual(row, top_) on_b = Less(row, bottom_) on_c = And(on_a, on_b)
    in_rows = Unsqueeze(on_c, cells_at)
    strips_ = Unsqueeze(strips, a2) of_rows = Where(in_rows, strips_, lowest)
    three = Constant <value_ints = [3]> () most = ReduceMax <keepdims = 0> (of_rows, three)

    no_row = Unsqueeze(no_rows, rows_at) no_column = Unsqueeze(no_columns, across) none = Or(no_row, no_column)
    nothing = CastLike(zero, x) y = Where(none, nothing, most)
  })"),
                {node.input(0), node.cast(node.input(1), exact),
                 number(double(node.float_attribute("spatial_scale", 1))), number(0.5), number(1), size, lowest})[0];
  node.set_output(0, y);
}

}  // namespace temper
