// SPDX-License-Identifier: Apache-2.0
// Imports DFT and STFT: products with the matrix of the transform, whose length is known at import.
#include <cmath>

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

// x [..., T, ..., parts] along `axis`; the length `n` of the transform pads or cuts that axis.
ValueId transform(OnnxNode& node, ValueId x, int64_t axis, int64_t n, bool inverse, bool onesided) {
  const TensorType type = node.graph().type(x);
  const int64_t rank = type.rank(), last = rank - 1;
  if (axis < 0 || axis >= last) node.bad("axis ", axis, " of ", type);
  const int64_t parts = type.shape.back().value();
  if (parts != 1 && parts != 2) node.bad("the last axis of ", type, " is neither real nor complex");
  if (!is_float(type.dtype)) node.bad("a transform of ", type);
  const int64_t wanted = inverse && onesided ? n / 2 + 1 : n;
  if (!type.shape[size_t(axis)].is_constant())
    node.refuse("a transform along a dimension that is not known: ", type, "; give a fixed shape with --shapes");
  const int64_t size = type.shape[size_t(axis)].value();
  if (size > wanted) {
    ops::Slice cut = ops::slice_all(type.shape);
    cut.sizes[size_t(axis)] = wanted;
    x = node.add(cut, {x});
  } else if (size < wanted) {
    ops::Pad pad;
    pad.before.assign(size_t(rank), Dim(0));
    pad.after = pad.before;
    pad.after[size_t(axis)] = wanted - size;
    x = node.add(pad, {x});
  }
  ops::Transpose to_end, back;
  for (int64_t i = 0; i < last; ++i)
    if (i != axis) to_end.perm.push_back(i);
  to_end.perm.push_back(axis);
  to_end.perm.push_back(last);
  back.perm.resize(size_t(rank));
  for (int64_t i = 0; i < rank; ++i) back.perm[size_t(to_end.perm[size_t(i)])] = i;
  const bool moves = axis != last - 1;
  if (moves) x = node.add(to_end, {x});
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
  return moves ? node.add(back, {y}) : y;
}

int64_t one_number(OnnxNode& node, size_t input, std::string_view what) {
  const auto values = node.constant_ints(input, what);
  if (values.size() != 1) node.bad(what, " is not one number");
  return values[0];
}

}  // namespace

void import_DFT(OnnxNode& node) {
  const bool inverse = node.int_attribute("inverse", 0) != 0, onesided = node.int_attribute("onesided", 0) != 0;
  int64_t axis = 0;
  if (node.opset() < 20) axis = node.int_attribute("axis", 1);
  else axis = node.has(2) ? one_number(node, 2, "the axis") : -2;
  axis = normalize_axis(axis, node.type(0).rank());
  // Opset 17 excludes onesided together with inverse, models use it nevertheless, and the size of the result is not
  // said.
  if (inverse && node.opset() < 20) node.refuse("the inverse before opset 20; export the model with opset 20 or later");
  int64_t length = 0;
  if (node.has(1)) {
    length = one_number(node, 1, "dft_length");
  } else {
    const Dim& size = node.type(0).shape[size_t(axis)];
    if (!size.is_constant())
      node.refuse("a transform along a dimension that is not known: ", node.type(0),
                  "; give a fixed shape with --shapes");
    length = inverse && onesided ? 2 * (size.value() - 1) : size.value();
  }
  if (length < 1) node.bad("dft_length is ", length);
  node.set_output(0, transform(node, node.input(0), axis, length, inverse, onesided));
}

void import_STFT(OnnxNode& node) {
  const bool onesided = node.int_attribute("onesided", 1) != 0;
  const int64_t step = one_number(node, 1, "frame_step");
  ValueId signal = node.input(0);
  Shape shape = node.type(0).shape;
  if (shape.size() == 2) shape.push_back(1), signal = node.reshape(signal, shape);
  if (shape.size() != 3) node.bad("the signal is ", node.type(0));
  int64_t length = 0;
  if (node.has(3)) length = one_number(node, 3, "frame_length");
  else if (node.has(2)) length = node.type(2).shape.at(0).value();
  else node.refuse("neither window nor frame_length");
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
