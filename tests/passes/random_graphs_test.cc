// SPDX-License-Identifier: Apache-2.0
// Random small graphs, optimised and not, give the same outputs.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "base/small_types.h"
#include "graph/ops/attention.h"
#include "graph/ops/broadcast.h"
#include "graph/ops/concat.h"
#include "graph/ops/conv.h"
#include "graph/ops/conv_transpose.h"
#include "graph/ops/dequantize.h"
#include "graph/ops/matmul.h"
#include "graph/ops/normalize.h"
#include "graph/ops/pad.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/pool.h"
#include "graph/ops/quantize.h"
#include "graph/ops/reduce.h"
#include "graph/ops/reshape.h"
#include "graph/ops/slice.h"
#include "graph/ops/softmax.h"
#include "graph/ops/transpose.h"
#include "passes/lower_precision.h"
#include "passes/pass.h"
#include "passes/patches_as_products.h"
#include "quantize/placement.h"

namespace temper {
namespace {

class RandomGraph {
 public:
  explicit RandomGraph(uint32_t seed) : random_(seed) {}

  Graph make() {
    const Dim batch = chance(0.5) ? Dim::symbol("n") : Dim(2);
    graph_.name = "random";
    // Feature maps, matrices, rows: what convolutions, products and broadcasts need.
    inputs_ = {{batch, 4, 6, 6}, {batch, 4, 6, 6}, {batch, 8}, {batch, 5, 4}};
    for (size_t i = 0; i < inputs_.size(); ++i)
      values_.push_back(graph_.add_input(concat("x", i), {DType::f32, inputs_[i]}));
    const int nodes = 4 + int(below(14));
    for (int i = 0; i < nodes; ++i) add_node();
    // Outputs: whatever nothing uses, and now and then a value in the middle.
    for (ValueId id : values_)
      if ((graph_.value(id).users.empty() && graph_.value(id).producer.valid()) || chance(0.08))
        graph_.add_output(concat("y", id.index), id);
    return graph_;
  }

  std::vector<Tensor> feed() {
    std::vector<Tensor> tensors;
    for (const Shape& shape : inputs_) {
      Dims dims;
      for (const Dim& dim : shape) dims.push_back(dim.substitute({{"n", 2}}).value());
      tensors.push_back(tensor(dims, 1));
    }
    return tensors;
  }

 private:
  std::mt19937 random_;
  Graph graph_;
  std::vector<Shape> inputs_;
  std::vector<ValueId> values_;
  int counter_ = 0;

  size_t below(size_t n) { return random_() % n; }
  bool chance(double p) { return double(random_()) < p * 4294967296.0; }
  double number(double size) { return (double(random_()) / 2147483648.0 - 1) * size; }
  std::string name() { return concat("v", counter_++); }
  Tensor tensor(const Dims& dims, double size) {
    Tensor out(DType::f32, dims);
    for (int64_t i = 0; i < out.count(); ++i) out.data<float>()[i] = float(number(size));
    return out;
  }
  ValueId constant(const Dims& dims, double size) {
    return graph_.add_constant(concat("c", counter_++), tensor(dims, size));
  }
  const Shape& shape(ValueId id) { return graph_.type(id).shape; }
  ValueId pick() {
    return values_[values_.size() - 1 - std::min(below(values_.size()), below(values_.size()))];
  }  // recent ones more often
  std::optional<ValueId> pick_rank(int64_t rank) {
    for (int tries = 0; tries < 8; ++tries)
      if (const ValueId id = pick(); graph_.type(id).rank() == rank) return id;
    return std::nullopt;
  }
  void push(Op op, std::vector<ValueId> inputs) {
    values_.push_back(graph_.add_single(std::move(op), std::move(inputs), name()));
  }

  void add_node() {
    switch (below(20)) {
      case 0:
      case 1: conv(); break;
      case 2: matmul(); break;
      case 3:
      case 4: unary(); break;
      case 5: chance(0.9) ? scale_and_shift() : add_expanded(); break;
      case 6:
      case 7: binary(); break;
      case 8:
      case 9: transpose(); break;
      case 10: reshape(); break;
      case 11: reduce(); break;
      case 12: softmax_or_pool(); break;
      case 13: chance(0.5) ? layer_norm() : group_norm(); break;
      case 14: slice_or_pad(); break;
      case 15: quantized(); break;
      case 16: attention(); break;
      case 17: between_transposes(); break;
      case 18: float8(); break;
      default: broadcast_or_concat(); break;
    }
  }

  void conv() {
    const auto x = pick_rank(4);
    if (!x || !shape(*x)[1].is_constant() || shape(*x)[1].value() > 8) return;
    const int64_t in = shape(*x)[1].value(), out = int64_t(1 + below(5)), k = int64_t(1 + below(2)) * 2 - 1;
    ops::Conv op;
    op.dilations = {1, 1};
    if (shape(*x)[2] == Dim(6) && shape(*x)[3] == Dim(6) && chance(0.4)) {  // patches
      op.strides = {chance(0.5) ? 1 : 2, 3}, op.pads = Dims(4, 0);
      push(op, {*x, constant({out, in, op.strides[0], 3}, 0.5)});
      if (chance(0.5)) push(ops::Reshape{{shape(*x)[0], out, Dim(12 / op.strides[0])}}, {values_.back()});
      return;
    }
    if (chance(0.15)) {
      ops::ConvTranspose up;
      up.strides = {1, int64_t(1 + below(2))}, up.dilations = {1, 1}, up.output_padding = {0, 0};
      up.pads = {k / 2, 0, k / 2, int64_t(below(2))};
      if (shape(*x)[3] == Dim(6)) push(up, {*x, constant({in, out, k, 3}, 0.5)});
      return;
    }
    op.strides = {1, 1}, op.pads = Dims(4, k / 2);
    const bool depthwise = chance(0.3);
    op.group = depthwise ? in : 1;
    push(op, {*x, constant({depthwise ? in : out, depthwise ? 1 : in, k, k}, 0.5)});
  }

  void matmul() {
    const ValueId a = pick();
    const auto& s = shape(a);
    if (s.size() < 2 || !s.back().is_constant() || s.back().value() == 0) return;
    const int64_t k = s.back().value(), n = int64_t(1 + below(5));
    ops::MatMul op;
    op.transpose_b = chance(0.5);
    const bool flat = s.size() > 2 && chance(0.5);  // as exporters write a linear layer by Gemm
    Dim rows = 1;
    for (size_t axis = 0; axis + 1 < s.size(); ++axis) rows = rows * s[axis];
    Shape result = s;
    result.back() = n;
    const ValueId from = flat ? graph_.add_single(ops::Reshape{{rows, k}}, {a}, name()) : a,
                  weights = constant(op.transpose_b ? Dims{n, k} : Dims{k, n}, 0.5);
    if (!flat) return push(op, {from, weights});
    push(ops::Reshape{result}, {graph_.add_single(op, {from, weights}, name())});
  }

  // A product along the middle axis, or with its two row axes swapped, and the axes put back; with a bias or without.
  void between_transposes() {
    const auto x = pick_rank(3);
    if (!x) return;
    ops::Transpose turn{chance(0.5) ? Dims{0, 2, 1} : Dims{1, 0, 2}};
    const Dim depth = shape(*x)[size_t(turn.perm[2])];
    if (!depth.is_constant() || depth.value() == 0 || depth.value() > 12) return;
    ops::MatMul op;
    op.transpose_b = chance(0.5);
    const int64_t k = depth.value(), columns = chance(0.6) ? k : int64_t(1 + below(5));
    ValueId y = graph_.add_single(turn, {*x}, name());
    y = graph_.add_single(op, {y, constant(op.transpose_b ? Dims{columns, k} : Dims{k, columns}, 0.5)}, name());
    if (chance(0.5)) {
      Program add;
      add.inputs = 2;
      add.push({Scalar::add, DType::f32, {0, 1, -1}});
      y = graph_.add_single(ops::Pointwise{add}, {y, constant({columns}, 1)}, name());
    }
    push(turn, {y});
    if (graph_.type(values_.back()).shape != shape(*x)) return;
    Program add;
    add.inputs = 2;
    add.push({Scalar::add, DType::f32, {0, 1, -1}});
    push(ops::Pointwise{add}, {*x, values_.back()});
  }

  // Of itself, or keys and values of another value; each by weights of its own, with a bias or without.
  void attention() {
    const auto x = pick_rank(3), z = chance(0.5) ? x : pick_rank(3);
    if (!x || !z || shape(*x)[0] != shape(*z)[0]) return;
    const bool biased = chance(0.5);
    std::vector<ValueId> inputs;
    for (const ValueId from : {*x, *z, *z}) {
      const Dim size = shape(from).back();
      if (!size.is_constant() || size.value() == 0) return;
      Program add;
      add.inputs = 2;
      add.push({Scalar::add, DType::f32, {0, 1, -1}});
      inputs.push_back(graph_.add_single(ops::MatMul{}, {from, constant({size.value(), 4}, 0.5)}, name()));
      if (biased && chance(0.8))
        inputs.back() = graph_.add_single(ops::Pointwise{add}, {inputs.back(), constant({4}, 1)}, name());
    }
    ops::Attention op;
    op.heads = op.kv_heads = 2;
    op.scale = 0.5;
    push(op, std::move(inputs));
  }

  void unary() {
    static constexpr Scalar ops[] = {Scalar::relu, Scalar::sigmoid, Scalar::tanh,
                                     Scalar::abs,  Scalar::neg,     Scalar::erf};
    Program p;
    p.push({ops[below(6)], DType::f32, {0, -1, -1}});
    push(ops::Pointwise{p}, {pick()});
  }

  // As batch norm comes: x * s, then + t, with constants along axis 1, the last axis, or scalars.
  void scale_and_shift() {
    const ValueId x = pick();
    const int64_t rank = graph_.type(x).rank();
    if (rank < 2) return;
    const int64_t axis = chance(0.7) ? 1 : rank - 1;
    if (!shape(x)[size_t(axis)].is_constant()) return;
    Dims dims(size_t(rank - axis), 1);
    dims[0] = chance(0.3) ? 1 : shape(x)[size_t(axis)].value();
    Program mul, add;
    mul.inputs = add.inputs = 2;
    mul.push({chance(0.2) ? Scalar::sub : Scalar::mul, DType::f32, {0, 1, -1}});
    add.push({Scalar::add, DType::f32, {1, 0, -1}});
    ValueId scale = constant(dims, 1.5);
    if (chance(0.3)) {  // computed from a constant
      Program tanh;
      tanh.push({Scalar::tanh, DType::f32, {0, -1, -1}});
      scale = graph_.add_single(ops::Pointwise{tanh}, {scale}, name());
    }
    push(ops::Pointwise{mul}, {x, scale});
    push(ops::Pointwise{add}, {values_.back(), constant(dims, 1)});
  }

  // As exporters leave a row that was expanded: the last two axes of x + a constant of equal rows.
  void add_expanded() {
    const ValueId x = pick();
    const size_t rank = shape(x).size();
    if (rank < 2 || !shape(x)[rank - 1].is_constant() || !shape(x)[rank - 2].is_constant()) return;
    const int64_t rows = shape(x)[rank - 2].value(), columns = shape(x)[rank - 1].value();
    Tensor expanded = tensor({rows, columns}, 1);
    for (int64_t i = columns; i < expanded.count(); ++i)
      expanded.data<float>()[i] = expanded.data<float>()[i - columns];
    Program add;
    add.inputs = 2;
    add.push({Scalar::add, DType::f32, {0, 1, -1}});
    push(ops::Pointwise{add}, {x, graph_.add_constant(name(), std::move(expanded))});
  }

  void binary() {
    static constexpr Scalar ops[] = {Scalar::add, Scalar::mul, Scalar::sub, Scalar::max, Scalar::min};
    const ValueId a = pick();
    for (int tries = 0; tries < 20; ++tries) {
      const ValueId b = values_[below(values_.size())];
      try {
        const Shape out = broadcast_shapes(shape(a), shape(b));
        Dim total = 1;
        for (const Dim& dim : out) total = total * dim;
        if (total.substitute({{"n", 2}}).value() > 4000) continue;
        if (b == a && tries < 10) continue;
        bool comparable = true;  // a symbol against a number might not fit when it is bound
        for (size_t i = 1; i <= std::min(shape(a).size(), shape(b).size()); ++i) {
          const Dim &x = shape(a)[shape(a).size() - i], &y = shape(b)[shape(b).size() - i];
          comparable &= x == y || x == Dim(1) || y == Dim(1);
        }
        if (!comparable) continue;
      } catch (const Error&) { continue; }
      Program p;
      p.inputs = 2;
      p.push({ops[below(5)], DType::f32, {0, 1, -1}});
      push(ops::Pointwise{p}, {a, b});
      return;
    }
  }

  void transpose() {
    const ValueId x = pick();
    ops::Transpose op;
    for (int64_t i = 0; i < graph_.type(x).rank(); ++i) op.perm.push_back(i);
    if (chance(0.5) && op.perm.size() == 4) op.perm = chance(0.5) ? Dims{0, 2, 3, 1} : Dims{0, 3, 1, 2};
    else std::shuffle(op.perm.begin(), op.perm.end(), random_);
    push(op, {x});
  }

  void reshape() {
    const ValueId x = pick();
    if (graph_.type(x).rank() < 2) return;
    ops::Reshape op;
    op.shape = shape(x);
    const size_t axis = below(op.shape.size() - 1);
    switch (below(3)) {
      case 0:
        op.shape[axis] = op.shape[axis] * op.shape[axis + 1], op.shape.erase(op.shape.begin() + int64_t(axis) + 1);
        break;
      case 1: op.shape.insert(op.shape.begin() + int64_t(axis), Dim(1)); break;
      default: break;
    }
    if (op.shape.size() <= 5) push(op, {x});
  }

  void reduce() {
    const ValueId x = pick();
    ops::Reduce op;
    op.kind = chance(0.5) ? ops::ReduceKind::mean : ops::ReduceKind::max;
    op.keepdims = chance(0.6);
    for (int64_t i = 1; i < graph_.type(x).rank(); ++i)
      if (chance(0.4)) op.axes.push_back(i);
    push(op, {x});
  }

  void softmax_or_pool() {
    const ValueId x = pick();
    const int64_t rank = graph_.type(x).rank();
    if (rank == 4 && chance(0.5)) {
      ops::Pool op;
      op.kernel = {3, 3}, op.strides = {1, 1}, op.dilations = {1, 1}, op.pads = {1, 1, 1, 1};
      push(op, {x});
    } else if (rank > 0) {
      ops::Softmax op;
      op.axis = int64_t(below(size_t(rank)));
      push(op, {x});
    }
  }

  void slice_or_pad() {
    const ValueId x = pick();
    const int64_t rank = graph_.type(x).rank();
    const size_t axis = below(size_t(rank ? rank : 1));
    if (rank == 0 || !shape(x)[axis].is_constant() || shape(x)[axis].value() < 2 || shape(x)[axis].value() > 12) return;
    if (chance(0.5)) {
      ops::Slice op = ops::slice_all(shape(x));
      if (chance(0.8)) op.starts[axis] = 1, op.sizes[axis] = shape(x)[axis] - Dim(1);
      push(op, {x});
    } else {
      ops::Pad op;
      op.before = op.after = Shape(size_t(rank), Dim(0));
      if (chance(0.8)) op.before[axis] = 1;
      push(op, {x});
    }
  }

  void broadcast_or_concat() {
    const ValueId x = pick();
    const int64_t rank = graph_.type(x).rank();
    if (rank == 0 || rank > 4) return;
    if (chance(0.5)) {
      ops::Broadcast op{shape(x)};
      for (Dim& dim : op.shape)
        if (dim == Dim(1) && chance(0.5)) dim = 3;
      push(op, {x});
      return;
    }
    ops::Concat op;
    op.axis = int64_t(below(size_t(rank)));
    if (!shape(x)[size_t(op.axis)].is_constant() || shape(x)[size_t(op.axis)].value() > 12) return;
    std::vector<ValueId> inputs{x};
    for (int tries = 0; tries < 10 && inputs.size() < 2; ++tries)
      if (const ValueId other = pick(); shape(other) == shape(x)) inputs.push_back(other);
    push(op, inputs);
    if (inputs.size() < 2 || chance(0.3)) return;
    inputs.push_back(inputs[below(2)]);  // a later one that begins the same
    push(op, inputs);
  }

  // Of a graph input alone: the last place of a computed value could decide between two integers.
  void quantized() {
    const ValueId x = graph_.inputs()[below(inputs_.size())];
    const ValueId scale = graph_.add_constant(name(), Tensor::of<float>({}, {0.01f * float(1 + below(4))}));
    ops::Quantize quantize;
    quantize.dtype = chance(0.5) ? DType::u8 : DType::i8;
    const Tensor zero =
        Tensor::of<int64_t>({}, {quantize.dtype == DType::u8 ? int64_t(below(2)) * 100 : 0}).converted(quantize.dtype);
    const ValueId point = graph_.add_constant(name(), zero);
    const ValueId q = graph_.add_single(quantize, {x, scale, point}, name());
    push(ops::Dequantize{}, {q, scale, point});
    if (chance(0.4)) bytes_of_bytes(q, point);
    if (graph_.type(x).rank() != 4 || chance(0.3)) return;
    Tensor w(DType::i8, {3, 4, 3, 3});
    for (int64_t i = 0; i < w.count(); ++i) w.data<int8_t>()[i] = int8_t(int(below(256)) - 128);
    const ValueId scales = graph_.add_constant(name(), Tensor::of<float>({3}, {0.004f, 0.002f, 0.003f}));
    const ValueId weights = graph_.add_single(ops::Dequantize{}, {graph_.add_constant(name(), w), scales}, name());
    ops::Conv op;
    op.strides = {1, 1}, op.dilations = {1, 1}, op.pads = Dims(4, 1);
    push(op, {values_.back(), weights});
  }

  // Of a graph input alone, too.
  void float8() {
    const ValueId x = graph_.inputs()[below(inputs_.size())];
    const ValueId scale = graph_.add_constant(name(), Tensor::of<float>({}, {0.003f * float(1 + below(4))}));
    ops::Quantize quantize;
    quantize.dtype = DType::f8e4m3fn;
    const ValueId q = graph_.add_single(quantize, {x, scale}, name());
    push(ops::Dequantize{}, {q, scale});
    const Shape& whole = shape(x);
    if (whole.size() < 2 || !whole.back().is_constant() || chance(0.3)) return;
    constexpr int64_t kColumns = 5;
    Tensor w(DType::f8e4m3fn, {whole.back().value(), kColumns});
    for (int64_t i = 0; i < w.count(); ++i)
      w.raw_mutable()[i] = std::byte(float_to_e4m3((float(below(256)) - 128) / 16));
    const ValueId scales =
        graph_.add_constant(name(), Tensor::of<float>({kColumns}, {0.04f, 0.02f, 0.03f, 0.01f, 0.05f}));
    ops::Dequantize dequantize;
    dequantize.axis = 1;
    const ValueId weights = graph_.add_single(dequantize, {graph_.add_constant(name(), w), scales}, name());
    push(ops::MatMul{}, {values_.back(), weights});
  }

  // The bytes read by another scale, times a number for all or for each of the last axis, and quantized again.
  void bytes_of_bytes(ValueId q, ValueId point) {
    const ValueId scale = graph_.add_constant(name(), Tensor::of<float>({}, {0.05f}));
    const ValueId x = graph_.add_single(ops::Dequantize{}, {q, scale, point}, name());
    const Shape& whole = shape(x);
    const bool each = !whole.empty() && whole.back().is_constant() && chance(0.7);
    Program mul;
    mul.inputs = 2;
    mul.push({Scalar::mul, DType::f32, {0, 1, -1}});
    const ValueId scaled =
        graph_.add_single(ops::Pointwise{mul}, {x, constant(each ? Dims{whole.back().value()} : Dims{}, 1.5)}, name());
    const ValueId step = graph_.add_constant(name(), Tensor::of<float>({}, {0.01f * float(3 + below(4))}));
    const ValueId zero = graph_.add_constant(name(), Tensor::of<int64_t>({}, {0}).converted(DType::i8));
    const ValueId again = graph_.add_single(ops::Quantize{}, {scaled, step, zero}, name());
    push(ops::Dequantize{}, {again, step, zero});
  }

  // As exporters write it: groups cut out by a reshape, scaled by 1 or not, and put back.
  void group_norm() {
    const auto x = pick_rank(4);
    if (!x || !shape(*x)[1].is_constant()) return;
    const Shape s = shape(*x);
    const int64_t channels = s[1].value(), groups = channels % 2 ? channels : channels / 2;
    if (channels == 0) return;
    ops::Reshape cut, back;
    cut.shape = {s[0], Dim(groups), Dim(channels / groups) * s[2] * s[3]};
    back.shape = s;
    ops::Normalize op;
    op.axes = {2};
    op.epsilon = 0.01;
    ValueId y = graph_.add_single(op, {graph_.add_single(cut, {*x}, name())}, name());
    if (chance(0.5)) {
      Tensor ones(DType::f32, {groups, 1});
      for (int64_t i = 0; i < groups; ++i) ones.data<float>()[i] = 1;
      Program scale;
      scale.inputs = 2;
      scale.push({Scalar::mul, DType::f32, {0, 1, -1}});
      y = graph_.add_single(ops::Pointwise{scale}, {y, graph_.add_constant(concat("c", counter_++), ones)}, name());
    }
    push(back, {y});
  }

  void layer_norm() {
    const ValueId x = pick();
    const int64_t rank = graph_.type(x).rank();
    if (rank < 2) return;
    ops::Reduce mean;
    mean.kind = ops::ReduceKind::mean;
    mean.axes = {rank - 1};
    Program sub, square, root, div;
    sub.inputs = div.inputs = 2;
    sub.push({Scalar::sub, DType::f32, {0, 1, -1}});
    const int two = square.push(constant_step(DType::f32, 2));
    square.push({Scalar::pow, DType::f32, {0, two, -1}});
    const int epsilon = root.push(constant_step(DType::f32, 0.01));
    const int sum = root.push({Scalar::add, DType::f32, {0, epsilon, -1}});
    root.push({Scalar::sqrt, DType::f32, {sum, -1, -1}});
    div.push({Scalar::div, DType::f32, {0, 1, -1}});
    const ValueId m = graph_.add_single(mean, {x}, name()), d = graph_.add_single(ops::Pointwise{sub}, {x, m}, name());
    const ValueId q = graph_.add_single(ops::Pointwise{square}, {d}, name()), v = graph_.add_single(mean, {q}, name());
    push(ops::Pointwise{div}, {d, graph_.add_single(ops::Pointwise{root}, {v}, name())});
  }
};

// Folded scales and merged roundings move results by some units in the last place; sums of up to a hundred terms of
// size one, through up to twenty layers, keep that below 1e-4 of the largest element.
constexpr double kTolerance = 1e-4;

// What both answer differs by `tolerance` of the largest element of each output at most.
void expect_alike(const Graph& before, const Graph& after, const std::vector<Tensor>& inputs, double tolerance) {
  const auto wanted = run_reference(before, inputs), got = run_reference(after, inputs);
  ASSERT_EQ(wanted.size(), got.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_EQ(wanted[i].type().text(), got[i].type().text());
    double largest = 1, worst = 0;
    const auto a = wanted[i].to_doubles(), b = got[i].to_doubles();
    for (size_t k = 0; k < a.size(); ++k) {
      largest = std::max(largest, std::fabs(a[k]));
      worst = std::max(worst, std::isfinite(a[k]) && std::isfinite(b[k]) ? std::fabs(a[k] - b[k])
                              : a[k] == b[k]                             ? 0
                                                                         : 1e30);
    }
    ASSERT_LE(worst, tolerance * largest) << "output " << i << '\n' << print(before) << "\nafter:\n" << print(after);
  }
}

TEST(RandomGraphs, GiveTheSameOutputsOptimisedAndNot) {
  std::map<std::string, int> changed;  // graphs, by pass
  for (const Pass& pass : portable_pipeline().passes) changed[std::string(pass.name)] = 0;
  for (uint32_t seed = 0; seed < 900; ++seed) {
    SCOPED_TRACE(concat("seed ", seed));
    RandomGraph random(seed);
    const Graph before = random.make();
    if (before.outputs().empty()) continue;
    const std::vector<Tensor> inputs = random.feed();
    Graph after = before;
    std::vector<PassTiming> timings;
    ASSERT_NO_THROW(timings = run_passes(after)) << print(before);
    const PassFunction patches = [](Graph& graph, const PassOptions&) {
      return patches_as_products(graph, [](const Graph&, const Op&, const std::vector<ValueId>&) { return false; });
    };
    const PassFunction widen = [](Graph& graph, const PassOptions& options) {
      return widen_products(graph, {DType::f8e4m3fn, DType::f16}, options);
    };
    const Pipeline device{9,
                          "more",
                          {{"expand_conv_transpose", expand_conv_transpose},
                           {"patches_as_products", patches},
                           {"sink_rows", sink_rows},
                           {"turn_products", turn_products},
                           {"fuse_sums", fuse_sums},
                           {"merge_products", merge_products},
                           {"widen_products", widen}}};
    const auto more = run_passes(after, {}, device);
    timings.insert(timings.end(), more.begin(), more.end());
    for (const PassTiming& timing : timings) changed[timing.name] += timing.changed;
    ASSERT_NO_FATAL_FAILURE(expect_alike(before, after, inputs, kTolerance));
  }
  for (const auto& [pass, graphs] : changed)
    EXPECT_GE(graphs, 10) << pass << ": the random graphs give it nothing to do";
}

// Rounding to 8 bits is off by half a step of a 127th of the row's largest.
TEST(RandomGraphs, WithScalesForEachTokenStayCloseAndTheSameOptimised) {
  PlacementOptions by_token;
  by_token.activation_scales = ActivationScales::token;
  int64_t quantized = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(concat("seed ", seed));
    RandomGraph random(seed);
    Graph before = random.make();
    if (before.outputs().empty()) continue;
    const std::vector<Tensor> inputs = random.feed();
    run_passes(before);
    Placement placed;
    try {
      placed = place_quantization(before, {}, by_token);
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::usage) << error.what();  // no such product
      continue;
    }
    quantized += placed.integer_products;
    ASSERT_NO_THROW(verify(placed.graph)) << print(placed.graph);
    ASSERT_NO_FATAL_FAILURE(expect_alike(before, placed.graph, inputs, 1.0 / 16));
    Graph after = placed.graph;
    run_passes(after);
    ASSERT_NO_FATAL_FAILURE(expect_alike(placed.graph, after, inputs, kTolerance));
  }
  EXPECT_GE(quantized, 100);
}

// A value rounded to bf16 is off by at most 2^-9 of itself. Sums of a hundred terms, through up to twenty layers, keep
// what that makes below a sixteenth of the largest element.
TEST(RandomGraphs, LoweredToBf16StayCloseAndLowerNothingTwice) {
  int lowered = 0, carried = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(concat("seed ", seed));
    RandomGraph random(seed);
    Graph before = random.make();
    if (before.outputs().empty()) continue;
    const std::vector<Tensor> inputs = random.feed();
    run_passes(before);
    Lowering lowering;
    ASSERT_NO_THROW(lowering = lower_precision(before, DType::bf16)) << print(before);
    const Graph& after = lowering.graph;
    ASSERT_NO_THROW(verify(after)) << print(after);
    ASSERT_EQ(lowering.nodes.size(), size_t(before.node_count()));
    lowered += int(lowering.lowered_products);
    for (int32_t n = 0; n < after.node_count(); ++n)
      carried += after.type(after.node({n}).outputs[0]).dtype == DType::bf16 && !epilogue_of(after.node({n}).op);
    ASSERT_EQ(print(lower_precision(after, DType::bf16).graph), print(after));
    ASSERT_NO_FATAL_FAILURE(expect_alike(before, after, inputs, 1.0 / 16));
  }
  EXPECT_GE(lowered, 200);
  EXPECT_GE(carried, 200);
}

}  // namespace
}  // namespace temper
