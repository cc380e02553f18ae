// SPDX-License-Identifier: Apache-2.0
// recognise_attention: products of queries with keys, their softmax and its product with values become the op
// attention, where a tactic takes it. Between the first product and the softmax may stand factors, a softcap, masks
// that are added or that choose between the score and a constant, and reshapes of the leading axes; behind the softmax
// a cast and PyTorch's guard, which makes zeros of NaN. Heads of keys and values that a broadcast repeats are shared
// heads.
//
// The operands are followed back through transposes, reshapes and slices to where heads lie side by side, which is what
// the op reads, and its result likewise forward: what is left of those nodes is a slice, or nothing.
//
// Sums of masks and products of factors are rounded in another order: answers agree within the rounding of f32. A
// choice of a finite constant K is taken for the addition of K where it is so large that a score disappears next to it:
// score + K is K then. It must not fuse what the model shows or uses elsewhere: scores or weights as outputs.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/half.h"
#include "graph/ops/attention.h"
#include "graph/ops/matmul.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/reshape.h"
#include "graph/ops/softmax.h"
#include "graph/ops/transpose.h"
#include "passes/attention.h"
#include "passes/support/simplify.h"
#include "passes/support/view.h"

namespace temper {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kSwallows = -1e30;  // no score is left next to a number below

// The part of a node's program that does not depend on the scores.
struct Part {
  Program program;
  std::vector<ValueId> inputs;
};

struct Mask {
  Part part;
  bool chosen = false;  // of bool: keys that take part
  Shape level;          // of the scores where it was met
};

// What was met on the way from the softmax back to the first product.
struct ScoreChain {
  NodeId product;
  double factor = 1, softcap = 0;
  std::vector<Mask> masks;
};

// The steps that `value` needs.
Part part_of(const Program& program, const std::vector<ValueId>& inputs, int value) {
  Part part;
  std::vector<int> mapped(size_t(program.inputs) + program.steps.size(), -1);
  std::vector<char> needed(mapped.size(), 0);
  needed[size_t(value)] = 1;
  for (int i = int(mapped.size()); i-- > program.inputs;)
    if (needed[size_t(i)])
      for (int arg : program.steps[size_t(i - program.inputs)].args)
        if (arg >= 0) needed[size_t(arg)] = 1;
  for (int i = 0; i < program.inputs; ++i)
    if (needed[size_t(i)]) {
      mapped[size_t(i)] = int(part.inputs.size());
      part.inputs.push_back(inputs[size_t(i)]);
    }
  part.program.inputs = int(part.inputs.size());
  for (int i = program.inputs; i < int(mapped.size()); ++i) {
    if (!needed[size_t(i)]) continue;
    Step step = program.steps[size_t(i - program.inputs)];
    for (int& arg : step.args)
      if (arg >= 0) arg = mapped[size_t(arg)];
    mapped[size_t(i)] = part.program.push(step);
  }
  return part;
}

// Reads the program of a node on the scores backwards, from its result to the scores.
class ProgramReader {
 public:
  ProgramReader(const Program& program, const std::vector<ValueId>& inputs, int scores, const Shape& shape)
      : program_(program), inputs_(inputs), scores_(scores), shape_(shape) {
    depends_.assign(size_t(program.inputs) + program.steps.size(), 0);
    depends_[size_t(scores)] = 1;
    for (size_t i = 0; i < program.steps.size(); ++i)
      for (int arg : program.steps[i].args)
        if (arg >= 0 && depends_[size_t(arg)]) depends_[size_t(program.inputs) + i] = 1;
  }

  bool read(ScoreChain& chain) const {
    int value = program_.result();
    while (value != scores_) {
      if (value < program_.inputs || !depends_[size_t(value)]) return false;
      const Step& step = program_.steps[size_t(value - program_.inputs)];
      const int a = step.args[0], b = step.args[1];
      switch (step.op) {
        case Scalar::cast:
          if (!is_float(step.dtype)) return false;
          value = a;
          break;
        case Scalar::mul:
        case Scalar::div: {
          const int other = depends(a) ? b : a;
          if (depends(a) == depends(b) || (step.op == Scalar::div && !depends(a))) return false;
          const auto number = constant(other);
          if (!number || *number == 0 || !std::isfinite(*number)) return false;
          chain.factor *= step.op == Scalar::mul ? *number : 1 / *number;
          value = depends(a) ? a : b;
          break;
        }
        case Scalar::tanh:
          if (chain.softcap > 0 || !(chain.factor > 0)) return false;
          chain.softcap = std::exchange(chain.factor, 1);
          value = a;
          break;
        case Scalar::add:
          if (depends(a) == depends(b) || !mask(chain, part_of(program_, inputs_, depends(a) ? b : a), false))
            return false;
          value = depends(a) ? a : b;
          break;
        case Scalar::where: {
          const int c = step.args[2], other = depends(b) ? c : b;
          const auto number = constant(other);
          if (depends(a) || depends(b) == depends(c) || !number || !choice(chain, a, depends(b), *number)) return false;
          value = depends(b) ? b : c;
          break;
        }
        default: return false;
      }
    }
    return true;
  }

 private:
  const Program& program_;
  const std::vector<ValueId>& inputs_;
  const int scores_;
  const Shape& shape_;
  std::vector<char> depends_;

  bool depends(int value) const { return value >= 0 && depends_[size_t(value)]; }
  std::optional<double> constant(int value) const {
    if (value < program_.inputs) return std::nullopt;
    const Step& step = program_.steps[size_t(value - program_.inputs)];
    if (step.op != Scalar::constant || !is_float(step.dtype)) return std::nullopt;
    return step.number;
  }
  // A mask under a factor would be multiplied, too.
  bool mask(ScoreChain& chain, Part part, bool chosen) const {
    if (chain.factor != 1 || chain.softcap > 0) return false;
    for (ValueId id : part.inputs)
      if (!id.valid()) return false;
    chain.masks.push_back({std::move(part), chosen, shape_});
    return true;
  }
  // The score where `condition` is `when`, else `number`.
  bool choice(ScoreChain& chain, int condition, bool when, double number) const {
    Part part = part_of(program_, inputs_, condition);
    const int value = part.program.result();
    if (number == -kInfinity) {
      if (!when) part.program.push({Scalar::logical_not, DType::boolean, {value, -1, -1}});
      return mask(chain, std::move(part), true);
    }
    if (!(number <= kSwallows)) return false;
    const int zero = part.program.push(constant_step(DType::f32, 0)),
              low = part.program.push(constant_step(DType::f32, number));
    part.program.push({Scalar::where, DType::f32, {value, when ? zero : low, when ? low : zero}});
    return mask(chain, std::move(part), false);
  }
};

// What stands behind the softmax, up to the second product.
struct Behind {
  NodeId product;
  bool zero_nan = false;
};

class Recogniser {
 public:
  Recogniser(Graph& graph, const FusionTaken& taken) : graph_(graph), taken_(taken) {}

  bool visit(NodeId softmax) {
    const Node node = graph_.node(softmax);
    const auto& op = node.op.get<ops::Softmax>();
    if (op.log || op.axis + 1 != graph_.type(node.inputs[0]).rank()) return false;
    const auto behind = product_behind(node.outputs[0]);
    if (!behind) return false;
    const auto chain = chain_before(node.inputs[0], {});
    return chain && fuse(*chain, *behind);
  }

 private:
  Graph& graph_;
  const FusionTaken& taken_;
  std::string name_;

  const Shape& shape(ValueId id) const { return graph_.type(id).shape; }
  ValueId add(Op op, std::vector<ValueId> inputs) { return graph_.add_single(std::move(op), std::move(inputs), name_); }
  ValueId reshape(ValueId x, Shape to) { return shape(x) == to ? x : add(ops::Reshape{std::move(to)}, {x}); }

  // ---- finding ----

  std::optional<ScoreChain> chain_before(ValueId value, const ScoreChain& met) const {
    if (!graph_.has_single_use(value) || !graph_.producer(value)) return std::nullopt;
    const Node& node = *graph_.producer(value);
    if (const auto* product = node.op.get_if<ops::MatMul>()) {
      ScoreChain chain = met;
      chain.product = graph_.value(value).producer;
      std::vector<ValueId> inputs(node.inputs.begin() + 1, node.inputs.end());
      inputs[0] = {};  // the accumulator
      if (!ProgramReader(product->epilogue, inputs, 0, shape(value)).read(chain)) return std::nullopt;
      return chain;
    }
    if (node.op.is<ops::Reshape>() && node.inputs.size() == 1) return chain_before(node.inputs[0], met);
    if (const auto* pointwise = node.op.get_if<ops::Pointwise>())
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (shape(node.inputs[i]) != shape(value)) continue;
        ScoreChain chain = met;
        if (!ProgramReader(pointwise->program, node.inputs, int(i), shape(value)).read(chain)) continue;
        if (auto found = chain_before(node.inputs[i], chain)) return found;
      }
    return std::nullopt;
  }

  // Casts between floats, and zeros in the place of NaN.
  static bool guards(const Program& program, bool& zero_nan) {
    int value = program.result();
    while (value >= program.inputs) {
      const Step& step = program.steps[size_t(value - program.inputs)];
      if (step.op == Scalar::cast && is_float(step.dtype)) {
        value = step.args[0];
        continue;
      }
      if (step.op != Scalar::where || step.args[0] < program.inputs || step.args[1] < program.inputs) return false;
      const Step &test = program.steps[size_t(step.args[0] - program.inputs)],
                 &zero = program.steps[size_t(step.args[1] - program.inputs)];
      if (test.op != Scalar::is_nan || zero.op != Scalar::constant || zero.number != 0 || test.args[0] != step.args[2])
        return false;
      zero_nan = true;
      value = step.args[2];
    }
    return program.inputs == 1;
  }

  std::optional<Behind> product_behind(ValueId value) const {
    Behind behind;
    for (;;) {
      if (!graph_.has_single_use(value)) return std::nullopt;
      const NodeId user = graph_.value(value).users[0];
      const Node& node = graph_.node(user);
      if (const auto* product = node.op.get_if<ops::MatMul>()) {
        behind.product = user;
        if (node.inputs[0] != value || product->transpose_a) return std::nullopt;
        return behind;
      }
      if (const auto* pointwise = node.op.get_if<ops::Pointwise>()) {
        if (!guards(pointwise->program, behind.zero_nan)) return std::nullopt;
      } else if (!node.op.is<ops::Reshape>() || node.inputs.size() != 1) {
        return std::nullopt;
      }
      value = node.outputs[0];
    }
  }

  // ---- operands ----

  static std::vector<int64_t> last_two_swapped(size_t rank) {
    std::vector<int64_t> perm;
    for (size_t i = 0; i < rank; ++i) perm.push_back(int64_t(i));
    std::swap(perm[rank - 1], perm[rank - 2]);
    return perm;
  }

  // A view [B,H,S,D] as [B,S,H*D].
  ValueId joined(View view) {
    const Shape from = view.shape();
    view.transpose({0, 2, 1, 3});
    if (!view.reshape({from[0], from[2], from[1] * from[3]})) return {};
    return view.write(graph_, name_);
  }

  // ---- masks ----

  // The mask of scores of shape `level` as one of scores of `to` [B,H,Sq,Sk]; nothing where it has no such form.
  // Leading axes are taken together until their sizes agree: what the mask has along those of `level` must be there
  // along those of `to`, or repeat along the first.
  std::optional<ValueId> mask_for(ValueId mask, const Shape& level, const Shape& to) {
    Shape own = shape(mask);
    if (own.size() > level.size()) return std::nullopt;
    own.insert(own.begin(), level.size() - own.size(), Dim(1));
    if (level == to) return shape(mask).size() <= 4 ? std::optional(mask) : std::nullopt;
    const size_t lead = level.size() - 2;
    if (level[lead] != to[2] || level[lead + 1] != to[3]) return std::nullopt;
    Shape result;
    size_t l = 0;
    for (size_t t = 0; t < 2;) {
      if (l == lead) {
        result.push_back(1);  // an axis of one element
        if (to[t++] != Dim(1)) return std::nullopt;
        continue;
      }
      size_t l_end = l + 1, t_end = t + 1;
      Dim have = level[l], want = to[t];
      while (have != want) {
        if (!have.is_constant() || !want.is_constant()) return std::nullopt;
        if (have.value() < want.value() && l_end < lead) have = have * level[l_end++];
        else if (have.value() > want.value() && t_end < 2) want = want * to[t_end++];
        else return std::nullopt;
      }
      if (!lead_of_mask(own, level, to, {l, l_end}, {t, t_end}, result)) return std::nullopt;
      l = l_end, t = t_end;
    }
    for (; l < lead; ++l)
      if (level[l] != Dim(1)) return std::nullopt;
    result.push_back(own[lead]);
    result.push_back(own[lead + 1]);
    return reshape(mask, result);
  }

  // Axes `from` of the mask's level as axes `to` of the scores.
  static bool lead_of_mask(const Shape& own, const Shape& level, const Shape& scores, std::pair<size_t, size_t> from,
                           std::pair<size_t, size_t> to, Shape& result) {
    const Dim one = 1;
    bool none = true, all = true;
    Dim present = 1;
    size_t first = from.first;  // of those that the mask has
    while (first < from.second && own[first] == one) ++first;
    for (size_t i = from.first; i < from.second; ++i) {
      none &= own[i] == one;
      all &= own[i] == level[i];
      if (i >= first) {
        if (own[i] != level[i]) return none;
        present = present * own[i];
      }
    }
    if (none || all) {
      for (size_t i = to.first; i < to.second; ++i) result.push_back(none ? one : scores[i]);
      return true;
    }
    // It repeats along the outer ones: the op reads the rows of a mask over and over along the batch.
    if (to.first != 0 || to.second != 1) return false;
    result.push_back(present);
    return true;
  }

  // The value without the inputs of its program that are one number all over: they give a mask axes along which it does
  // not differ, and each query would read it anew.
  ValueId narrowed(ValueId id) {
    const Node* node = graph_.producer(id);
    if (!node || !node->op.is<ops::Pointwise>()) return id;
    Program program = node->op.get<ops::Pointwise>().program;
    std::vector<ValueId> inputs = node->inputs;
    for (size_t i = inputs.size(); i-- > 0;) {
      const auto number = only_element(graph_.constant(inputs[i]));
      if (!number) continue;
      program = with_constant(program, int(i), graph_.type(inputs[i]).dtype, *number);
      inputs.erase(inputs.begin() + ptrdiff_t(i));
    }
    if (inputs.empty() || broadcast_shape(graph_, inputs) == shape(id)) return id;
    std::vector<DType> dtypes;
    for (ValueId input : inputs) dtypes.push_back(graph_.type(input).dtype);
    return add(ops::Pointwise{simplify(program, dtypes)}, inputs);
  }

  ValueId value_of(const Part& part) {
    if (part.program.is_identity()) return narrowed(part.inputs[0]);
    // Of constants it is one: who writes a triangle looks for it.
    std::vector<Tensor> constants;
    std::vector<Shape> shapes;
    for (ValueId id : part.inputs)
      if (const Tensor* constant = graph_.constant(id)) {
        constants.push_back(*constant);
        shapes.push_back(shape(id));
      }
    if (constants.size() == part.inputs.size()) {
      Shape all;
      for (const Shape& each : shapes) all = broadcast_shapes(all, each);
      const Dims dims = TensorType{DType::f32, all}.dims();
      return graph_.add_constant(concat(name_, ".mask"), run_program(part.program, constants, dims));
    }
    return add(ops::Pointwise{part.program}, part.inputs);
  }

  // Whether a constant mask leaves exactly the keys up to the query's own position, counted from either end.
  bool is_causal(ValueId id, bool chosen, bool alone, ops::Attention& op, const Dim& queries, const Dim& keys) const {
    const Tensor* mask = graph_.constant(id);
    if (!mask || mask->rank() < 2 || !queries.is_constant() || !keys.is_constant()) return false;
    const int64_t rows = queries.value(), columns = keys.value();
    const Dims& dims = mask->dims();
    if (rows < 2 || mask->count() != rows * columns || dims.back() != columns || dims[dims.size() - 2] != rows)
      return false;
    const auto values = mask->to_doubles();
    for (bool from_end : {false, true}) {
      if (from_end && columns <= rows) break;
      const int64_t offset = from_end ? columns - rows : 0;
      bool same = true;
      for (int64_t i = 0; same && i < rows; ++i)
        for (int64_t j = 0; same && j < columns; ++j) {
          const double value = values[size_t(i * columns + j)];
          const bool takes_part = j <= i + offset;
          if (chosen) same = (value != 0) == takes_part;
          else same = takes_part ? value == 0 : value == -kInfinity || (alone && value <= kSwallows);
        }
      if (!same) continue;
      op.right = 0;
      op.from_end = from_end;
      return true;
    }
    return false;
  }

  // One mask of all; invalid where there is none, nothing where they cannot be said.
  std::optional<ValueId> joined_masks(const std::vector<Mask>& masks, const Shape& scores, ops::Attention& op) {
    std::vector<ValueId> values;
    std::vector<char> chosen;
    for (const Mask& mask : masks) {
      const ValueId value = value_of(mask.part);
      if (is_causal(value, mask.chosen, masks.size() == 1, op, scores[2], scores[3])) continue;
      const auto fitting = mask_for(value, mask.level, scores);
      if (!fitting) return std::nullopt;
      values.push_back(*fitting);
      chosen.push_back(mask.chosen);
    }
    if (values.empty()) return ValueId{};
    if (values.size() == 1) return values[0];
    const bool all_chosen = std::ranges::all_of(chosen, [](char c) { return c; });
    Program program;
    program.inputs = int(values.size());
    int sum = -1;
    for (int i = 0; i < program.inputs; ++i) {
      int value = i;
      if (!all_chosen && chosen[size_t(i)]) {
        const int zero = program.push(constant_step(DType::f32, 0)),
                  none = program.push(constant_step(DType::f32, -kInfinity));
        value = program.push({Scalar::where, DType::f32, {i, zero, none}});
      } else if (!all_chosen && graph_.type(values[size_t(i)]).dtype != DType::f32) {
        value = program.push({Scalar::cast, DType::f32, {i, -1, -1}});
      }
      if (sum < 0) sum = value;
      else if (all_chosen) sum = program.push({Scalar::logical_and, DType::boolean, {sum, value, -1}});
      else sum = program.push({Scalar::add, DType::f32, {sum, value, -1}});
    }
    return add(ops::Pointwise{program}, values);
  }

  // ---- the op ----

  bool fuse(const ScoreChain& chain, const Behind& behind) {
    const Node first = graph_.node(chain.product), second = graph_.node(behind.product);
    const auto &scores = first.op.get<ops::MatMul>(), &sums = second.op.get<ops::MatMul>();
    name_ = second.name;
    if (scores.tf32 || sums.tf32) return false;  // attention multiplies f32 as it is
    const DType dtype = graph_.type(first.inputs[0]).dtype;
    if (!is_float(dtype) || graph_.type(first.inputs[1]).dtype != dtype ||
        graph_.type(second.inputs[1]).dtype != dtype || (!rounds(sums, dtype) && !widens(second, dtype)))
      return false;
    Operands all{chain.factor, shape(first.inputs[0]).size()};
    const size_t rank = all.rank;
    if (rank < 3 || shape(first.inputs[1]).size() != rank) return false;
    all.q = View(graph_, first.inputs[0], &all.factor);
    if (scores.transpose_a) all.q->transpose(last_two_swapped(rank));
    all.k = View(graph_, first.inputs[1], &all.factor);
    if (!scores.transpose_b) all.k->transpose(last_two_swapped(rank));
    all.v = View(graph_, second.inputs[1]);
    if (sums.transpose_b) all.v->transpose(last_two_swapped(all.v->shape().size()));
    if (View k = *all.k, v = *all.v; k.drop_repeats(graph_) && v.drop_repeats(graph_)) all.k = k, all.v = v;
    if (const Shape vs = all.v->shape(); vs.size() != rank) {  // the weights went through a reshape
      Shape to = all.k->shape();
      to[rank - 2] = vs[vs.size() - 2], to[rank - 1] = vs.back();
      if (!all.v->reshape(to)) return false;
    }
    // Heads are what stands before positions in the view and behind them in memory. Where a mask differs along what
    // would be heads in another way than heads can, fewer are.
    const std::vector<Dim> sizes = sizes_of_heads(all);
    for (size_t i = 0; i <= sizes.size(); ++i) {
      Dim heads = 1;
      for (size_t k = i; k < sizes.size(); ++k) heads = heads * sizes[k];
      if (!heads.is_constant()) continue;
      if (const auto done = fuse(chain, behind, all, heads.value(), dtype)) return *done;
    }
    return false;
  }

  struct Operands {
    double factor;
    size_t rank;
    std::optional<View> q, k, v;
  };

  // Values tell, as exporters turn queries and keys before they turn them again by their position. One position has no
  // place in memory.
  static std::vector<Dim> sizes_of_heads(const Operands& all) {
    const Shape qs = all.q->shape(), ks = all.k->shape();
    const size_t lead = all.rank - 2;
    if (ks[lead] == Dim(1))
      return qs[lead] == Dim(1) ? std::vector{all.rank > 3 ? qs[lead - 1] : Dim(1)} : all.q->behind_positions();
    std::vector<Dim> sizes = all.v->behind_positions();
    if (qs[lead - 1] == ks[lead - 1]) return sizes;
    if (sizes.empty()) return {qs[lead - 1]};
    sizes.back() = floor_div(sizes.back() * qs[lead - 1], ks[lead - 1]);
    return sizes;
  }

  // All leading axes but for `heads` heads, the innermost, are the batch. Nothing: with fewer heads it may be possible.
  std::optional<bool> fuse(const ScoreChain& chain, const Behind& behind, Operands all, int64_t heads, DType dtype) {
    const Node second = graph_.node(behind.product);
    const Shape qs = all.q->shape(), ks = all.k->shape(), vs = all.v->shape();
    const size_t lead = all.rank - 2;
    Dim batch = 1, whole = 1;
    for (size_t i = 0; i < lead; ++i) {
      whole = whole * qs[i];
      // Shared heads are on the last of the leading axes.
      if (ks[i] != vs[i] || (ks[i] != qs[i] && i + 1 < lead)) return false;
    }
    const Dim &size = qs[lead + 1], &value_size = vs[lead + 1];
    const Dim shared = qs[lead - 1] == ks[lead - 1] ? Dim(1) : floor_div(qs[lead - 1], ks[lead - 1]);
    if (!shared.is_constant() || shared.value() < 1 || shared * ks[lead - 1] != qs[lead - 1] ||
        heads % shared.value() != 0)
      return std::nullopt;
    batch = floor_div(whole, heads);
    if (batch * Dim(heads) != whole || ks[lead + 1] != size || vs[lead] != ks[lead] || !size.is_constant() ||
        !value_size.is_constant() || size.value() < 1 || value_size.value() < 1)
      return false;
    ops::Attention op;
    op.heads = heads;
    op.kv_heads = heads / shared.value();
    op.softcap = chain.softcap;
    op.scale = rounded_scale(chain.softcap > 0 ? all.factor * chain.softcap : all.factor, size.value());
    op.zero_nan = behind.zero_nan;
    const Dim &queries = qs[lead], &keys = ks[lead];
    if (!all.q->reshape({batch, heads, queries, size}) || !all.k->reshape({batch, op.kv_heads, keys, size}) ||
        !all.v->reshape({batch, op.kv_heads, keys, value_size}))
      return std::nullopt;
    const auto mask = joined_masks(chain.masks, {batch, heads, queries, keys}, op);
    if (!mask) return std::nullopt;
    std::vector<ValueId> inputs{joined(*all.q), joined(*all.k), joined(*all.v)};
    if (!inputs[0].valid() || !inputs[1].valid() || !inputs[2].valid()) return std::nullopt;
    if (mask->valid()) inputs.push_back(*mask);
    if (!taken_(graph_, op, inputs)) return false;
    // Back to the axes of the second product, in its place; then what only moves the result is written anew.
    ValueId y = add(op, inputs);
    if (widens(second, dtype)) {
      Program cast;
      cast.inputs = 1;
      cast.push({Scalar::cast, DType::f32, {0, -1, -1}});
      y = add(ops::Pointwise{cast}, {y});
    }
    View view(graph_, y);
    if (!view.reshape({batch, queries, heads, value_size})) return false;
    view.transpose({0, 2, 1, 3});
    if (!view.reshape(shape(second.outputs[0]))) return false;
    finish(second, view.write(graph_, name_), dtype);
    return true;
  }

  // f32 holds the factors of a model: their product is meant to be 1/sqrt(D) where it is that but for rounding.
  static double rounded_scale(double scale, int64_t size) {
    const double standard = 1 / std::sqrt(double(size));
    return std::abs(scale - standard) <= 4e-7 * standard ? standard : double(float(scale));
  }

  // Halves are rounded once: the sums of a product of them must be, too.
  static bool rounds(const ops::MatMul& sums, DType dtype) {
    if (dtype == DType::f32 || dtype == DType::f64) return true;
    const auto& steps = sums.epilogue.steps;
    return steps.size() == 1 && steps[0].op == Scalar::cast && steps[0].dtype == dtype;
  }

  // Sums of fp16 or bf16 that a lowered graph reads in f32, as its outputs do. The op's result is rounded before: a
  // kernel that keeps f32 to its end would only serve the last layer of a graph, and scores in memory cost more than
  // that bit.
  bool widens(const Node& second, DType dtype) const {
    return is_half(dtype) && graph_.type(second.outputs[0]).dtype == DType::f32 &&
           second.op.get<ops::MatMul>().epilogue.is_identity();
  }

  // Puts `y` and what the second product's epilogue does to its sums in the place of its output.
  void finish(const Node& second, ValueId y, DType dtype) {
    const ValueId output = second.outputs[0];
    const Program& epilogue = second.op.get<ops::MatMul>().epilogue;
    if (!epilogue.is_identity() && dtype != DType::f16 && dtype != DType::bf16) {
      std::vector<ValueId> inputs(second.inputs.begin() + 1, second.inputs.end());
      inputs[0] = y;
      graph_.rewrite(output, ops::Pointwise{epilogue}, inputs, second.name);
      return;
    }
    graph_.replace(output, y);
    graph_.swap_names(output, y);
    // The last of the values that show it in other axes.
    ValueId last = y;
    while (graph_.has_single_use(last)) {
      const Node& user = graph_.node(graph_.value(last).users[0]);
      if (!user.op.is<ops::Transpose, ops::Reshape>() || user.inputs.size() != 1) break;
      last = user.outputs[0];
    }
    if (last == y) return;
    const ValueId anew = View(graph_, last).write(graph_, graph_.producer(last)->name);
    graph_.replace(last, anew);
  }
};

}  // namespace

bool recognise_attention(Graph& graph, const FusionTaken& taken, const BuildTime& time) {
  bool changed = false;
  const int32_t count = graph.node_count();
  for (int32_t n = 0; n < count; ++n) {
    time.check_at(n);
    if (graph.node({n}).op.is<ops::Softmax>()) changed |= Recogniser(graph, taken).visit({n});
  }
  return changed;
}

}  // namespace temper
