// SPDX-License-Identifier: Apache-2.0
// Imports DFT and STFT: products with the matrix of the transform, which is a constant where the length is known at
// import, and computed when the model runs otherwise. An axis that is data chooses between the transforms along each.
#include <cmath>

#include "graph/ops/choose.h"
#include "graph/ops/gather.h"
#include "graph/ops/matmul.h"
#include "graph/ops/pad.h"
#include "graph/ops/range.h"
#include "graph/ops/shape.h"
#include "graph/ops/slice.h"
#include "graph/ops/transpose.h"
#include "onnx/node.h"

namespace temper {

namespace {

constexpr int64_t kMaxMatrix = int64_t(1) << 24;  // elements of a transform's matrix

// [bins_in * parts, bins_out * 2 or 1], real and imaginary parts side by side. With `onesided`, a forward transform
// gives and an inverse one takes the first half of the frequencies.
Tensor transform_matrix(OnnxNode& node, DType dtype, int64_t n, int64_t parts, bool inverse, bool onesided) {
  const int64_t half = n / 2 + 1, in = inverse && onesided ? half : n, out = !inverse && onesided ? half : n;
  const int64_t out_parts = inverse && onesided ? 1 : 2;
  if (n > (int64_t(1) << 20) || in * parts * out * out_parts > kMaxMatrix)
    node.unsupported("a transform of length ", n);
  Tensor matrix(DType::f64, {in * parts, out * out_parts});
  double* m = matrix.data<double>();
  for (int64_t i = 0; i < in; ++i)
    for (int64_t o = 0; o < out; ++o) {
      const double angle = 2 * M_PI * double(i * o % n) / double(n) * (inverse ? 1 : -1);
      double scale = inverse ? 1 / double(n) : 1;
      // The frequencies that are left out are the conjugates of those that have a partner.
      if (inverse && onesided && i != 0 && 2 * i != n) scale *= 2;
      const double re = std::cos(angle) * scale, im = std::sin(angle) * scale;
      double* row = m + i * parts * out * out_parts + o * out_parts;
      row[0] = re;
      if (out_parts == 2) row[1] = im;
      if (parts == 2) {
        row += out * out_parts;
        row[0] = -im;
        if (out_parts == 2) row[1] = re;
      }
    }
  return matrix.converted(dtype);
}

// x [..., T, ..., parts] with that axis in front of the last one, and the way back.
struct Turned {
  ValueId x;
  ops::Transpose back;
  bool moves = false;
};
Turned turned(OnnxNode& node, ValueId x, int64_t axis) {
  const TensorType type = node.graph().type(x);
  const int64_t rank = type.rank(), last = rank - 1;
  if (axis < 0 || axis >= last) node.bad("axis ", axis, " of ", type);
  if (const int64_t parts = type.shape.back().value(); parts != 1 && parts != 2)
    node.bad("the last axis of ", type, " is neither real nor complex");
  if (!is_float(type.dtype)) node.bad("a transform of ", type);
  ops::Transpose to_end;
  for (int64_t i = 0; i < last; ++i)
    if (i != axis) to_end.perm.push_back(i);
  to_end.perm.push_back(axis);
  to_end.perm.push_back(last);
  Turned out{x, {}, axis != last - 1};
  out.back.perm.resize(size_t(rank));
  for (int64_t i = 0; i < rank; ++i) out.back.perm[size_t(to_end.perm[size_t(i)])] = i;
  if (out.moves) out.x = node.add(to_end, {x});
  return out;
}

// x [..., T, ..., parts] along `axis`; the length `n` of the transform pads or cuts that axis.
ValueId transform(OnnxNode& node, ValueId x, int64_t axis, int64_t n, bool inverse, bool onesided) {
  const Turned all = turned(node, x, axis);
  const TensorType type = node.graph().type(all.x);
  const size_t along = type.shape.size() - 2;
  const int64_t parts = type.shape.back().value(), wanted = inverse && onesided ? n / 2 + 1 : n;
  ops::Pad fit;  // which cuts where it is negative
  fit.before.assign(type.shape.size(), Dim(0));
  fit.after = fit.before;
  fit.after[along] = Dim(wanted) - type.shape[along];
  x = fit.after[along] == Dim(0) ? all.x : node.add(fit, {all.x});
  Shape flat = node.graph().type(x).shape;
  flat.pop_back();
  flat.back() = wanted * parts;
  const Tensor matrix = transform_matrix(node, type.dtype, n, parts, inverse, onesided);
  const int64_t out_parts = inverse && onesided ? 1 : 2, columns = matrix.dims()[1];
  ValueId y = node.reshape(x, flat);
  if (flat.size() == 1) y = node.reshape(y, {Dim(1), flat[0]});
  y = node.product(ops::MatMul{}, {y, node.constant(matrix)});
  flat.back() = columns / out_parts;
  flat.push_back(out_parts);
  y = node.reshape(y, flat);
  return all.moves ? node.add(all.back, {y}) : y;
}

// The same for a length that is known when the model runs, an i64 of rank 0. One below 1 is looked up in vain.
ValueId computed_transform(OnnxNode& node, ValueId x, int64_t axis, ValueId n, bool inverse, bool onesided) {
  const Turned all = turned(node, x, axis);
  const bool is_complex = node.graph().type(all.x).shape.back() == Dim(2), real = inverse && onesided;
  const std::string text = concat(
      R"((x, n0, unit, turn) => (y) {
    zero = Constant <value_int = 0> () one = Constant <value_int = 1> () two = Constant <value_int = 2> ()
    zeros = Constant <value_ints = [0]> () ones = Constant <value_ints = [1]> () last = Constant <value_ints = [-1]> ()
    second_last = Constant <value_ints = [-2]> () rows_columns = Constant <value_ints = [1, 3]> ()
    none_ = Less(n0, one) none = Cast <to = 7> (none_) factor = Gather(ones, none) n = Mul(n0, factor)
    half_ = Div(n, two) half = Add(half_, one)
    )",
      real ? "from = Identity(half)" : "from = Identity(n)",
      !inverse && onesided ? " to = Identity(half)" : " to = Identity(n)",
      R"( from1 = Unsqueeze(from, zeros) to1 = Unsqueeze(to, zeros)
    size = Shape <start = -2, end = -1> (x) missing = Sub(from1, size) pads = Concat <axis = 0> (zeros, missing)
    nothing = CastLike(zero, x) fitted = Pad(x, pads, nothing, second_last)
    row = Range(zero, from, one) column = Range(zero, to, one) rows = Unsqueeze(row, last)
    product = Mul(rows, column) part = Mod(product, n) part_ = CastLike(part, unit) n_ = CastLike(n, unit)
    share = Div(part_, n_) angle = Mul(share, turn) cos0 = Cos(angle) sin0 = Sin(angle)
    )",
      // The frequencies that are left out are the conjugates of those that have a partner.
      real      ? R"( twice = Mul(rows, two) at_end = Equal(twice, n) at_start = Equal(rows, zero)
    alone = Or(at_end, at_start) two_ = CastLike(two, unit) weight = Where(alone, unit, two_) scale = Div(weight, n_)
    )"
      : inverse ? "scale = Div(unit, n_)\n"
                : "scale = Identity(unit)\n",
      "cos1 = Mul(cos0, scale) sin1 = Mul(sin0, scale) cos2 = CastLike(cos1, x) sin2 = CastLike(sin1, x) "
      "minus2 = Neg(sin2) cos = Unsqueeze(cos2, rows_columns)\n",
      inverse ? "sin = Unsqueeze(sin2, rows_columns) minus = Unsqueeze(minus2, rows_columns)\n"
              : "sin = Unsqueeze(minus2, rows_columns) minus = Unsqueeze(sin2, rows_columns)\n",
      real ? "of_re = Identity(cos) of_im = Identity(minus)\n"
           : "of_re = Concat <axis = 3> (cos, sin) of_im = Concat <axis = 3> (minus, cos)\n",
      is_complex ? "matrix4 = Concat <axis = 1> (of_re, of_im) count = Mul(from1, two)\n"
                 : "matrix4 = Identity(of_re) count = Identity(from1)\n",
      real ? "parts = Identity(ones)\n" : "parts = Add(ones, ones)\n", R"(
    columns = Mul(to1, parts) matrix_shape = Concat <axis = 0> (count, columns) matrix = Reshape(matrix4, matrix_shape)
    lead = Shape <start = 0, end = -2> (x) flat_shape = Concat <axis = 0> (lead, count)
    flat = Reshape(fitted, flat_shape) y0 = MatMul(flat, matrix) y_shape = Concat <axis = 0> (lead, to1, parts)
    y = Reshape(y0, y_shape)
  })");
  const ValueId y = node.body(text, {all.x, n, node.scalar(DType::f64, 1), node.scalar(DType::f64, 2 * M_PI)})[0];
  return all.moves ? node.add(all.back, {y}) : y;
}

int64_t one_number(OnnxNode& node, size_t input, std::string_view what) {
  const auto values = node.constant_ints(input, what);
  if (values.size() != 1) node.bad(what, " is not one number");
  return values[0];
}

// The length of the transform along an axis: what is given, or what the axis has. Nothing where it is not known.
std::optional<int64_t> known_length(OnnxNode& node, int64_t axis, bool inverse, bool onesided) {
  if (node.has(1)) {
    const Contents* contents = node.contents(1);
    if (!node.constant(1) && !(contents && contents->size() == 1 && contents->front().is_constant()))
      return std::nullopt;
    return one_number(node, 1, "dft_length");
  }
  const Dim& size = node.type(0).shape.at(size_t(axis));
  if (!size.is_constant()) return std::nullopt;
  return inverse && onesided ? 2 * (size.value() - 1) : size.value();
}

ValueId computed_length(OnnxNode& node, int64_t axis, bool inverse, bool onesided) {
  if (node.has(1)) return node.reshape(node.cast(node.input(1), DType::i64), {});
  ops::ShapeOf size;
  size.start = axis;
  size.end = axis + 1;
  const ValueId all = node.reshape(node.add(size, {node.input(0)}), {});
  if (!inverse || !onesided) return all;
  ProgramBuilder b({DType::i64});
  const int before = b.op(Scalar::sub, 0, b.constant(DType::i64, 1));
  return node.program(b.result(b.op(Scalar::mul, before, b.constant(DType::i64, 2))), {all});
}

ValueId transform_along(OnnxNode& node, int64_t axis, bool inverse, bool onesided) {
  const auto length = known_length(node, axis, inverse, onesided);
  if (!length)
    return computed_transform(node, node.input(0), axis, computed_length(node, axis, inverse, onesided), inverse,
                              onesided);
  if (*length < 1) node.bad("dft_length is ", *length);
  return transform(node, node.input(0), axis, *length, inverse, onesided);
}

// The axis as a number from 0 on, computed when the model runs: one that does not exist is looked up in vain, which is
// an error there.
ValueId checked_axis(OnnxNode& node, int64_t rank) {
  Tensor axes(DType::i64, {rank - 1});
  for (int64_t i = 0; i < rank - 1; ++i) axes.data<int64_t>()[i] = i;
  ProgramBuilder b({DType::i64});
  auto number = [&](int64_t value) { return b.constant(DType::i64, double(value)); };
  const int zero = number(0), from_end = b.op(Scalar::add, 0, number(rank));
  const int axis = b.op(Scalar::where, b.op(Scalar::less, 0, zero), from_end, 0);
  const Program program = b.result(b.op(Scalar::where, b.op(Scalar::less, axis, zero), number(rank), axis));
  const ValueId given = node.reshape(node.cast(node.input(2), DType::i64), {});
  return node.add(ops::Gather{}, {node.constant(axes), node.program(program, {given})});
}

// An axis along which there is no transform (an inverse of one frequency has no length) is left out: a run that chooses
// it ends with an error.
ValueId transform_along_chosen(OnnxNode& node, bool inverse, bool onesided) {
  const int64_t rank = node.type(0).rank();
  const ValueId axis = checked_axis(node, rank);
  ValueId y;
  for (int64_t candidate = rank - 1; candidate-- > 0;) {
    if (known_length(node, candidate, inverse, onesided).value_or(1) < 1) continue;
    const ValueId other = transform_along(node, candidate, inverse, onesided);
    ops::Choose choose;
    if (y.valid()) {
      const Shape &a = node.graph().type(other).shape, &b = node.graph().type(y).shape;
      for (size_t i = 0; i < a.size(); ++i)
        if (a[i] != b[i]) choose.open.insert(choose.open.end(), {0, int64_t(i)});
    }
    const ValueId chosen =
        node.pointwise(Scalar::equal, {axis, node.constant(Tensor::of<int64_t>({}, {candidate}))}, DType::boolean);
    y = node.add(choose, {chosen, other, y});
  }
  if (!y.valid()) node.bad("a transform of ", node.type(0));
  return y;
}

}  // namespace

void import_DFT(OnnxNode& node) {
  const bool inverse = node.int_attribute("inverse", 0) != 0, onesided = node.int_attribute("onesided", 0) != 0;
  const int64_t rank = node.type(0).rank();
  if (rank < 2) node.bad("a transform of ", node.type(0));
  if (node.opset() >= 20 && node.has(2) && !node.constant(2) && !node.contents(2))
    return node.set_output(0, transform_along_chosen(node, inverse, onesided));
  int64_t axis = 0;
  if (node.opset() < 20) axis = node.int_attribute("axis", 1);
  else axis = node.has(2) ? one_number(node, 2, "the axis") : -2;
  node.set_output(0, transform_along(node, normalize_axis(axis, rank), inverse, onesided));
}

namespace {

// The step or the length is data: the matrix of the transform is computed when the model runs.
ValueId short_transform(OnnxNode& node, bool onesided) {
  const TensorType signal = node.type(0);
  if (signal.rank() != 2 && !(signal.rank() == 3 && signal.shape[2] == Dim(1)))
    node.unsupported("a signal ", signal, " with a frame_step or frame_length that is data");
  const DType dtype = signal.dtype;
  const bool windowed = node.has(2), given = node.has(3);
  if (!windowed && !given) node.refuse("neither window nor frame_length");
  auto number = [&](size_t i) { return node.reshape(node.cast(node.input(i), DType::i64), {}); };
  const ValueId one = node.scalar(DType::f64, 1);
  const std::string text = concat(R"((x, step, size, window, unit, turn) => (y) {
    zero = Constant <value_int = 0> () one = Constant <value_int = 1> () two = Constant <value_int = 2> ()
    last = Constant <value_ints = [-1]> () first = Constant <value_ints = [0]> () )",
                                  windowed ? "n = Size(window)\n" : "n = Identity(size)\n", R"(
    samples_ = Shape <start = 1> (x) samples = Squeeze(samples_) room = Sub(samples, n) steps = Div(room, step)
    frames = Add(steps, one) frame = Range(zero, frames, one) start = Mul(frame, step) starts = Unsqueeze(start, last)
    within = Range(zero, n, one) index = Add(starts, within) cut = Gather <axis = 1> (x, index)
    )",
                                  windowed ? "framed = Mul(cut, window)\n" : "framed = Identity(cut)\n",
                                  onesided ? "half = Div(n, two) bins = Add(half, one)\n" : "bins = Identity(n)\n", R"(
    bin = Range(zero, bins, one) column = Unsqueeze(within, last) product = Mul(column, bin) part = Mod(product, n)
    part_ = CastLike(part, unit) n_ = CastLike(n, unit) share = Div(part_, n_) angle = Mul(share, turn)
    cos = Cos(angle) sin_ = Sin(angle) sin = Neg(sin_) cos_x = CastLike(cos, x) sin_x = CastLike(sin, x)
    re = MatMul(framed, cos_x) im = MatMul(framed, sin_x) re_ = Unsqueeze(re, last) im_ = Unsqueeze(im, last)
    y = Concat <axis = -1> (re_, im_)
  })");
  if (!is_float(dtype)) node.bad("a transform of ", signal);
  return node.body(
      text, {node.reshape(node.input(0), {signal.shape[0], signal.shape[1]}), number(1),
             windowed ? ValueId{} : number(3), node.optional_input(2), one, node.scalar(DType::f64, 2 * M_PI)})[0];
}

}  // namespace

void import_STFT(OnnxNode& node) {
  const bool onesided = node.int_attribute("onesided", 1) != 0;
  for (size_t i : {size_t(1), size_t(3)})
    if (node.has(i) && !node.constant(i) && !node.contents(i))
      return node.set_output(0, short_transform(node, onesided));
  const int64_t step = one_number(node, 1, "frame_step");
  ValueId signal = node.input(0);
  Shape shape = node.type(0).shape;
  if (shape.size() == 2) shape.push_back(1), signal = node.reshape(signal, shape);
  if (shape.size() != 3) node.bad("the signal is ", node.type(0));
  int64_t length = 0;
  if (node.has(3)) length = one_number(node, 3, "frame_length");
  else if (node.has(2) && node.type(2).rank() == 1) length = node.type(2).shape[0].value();
  else node.refuse("neither a window of one axis nor frame_length");
  if (step < 1 || length < 1 || length > (1 << 20)) node.bad("frame_step is ", step, ", frame_length ", length);
  if (node.has(2) && node.type(2).shape != Shape{Dim(length)})
    node.bad("the window is ", node.type(2), " for frames of ", length);
  if (shape[1].is_constant() && shape[1].value() < length)
    node.bad("a signal ", node.type(0), " is shorter than a frame of ", length);
  auto number = [&](int64_t value) { return node.constant(Tensor::of<int64_t>({}, {value})); };
  // (size - length) / step + 1 frames; frame f has the elements f * step + 0 ... length - 1.
  ops::ShapeOf size;
  size.start = 1;
  size.end = 2;
  ProgramBuilder b({DType::i64});
  auto c = [&](int64_t value) { return b.constant(DType::i64, double(value)); };
  const Program count = b.result(b.op(Scalar::add, b.op(Scalar::div, b.op(Scalar::sub, 0, c(length)), c(step)), c(1)));
  const ValueId frames =
      node.add(ops::Range{}, {number(0), node.program(count, {node.reshape(node.add(size, {signal}), {})}), number(1)});
  const ValueId starts = node.pointwise(Scalar::mul, {frames, number(step)});
  const ValueId within = node.add(ops::Range{}, {number(0), number(length), number(1)});
  ops::Gather pick;
  pick.axis = 1;
  const ValueId index =
      node.pointwise(Scalar::add, {node.reshape(starts, {node.graph().type(frames).shape[0], Dim(1)}), within});
  ValueId cut = node.add(pick, {signal, index});
  if (node.has(2)) cut = node.pointwise(Scalar::mul, {cut, node.reshape(node.input(2), {Dim(length), Dim(1)})});
  node.set_output(0, transform(node, cut, 2, length, false, onesided));
}

}  // namespace temper
