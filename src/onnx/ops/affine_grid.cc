// SPDX-License-Identifier: Apache-2.0
// Imports AffineGrid: the positions of a picture's elements, between -1 and 1, through one affine map for each sample.
// The size may be data.
#include "onnx/body_text.h"
#include "onnx/node.h"

namespace temper {

namespace {

// `count` positions along one axis as the value NAME; a size that is data is read from `size` at `index`. A lone
// element between aligned corners is in the middle.
std::string axis_text(std::string_view name, int64_t index, bool align_corners) {
  std::string text = R"(
$n_at = Constant <value_int = $index> ()
$n_n = Gather(size, $n_at)
$n_i = Range(zero, $n_n, one)
$n_f = CastLike($n_i, two)
$n_c = CastLike($n_n, two)
$n_twice = Mul($n_f, two)
)";
  if (align_corners)
    text += R"($n_less = Sub($n_c, unit)
$n_last = Max($n_less, unit)
$n_q = Div($n_twice, $n_last)
$n_most = Min($n_less, unit)
$n = Sub($n_q, $n_most)
)";
  else
    text += R"($n_odd = Add($n_twice, unit)
$n_q = Div($n_odd, $n_c)
$n = Sub($n_q, unit)
)";
  return body_text(text, {{"$n", std::string(name)}, {"$index", concat(index)}});
}

}  // namespace

void import_AffineGrid(OnnxNode& node) {
  const bool align = node.int_attribute("align_corners", 0) != 0;
  const TensorType theta = node.type(0), size = node.type(1);
  const bool flat = size.shape == Shape{Dim(4)};
  if (!flat && size.shape != Shape{Dim(5)}) node.bad("a size of type ", size);
  const int64_t axes = flat ? 2 : 3;
  if (!is_float(theta.dtype) || theta.rank() != 3 || theta.shape[1] != Dim(axes) || theta.shape[2] != Dim(axes + 1))
    node.bad("theta has type ", theta, " for ", axes, " axes");
  const DType wide = theta.dtype == DType::f64 ? DType::f64 : DType::f32;
  std::string text =
      "(theta, size, two, unit) => (y) { zero = Constant <value_int = 0> () one = Constant <value_int = 1> ()\n";
  const char* names[] = {"d", "h", "w"};
  std::string columns;
  for (int64_t i = 3 - axes; i < 3; ++i) text += axis_text(names[i], 2 + i - (3 - axes), align);
  text += concat("begin = Constant <value_ints = [2]> () end = Constant <value_ints = [", 2 + axes,
                 "]> () space = Slice(size, begin, end)\n");
  // x, y, z, 1: the last axis first.
  for (int64_t i = 2; i >= 3 - axes; --i) {
    const std::string n = names[i];
    std::string behind;
    for (int64_t k = i + 1; k < 3; ++k) behind += concat(behind.empty() ? "" : ", ", k - i);
    if (behind.empty()) text += concat(n, "_line = Identity(", n, ")\n");
    else
      text += concat(n, "_axes = Constant <value_ints = [", behind, "]> () ", n, "_line = Unsqueeze(", n, ", ", n,
                     "_axes)\n");
    text += concat(n, "_all = Expand(", n, "_line, space) ", n, "_column = Unsqueeze(", n, "_all, last)\n");
    columns += concat(n, "_column, ");
  }
  text.insert(text.find('{') + 1, " last = Constant <value_ints = [-1]> ()\n");
  text +=
      concat("ones = Expand(unit, space) ones_column = Unsqueeze(ones, last) base = Concat <axis = -1> (", columns,
             "ones_column)\nrows = Constant <value_ints = [-1, ", axes + 1,
             "]> () flat = Reshape(base, rows) maps = Transpose <perm = [0, 2, 1]> (theta) moved = MatMul(flat, maps)\n"
             "samples = Shape <end = 1> (theta) width = Constant <value_ints = [",
             axes, "]> () shape = Concat <axis = 0> (samples, space, width) y = Reshape(moved, shape) }");
  const ValueId y = node.body(text, {node.cast(node.input(0), wide), node.cast(node.input(1), DType::i64),
                                     node.scalar(wide, 2), node.scalar(wide, 1)})[0];
  node.set_output(0, node.cast(y, theta.dtype));
}

}  // namespace temper
