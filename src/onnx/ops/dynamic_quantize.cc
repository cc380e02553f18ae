// SPDX-License-Identifier: Apache-2.0
// Imports the ops of the domain com.microsoft that quantize floats to 8 bits as they come, by the range that they have:
// DynamicQuantizeMatMul and DynamicQuantizeLSTM; and MatMulIntegerToFloat, the product that is left where that is a
// node of its own. The products are integer ones.
#include <algorithm>

#include "graph/ops/broadcast.h"
#include "graph/ops/concat.h"
#include "graph/ops/gather.h"
#include "graph/ops/matmul.h"
#include "graph/ops/reduce.h"
#include "graph/ops/shape.h"
#include "graph/ops/slice.h"
#include "graph/ops/transpose.h"
#include "onnx/broadcast.h"
#include "onnx/integer.h"
#include "onnx/loop.h"
#include "onnx/scales.h"

namespace temper::microsoft {

namespace {

struct Quantized {
  ValueId values, scale, zero;  // u8, f32, u8
};

// As ONNX's DynamicQuantizeLinear, over `axes` together, which the scale and the zero point keep with the size 1: the
// range from the least to the largest number, 0 included, is 255 steps. Where all numbers are 0 the scale is 1.
Quantized quantized_by_range(OnnxNode& node, ValueId x, const std::vector<int64_t>& axes) {
  ops::Reduce least{.kind = ops::ReduceKind::min, .axes = axes, .keepdims = true}, most = least;
  most.kind = ops::ReduceKind::max;
  const ValueId low = node.add(least, {x}), high = node.add(most, {x});
  ProgramBuilder s({DType::f32, DType::f32});
  const int zero = s.constant(DType::f32, 0);
  const int range = s.op(Scalar::sub, s.op(Scalar::max, 1, zero), s.op(Scalar::min, 0, zero));
  const int none = s.op(Scalar::equal, range, zero);
  const ValueId scale = node.program(s.result(s.op(Scalar::where, none, s.constant(DType::f32, 1),
                                                   s.op(Scalar::div, range, s.constant(DType::f32, 255)))),
                                     {low, high});
  const auto saturated = [](ProgramBuilder& b, int number) {
    return b.cast(b.op(Scalar::max, b.op(Scalar::min, number, b.constant(DType::f32, 255)), b.constant(DType::f32, 0)),
                  DType::u8);
  };
  ProgramBuilder z({DType::f32, DType::f32});
  const int least_number = z.op(Scalar::min, 0, z.constant(DType::f32, 0));
  const int place = z.op(Scalar::sub, z.constant(DType::f32, 0), z.op(Scalar::div, least_number, 1));
  const ValueId point = node.program(z.result(saturated(z, z.op(Scalar::round, place))), {low, scale});
  ProgramBuilder q({DType::f32, DType::f32, DType::u8});
  const int step = q.op(Scalar::round, q.op(Scalar::div, 0, 1));
  const ValueId values =
      node.program(q.result(saturated(q, q.op(Scalar::add, step, q.cast(2, DType::f32)))), {x, scale, point});
  return {values, scale, point};
}

// acc * (scale_a * scale_b) + bias. Scales are scalars, and that of b may have a value for each column.
ValueId as_float(OnnxNode& node, ValueId acc, ValueId scale_a, size_t b, size_t bias) {
  check_scales(node, b, false);
  const int64_t rank = node.graph().type(acc).rank();
  const TensorType& type = node.type(b);
  ValueId scale_b = node.input(b);
  if (type.rank() == 0 || type.shape == Shape{Dim(1)}) scale_b = node.reshape(scale_b, {});
  else if (type.rank() == 1) scale_b = along_axis(node, scale_b, rank - 1, rank);
  else node.refuse("scales of the type ", type, "; only a scalar or a vector is supported");
  std::vector<ValueId> inputs{acc, scale_a, scale_b};
  std::vector<DType> dtypes{DType::i32, DType::f32, DType::f32};
  if (node.has(bias)) {
    if (node.type(bias).rank() != 1) node.bad("the bias is ", node.type(bias));
    inputs.push_back(node.input(bias));
    dtypes.push_back(DType::f32);
  }
  ProgramBuilder b32(dtypes);
  int y = b32.op(Scalar::mul, b32.cast(0, DType::f32), b32.op(Scalar::mul, 1, 2));
  if (node.has(bias)) y = b32.op(Scalar::add, y, 3);
  return node.program(b32.result(y), inputs);
}

std::vector<int64_t> all_axes(OnnxNode& node, ValueId x) {
  std::vector<int64_t> axes;
  for (int64_t axis = 0; axis < node.graph().type(x).rank(); ++axis) axes.push_back(axis);
  return axes;
}

// A vector for each direction, or a number for each, as [directions, 1, columns or 1].
ValueId of_directions(OnnxNode& node, size_t i, const Dim& directions, const Dim& columns) {
  const TensorType& type = node.type(i);
  const bool vector = type.rank() == 2 && type.shape[1] == columns;
  if (type.rank() < 1 || type.rank() > 2 || (type.rank() == 2 && !vector) || type.shape[0] != directions)
    node.bad("input ", i, " is ", type, "; ", directions, " of it, or ", directions, " x ", columns, ", are expected");
  return node.reshape(node.input(i), {directions, Dim(1), vector ? columns : Dim(1)});
}

ops::Slice slice_of(const Shape& shape, size_t axis, int64_t first, Dim size) {
  ops::Slice slice;
  slice.starts.assign(shape.size(), 0);
  slice.starts[axis] = first;
  slice.sizes = shape;
  slice.sizes[axis] = std::move(size);
  slice.steps.assign(shape.size(), 1);
  return slice;
}

// Along the first axis, of x [T,1,B,...]; of each sequence in the batch as long as it is, where `lengths` says that.
ValueId backwards(OnnxNode& node, ValueId x, ValueId lengths) {
  if (lengths.valid())
    return node.body(
        "(x, n, one) => (y) { flat = Squeeze (x, one) "
        "turned = ReverseSequence <time_axis = 0, batch_axis = 1> (flat, n) y = Unsqueeze (turned, one) }",
        {x, lengths, node.ints({1})})[0];
  const Shape shape = node.graph().type(x).shape;
  ops::Slice slice = slice_of(shape, 0, 0, shape[0]);
  slice.starts[0] = dim_max(shape[0] - Dim(1), 0);
  slice.steps[0] = -1;
  return node.add(slice, {x});
}

// Weights and zero points of one direction, [K,N] and [N] or one for all, and the scales of all, [D,1,N or 1].
struct Weights {
  std::vector<ValueId> values, zeros;
  ValueId scale;
};
Weights weights_of(OnnxNode& node, size_t i, size_t scale) {
  check_scales(node, scale, false);
  const Tensor *w = node.constant(i), *points = node.constant(scale + 1);
  if (!w || !points)
    node.unsupported("weights or zero points that are no constants (inputs ", i, " and ", scale + 1, ")");
  const int64_t d = w->dims()[0], k = w->dims()[1], n = w->dims()[2];
  if (points->dims() != Dims{d} && points->dims() != Dims{d, n})
    node.bad("the zero points are ", points->type(), " of weights ", w->type());
  const auto part = [&](const Tensor& all, int64_t each, Dims dims) {
    Tensor one(all.dtype(), std::move(dims));
    std::copy_n(all.raw().begin() + each * one.bytes(), one.bytes(), one.raw_mutable());
    return node.constant(std::move(one));
  };
  Weights weights;
  for (int64_t each = 0; each < d; ++each) {
    weights.values.push_back(part(*w, each, {k, n}));
    weights.zeros.push_back(part(*points, each, points->rank() == 1 ? Dims{} : Dims{n}));
  }
  weights.scale = of_directions(node, scale, Dim(d), Dim(n));
  return weights;
}

// x [D or 1, rows, K] times the weights, [D, rows, N] f32; plus `more` where it is valid. Each direction's product is
// one of matrices, whose constant weights kernels keep in an order of their own.
ValueId quantized_product(OnnxNode& node, const Quantized& x, const Weights& w, ValueId more) {
  const Graph& graph = node.graph();
  const Shape shape = graph.type(x.values).shape;
  const size_t directions = w.values.size();
  const bool own = directions > 1 && shape[0] == Dim(int64_t(directions));
  const auto of_direction = [&](ValueId all, size_t d) {
    return own ? node.add(slice_of(graph.type(all).shape, 0, int64_t(d), Dim(1)), {all}) : all;
  };
  std::vector<ValueId> products;
  for (size_t d = 0; d < directions; ++d) {
    const ValueId rows = node.reshape(of_direction(x.values, d), {shape[1], shape[2]}),
                  zero = node.reshape(of_direction(x.zero, d), {}),
                  product = integer_product(node, rows, zero, w.values[d], w.zeros[d]);
    const Shape of_product = graph.type(product).shape;
    products.push_back(node.reshape(product, {Dim(1), of_product[0], of_product[1]}));
  }
  ops::Concat join;
  join.axis = 0;
  const ValueId acc = products.size() == 1 ? products[0] : node.add(join, products);
  std::vector<ValueId> inputs{acc, x.scale, w.scale};
  std::vector<DType> dtypes{DType::i32, DType::f32, DType::f32};
  if (more.valid()) {
    inputs.push_back(more);
    dtypes.push_back(DType::f32);
  }
  ProgramBuilder b(dtypes);
  int y = b.op(Scalar::mul, b.cast(0, DType::f32), b.op(Scalar::mul, 1, 2));
  if (more.valid()) y = b.op(Scalar::add, 3, y);
  return node.program(b.result(y), inputs);
}

// x [T,directions,B,...] from the order of time to the order in which each direction goes through it, or back.
ValueId turned(OnnxNode& node, ValueId x, const std::string& direction, ValueId lengths) {
  if (direction == "forward") return x;
  if (direction == "reverse") return backwards(node, x, lengths);
  const Shape shape = node.graph().type(x).shape;
  const ValueId first = node.add(slice_of(shape, 1, 0, Dim(1)), {x}),
                second = node.add(slice_of(shape, 1, 1, Dim(1)), {x});
  ops::Concat join;
  join.axis = 1;
  return node.add(join, {first, backwards(node, second, lengths)});
}

}  // namespace

void import_DynamicQuantizeMatMul(OnnxNode& node) {
  const ValueId x = node.input(0);
  const Quantized a = quantized_by_range(node, x, all_axes(node, x));
  const ValueId scale = node.reshape(a.scale, {}), zero = node.reshape(a.zero, {});
  const ValueId acc = integer_product(node, a.values, zero, node.input(1), node.optional_input(3));
  node.set_output(0, as_float(node, acc, scale, 2, 4));
}

void import_MatMulIntegerToFloat(OnnxNode& node) {
  check_scales(node, 2, false);
  if (node.type(2).rank() != 0 && node.type(2).shape != Shape{Dim(1)})
    node.refuse("a scale of the first input of the type ", node.type(2), "; only a scalar is supported");
  const ValueId acc =
      integer_product(node, node.input(0), node.optional_input(4), node.input(1), node.optional_input(5));
  node.set_output(0, as_float(node, acc, node.reshape(node.input(2), {}), 3, 6));
}

// An LSTM whose weights are 8-bit integers: all inputs are quantized together, and the state anew in each step, by its
// own range in each direction. A loop over the steps carries the state.
void import_DynamicQuantizeLSTM(OnnxNode& node) {
  Graph& graph = node.graph();
  const std::string direction = node.string_attribute("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    node.bad("direction is '", direction, "'");
  const int64_t directions = direction == "bidirectional" ? 2 : 1;
  const auto activations = node.strings_attribute("activations", {});
  const std::vector<std::string> standard{"Sigmoid", "Tanh", "Tanh", "Sigmoid", "Tanh", "Tanh"};
  if (!activations.empty() &&
      activations != std::vector<std::string>(standard.begin(), standard.begin() + 3 * directions))
    node.unsupported("activations other than Sigmoid, Tanh and Tanh");
  for (const char* name : {"activation_alpha", "activation_beta"})
    if (!node.floats_attribute(name, {}).empty()) node.unsupported(std::string_view(name));
  if (node.float_attribute("clip", 0) != 0) node.unsupported("clip");
  if (node.int_attribute("input_forget", 0) != 0) node.unsupported("input_forget");
  const TensorType &x_type = node.type(0), &w_type = node.type(1), &r_type = node.type(2);
  const bool fits = x_type.rank() == 3 && w_type.rank() == 3 && r_type.rank() == 3 && r_type.shape[1].is_constant() &&
                    w_type.shape[0] == Dim(directions) && r_type.shape[0] == Dim(directions) &&
                    w_type.shape[2] == r_type.shape[1] * Dim(4) && r_type.shape[2] == w_type.shape[2] &&
                    w_type.shape[1] == x_type.shape[2];
  if (!fits) node.bad("inputs ", x_type, " with weights ", w_type, " and ", r_type, " in ", directions, " directions");
  const Dim steps = x_type.shape[0], batch = x_type.shape[1], d(directions);
  const int64_t hidden = r_type.shape[1].value();
  if (const int64_t given = node.int_attribute("hidden_size", hidden); given != hidden)
    node.bad("hidden_size is ", given, " but R is ", r_type);

  // The lengths of the sequences in the batch, which those of all steps have where they are not given: i64 [1,B,1].
  if (node.has(4) && node.type(4).shape != Shape{batch}) node.bad("sequence_lens is ", node.type(4));
  const ValueId each = node.optional_input(4),
                lengths = each.valid() ? node.reshape(node.cast(each, DType::i64), {Dim(1), batch, Dim(1)}) : ValueId{};
  std::vector<ValueId> peepholes;  // of the gates of input, output and forget, [directions,1,hidden]
  if (node.has(7)) {
    if (node.type(7).shape != Shape{d, Dim(3 * hidden)}) node.bad("the peepholes are ", node.type(7));
    const ValueId all = node.reshape(node.input(7), {d, Dim(1), Dim(3 * hidden)});
    for (int64_t i = 0; i < 3; ++i)
      peepholes.push_back(node.add(slice_of(graph.type(all).shape, 2, i * hidden, Dim(hidden)), {all}));
  }

  // What the inputs and both biases give to the gates of every step: [steps, directions, batch, 4 * hidden].
  const Weights w = weights_of(node, 1, 8), r = weights_of(node, 2, 10);
  ValueId floats = node.input(0);
  if (each.valid())  // Behind the longest sequence nothing counts.
    floats = node.body(
        "(x, lengths) => (y) { zero = Constant <value_int = 0> () one = Constant <value_int = 1> () axes = Constant "
        "<value_ints = [1, 2]> () size = Shape <start = 0, end = 1> (x) steps = Squeeze(size) step = Range(zero, "
        "steps, one) "
        "longest = ReduceMax <keepdims = 0> (lengths) counts = Less(step, longest) counts3 = Unsqueeze(counts, axes) "
        "nothing = CastLike(zero, x) y = Where(counts3, x, nothing) }",
        {floats, lengths})[0];
  const Quantized x = quantized_by_range(node, floats, {0, 1, 2});
  const Shape rows{Dim(1), steps * batch, x_type.shape[2]};
  ValueId gates = quantized_product(node, {node.reshape(x.values, rows), x.scale, x.zero}, w, {});
  if (node.has(3)) {
    const TensorType& type = node.type(3);
    if (type.shape != Shape{d, Dim(8 * hidden)}) node.bad("the bias is ", type, " of ", hidden, " units");
    const ValueId first = node.add(slice_of(type.shape, 1, 0, Dim(4 * hidden)), {node.input(3)}),
                  second = node.add(slice_of(type.shape, 1, 4 * hidden, Dim(4 * hidden)), {node.input(3)});
    const ValueId bias = node.reshape(node.pointwise(Scalar::add, {first, second}), {d, Dim(1), Dim(4 * hidden)});
    gates = node.pointwise(Scalar::add, {gates, bias});
  }
  gates = node.reshape(gates, {d, steps, batch, Dim(4 * hidden)});
  ops::Transpose by_step;
  by_step.perm = {1, 0, 2, 3};
  gates = turned(node, node.add(by_step, {gates}), direction, each);

  const auto initial = [&](size_t i) {
    return node.has(i) ? node.input(i)
                       : node.add(ops::Broadcast{{d, batch, Dim(hidden)}}, {node.scalar(DType::f32, 0)});
  };
  const ValueId trip = node.add(ops::ShapeOf{.start = 0, .end = 1}, {node.input(0)});
  const auto outputs = add_loop(
      node, trip, {}, {initial(5), initial(6)}, [&](ValueId step, ValueId condition, std::vector<ValueId> carried) {
        ops::Gather pick;
        pick.axis = 0;
        // A sequence that has ended gives zeros, which its last state is not.
        const auto where = [&](Scalar test, ValueId then, ValueId otherwise) {
          ProgramBuilder b({DType::i64, DType::i64, DType::f32, DType::f32});
          return node.program(b.result(b.op(Scalar::where, b.op(test, 0, 1), 2, 3)), {step, lengths, then, otherwise});
        };
        const ValueId zero = node.scalar(DType::f32, 0);
        const ValueId last = lengths.valid() ? where(Scalar::less_equal, carried[0], zero) : carried[0];
        const Quantized h = quantized_by_range(node, last, {1, 2});
        const ValueId all = quantized_product(node, h, r, node.add(pick, {gates, step}));
        const Shape shape = graph.type(all).shape;
        std::vector<ValueId> parts;  // ONNX's order: input, output, forget, cell
        for (int64_t i = 0; i < 4; ++i) parts.push_back(node.add(slice_of(shape, 2, i * hidden, Dim(hidden)), {all}));
        const auto seen = [&](size_t gate, size_t peephole, ValueId cell) {
          if (peepholes.empty()) return;
          ProgramBuilder p({DType::f32, DType::f32, DType::f32});
          parts[gate] = node.program(p.result(p.op(Scalar::add, 0, p.op(Scalar::mul, 1, 2))),
                                     {parts[gate], peepholes[peephole], cell});
        };
        seen(0, 0, carried[1]);
        seen(2, 2, carried[1]);
        ProgramBuilder c({DType::f32, DType::f32, DType::f32, DType::f32});  // input, forget, cell, last cell
        const int kept = c.op(Scalar::mul, c.op(Scalar::sigmoid, 1), 3),
                  added = c.op(Scalar::mul, c.op(Scalar::sigmoid, 0), c.op(Scalar::tanh, 2));
        const ValueId cell =
            node.program(c.result(c.op(Scalar::add, kept, added)), {parts[0], parts[2], parts[3], carried[1]});
        seen(1, 1, cell);
        ProgramBuilder o({DType::f32, DType::f32});
        const ValueId state = node.program(o.result(o.op(Scalar::mul, o.op(Scalar::sigmoid, 0), o.op(Scalar::tanh, 1))),
                                           {parts[1], cell});
        if (!lengths.valid()) return std::vector<ValueId>{condition, state, cell, state};
        return std::vector<ValueId>{condition, where(Scalar::less, state, carried[0]),
                                    where(Scalar::less, cell, carried[1]), where(Scalar::less, state, zero)};
      });
  if (node.wants_output(0)) node.set_output(0, turned(node, outputs.at(2), direction, each));
  for (size_t i = 1; i < 3; ++i)
    if (node.wants_output(i)) node.set_output(i, outputs[i - 1]);
}

}  // namespace temper::microsoft
