// SPDX-License-Identifier: Apache-2.0
// expand_attention: an attention that no tactic of the backend takes becomes transposes of heads, two products, a
// program for scale, softcap and mask, and a softmax, all of which have kernels everywhere. Exact: it is the op's
// definition. What the keys of each query are by window and lengths becomes a mask: a constant where the sizes are
// known, else computed from them.
#include "graph/ops/attention.h"
#include "graph/ops/broadcast.h"
#include "graph/ops/matmul.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/range.h"
#include "graph/ops/reshape.h"
#include "graph/ops/shape.h"
#include "graph/ops/softmax.h"
#include "graph/ops/transpose.h"
#include "passes/attention.h"

namespace temper {

namespace {

class AttentionExpander {
 public:
  AttentionExpander(Graph& graph, const Node& node)
      : graph_(graph),
        node_(node),
        op_(node.op.get<ops::Attention>()),
        q_(graph.type(node.inputs[0])),
        k_(graph.type(node.inputs[1])),
        v_(graph.type(node.inputs[2])),
        grouped_(op_.heads != op_.kv_heads) {}

  void run() {
    const DType dtype = q_.dtype, wide = dtype == DType::f64 ? DType::f64 : DType::f32;
    ValueId q = heads_of(node_.inputs[0], op_.heads);
    if (grouped_) q = reshape(q, grouped(graph_.type(q).shape));
    const ValueId scores = add(ops::MatMul{.transpose_b = true}, {q, shared(heads_of(node_.inputs[1], op_.kv_heads))});
    const ValueId weights = add(ops::Softmax{.axis = graph_.type(scores).rank() - 1}, {masked(scores, wide)});
    Program narrow;
    int value = 0;
    if (op_.zero_nan) {
      const int nan = narrow.push({Scalar::is_nan, DType::boolean, {0, -1, -1}}),
                zero = narrow.push(constant_step(wide, 0));
      value = narrow.push({Scalar::where, wide, {nan, zero, 0}});
    }
    if (dtype != wide) narrow.push({Scalar::cast, dtype, {value, -1, -1}});
    ops::MatMul product;
    if (dtype != wide) product.epilogue.push({Scalar::cast, dtype, {0, -1, -1}});
    ValueId y = add(product, {narrow.is_identity() ? weights : add(ops::Pointwise{narrow}, {weights}),
                              shared(heads_of(node_.inputs[2], op_.kv_heads))});
    const Dim size = graph_.type(y).shape.back();
    if (grouped_) y = reshape(y, {q_.shape[0], op_.heads, q_.shape[1], size});
    y = add(ops::Transpose{{0, 2, 1, 3}}, {y});
    graph_.rewrite(node_.outputs[0], ops::Reshape{graph_.type(node_.outputs[0]).shape}, {y}, node_.name);
  }

 private:
  Graph& graph_;
  const Node node_;
  const ops::Attention op_;
  const TensorType q_, k_, v_;
  const bool grouped_;

  ValueId add(Op op, std::vector<ValueId> inputs) {
    return graph_.add_single(std::move(op), std::move(inputs), node_.name);
  }
  ValueId reshape(ValueId x, Shape shape) {
    return graph_.type(x).shape == shape ? x : add(ops::Reshape{std::move(shape)}, {x});
  }
  // [B,S,H*D] -> [B,H,S,D]
  ValueId heads_of(ValueId x, int64_t heads) {
    const Shape shape = graph_.type(x).shape;
    return add(ops::Transpose{{0, 2, 1, 3}}, {reshape(x, {shape[0], shape[1], heads, shape[2].value() / heads})});
  }
  // Axis 1 of four as two: heads of keys, and heads of queries that share one.
  Shape grouped(Shape shape) const {
    const Dim heads = shape[1];
    shape[1] = heads == Dim(1) ? Dim(1) : Dim(op_.kv_heads);
    shape.insert(shape.begin() + 2, heads == Dim(1) ? Dim(1) : Dim(op_.heads / op_.kv_heads));
    return shape;
  }
  ValueId shared(ValueId x) {
    if (!grouped_) return x;
    Shape shape = graph_.type(x).shape;
    shape.insert(shape.begin() + 2, Dim(1));
    return reshape(x, shape);
  }

  // As it broadcasts to the scores.
  ValueId mask_of_scores(ValueId mask) {
    Shape shape = graph_.type(mask).shape;
    if (shape.size() == 4 && shape[0] != Dim(1) && shape[0] != q_.shape[0] && shape[0].is_constant() &&
        q_.shape[0].is_constant()) {
      Shape rows = shape;
      rows.insert(rows.begin(), Dim(1));
      mask = reshape(mask, rows);
      rows[0] = q_.shape[0].value() / shape[0].value();
      mask = add(ops::Broadcast{rows}, {mask});
      shape[0] = q_.shape[0];
      mask = reshape(mask, shape);
    }
    if (!grouped_ || shape.size() < 3) return mask;
    shape.insert(shape.begin(), 4 - shape.size(), Dim(1));
    return reshape(mask, grouped(shape));
  }

  ValueId masked(ValueId scores, DType wide) {
    Program program;
    std::vector<ValueId> inputs{scores};
    std::vector<DType> dtypes{wide};
    for (const ValueId id : {node_.inputs.size() > 3 ? node_.inputs[3] : ValueId{}, range_mask()})
      if (id.valid()) {
        inputs.push_back(mask_of_scores(id));
        dtypes.push_back(graph_.type(id).dtype);
      }
    program.inputs = int(inputs.size());
    auto number = [&](double value) { return program.push(constant_step(wide, value)); };
    auto step = [&](Scalar op, int a, int b) { return program.push({op, wide, {a, b, -1}}); };
    int value = step(Scalar::mul, 0, number(op_.scale));
    if (op_.softcap > 0) {
      value = step(Scalar::div, value, number(op_.softcap));
      value = program.push({Scalar::tanh, wide, {value, -1, -1}});
      value = step(Scalar::mul, value, number(op_.softcap));
    }
    for (int i = 1; i < program.inputs; ++i) {
      if (dtypes[size_t(i)] == DType::boolean) {
        const int none = number(-std::numeric_limits<double>::infinity());
        value = program.push({Scalar::where, wide, {i, value, none}});
      } else {
        const int mask = dtypes[size_t(i)] == wide ? i : program.push({Scalar::cast, wide, {i, -1, -1}});
        value = step(Scalar::add, value, mask);
      }
    }
    return add(ops::Pointwise{program}, inputs);
  }

  // Which keys take part by window and lengths, as [Sq,Sk] or [B,1,Sq,Sk]; invalid: all do.
  ValueId range_mask() {
    const bool bounded = node_.inputs.size() > 4 && node_.inputs[4].valid();
    if (op_.left < 0 && op_.right < 0 && !bounded) return {};
    const Dim &queries = q_.shape[1], &keys = k_.shape[1];
    if (!bounded && queries.is_constant() && keys.is_constant()) {
      Tensor mask(DType::boolean, {queries.value(), keys.value()});
      for (int64_t i = 0; i < queries.value(); ++i) {
        const ops::KeyRange range = ops::keys_of_query(op_, i, queries.value(), keys.value(), keys.value());
        for (int64_t j = range.first; j < range.end; ++j) mask.data<bool>()[i * keys.value() + j] = true;
      }
      return graph_.add_constant(concat(node_.name, ".keys"), std::move(mask));
    }
    // key, query, number of keys, number of queries
    std::vector<ValueId> inputs{positions(1, {keys}), positions(0, {queries, 1}),
                                bounded ? reshape(node_.inputs[4], {q_.shape[0], 1, 1, 1}) : count(1), count(0)};
    Program program;
    program.inputs = int(inputs.size());
    auto step = [&](Scalar op, int a, int b) { return program.push({op, DType::i64, {a, b, -1}}); };
    auto test = [&](Scalar op, int a, int b) { return program.push({op, DType::boolean, {a, b, -1}}); };
    auto number = [&](int64_t value) {
      Step constant{Scalar::constant, DType::i64};
      constant.integer = value;
      return program.push(constant);
    };
    const int position = op_.from_end ? step(Scalar::sub, step(Scalar::add, 1, 2), 3) : 1;
    int seen = test(Scalar::less, 0, 2);
    if (op_.left >= 0)
      seen =
          test(Scalar::logical_and, seen, test(Scalar::less_equal, step(Scalar::sub, position, number(op_.left)), 0));
    if (op_.right >= 0)
      seen =
          test(Scalar::logical_and, seen, test(Scalar::less_equal, 0, step(Scalar::add, position, number(op_.right))));
    return add(ops::Pointwise{program}, inputs);
  }

  // The number of queries (input 0) or keys (1), i64 [1].
  ValueId count(size_t input) {
    const Dim& size = (input == 0 ? q_ : k_).shape[1];
    if (size.is_constant())
      return graph_.add_constant(concat(node_.name, ".size"), Tensor::of<int64_t>({1}, {size.value()}));
    return add(ops::ShapeOf{.start = 1, .end = 2}, {node_.inputs[input]});
  }
  // 0, 1, ... of as many, in this shape.
  ValueId positions(size_t input, Shape shape) {
    auto scalar = [&](int64_t value) {
      return graph_.add_constant(concat(node_.name, ".number"), Tensor::of<int64_t>({}, {value}));
    };
    return reshape(add(ops::Range{}, {scalar(0), reshape(count(input), {}), scalar(1)}), std::move(shape));
  }
};

}  // namespace

bool expand_attention(Graph& graph, const FusionTaken& taken, const BuildTime& time) {
  bool changed = false;
  const int32_t count = graph.node_count();
  for (int32_t n = 0; n < count; ++n) {
    time.check_at(n);
    const Node& node = graph.node({n});
    if (!node.op.is<ops::Attention>() || taken(graph, node.op, node.inputs)) continue;
    AttentionExpander(graph, node).run();
    changed = true;
  }
  return changed;
}

}  // namespace temper
