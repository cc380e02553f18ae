// SPDX-License-Identifier: Apache-2.0
#include "passes/keep_caches.h"

#include <algorithm>
#include <numeric>

#include "graph/ops/append.h"
#include "graph/ops/attention.h"
#include "graph/ops/gather.h"
#include "graph/ops/matmul.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/reshape.h"
#include "graph/ops/sample.h"
#include "graph/ops/shape.h"
#include "graph/ops/slice.h"
#include "passes/find_caches.h"

namespace temper {

namespace caches {

namespace {

Program of_two(Scalar op) {
  Program program;
  program.inputs = 2;
  program.push({op, DType::i64, {0, 1, -1}});
  return program;
}

class Keeper {
 public:
  Keeper(const Found& found, const CacheOptions& options) : found_(found), from_(found.graph), options_(options) {
    to_.name = from_.name;
    map_.resize(size_t(from_.value_count()));
    caches_.resize(found.pasts.size());
    appended_.resize(found.pasts.size());
  }

  Graph run() {
    find_needed();
    write();
    return std::move(to_);
  }

 private:
  const Found& found_;
  const Graph& from_;
  const CacheOptions& options_;
  const Dim batch_ = found_.sizes.batch, queries_ = found_.sizes.queries;  // B, S
  Graph to_;
  std::vector<ValueId> map_;                // by value of from_
  std::vector<ValueId> caches_, appended_;  // by past: the input, and what is there behind the run
  std::vector<char> needed_;                // by node
  ValueId lengths_, counts_, total_, rows_count_, next_lengths_;
  ValueId past_tokens_, settings_, draws_;
  ValueId counted_on_;  // places()

  const CachedAttention* cached_at(int32_t n) const {
    for (const CachedAttention& cached : found_.attentions)
      if (cached.node.index == n) return &cached;
    return nullptr;
  }
  // New positions [B,S,G,D] of a past.
  ValueId fresh_of(size_t past) const { return from_.producer(found_.pasts[past].joined)->inputs[1]; }
  bool is_present(const GraphOutput& output) const {
    return std::any_of(found_.pasts.begin(), found_.pasts.end(), [&](const Past& past) {
      return output.name == past.output || output.name == past.joined_output;
    });
  }

  std::vector<ValueId> inputs_of(int32_t n) const {
    const Node& node = from_.node({n});
    if (const CachedAttention* cached = cached_at(n))
      return {node.inputs[0], fresh_of(cached->keys), fresh_of(cached->values)};
    return node.inputs;
  }

  void find_needed() {
    needed_.assign(size_t(from_.node_count()), 0);
    std::vector<char> read(size_t(from_.value_count()), 0);
    for (const GraphOutput& output : from_.outputs())
      if (!is_present(output)) read[size_t(output.value.index)] = 1;
    for (int32_t n = from_.node_count(); n-- > 0;) {
      for (const ValueId output : from_.node({n}).outputs) needed_[size_t(n)] |= read[size_t(output.index)];
      if (!needed_[size_t(n)]) continue;
      for (const ValueId id : inputs_of(n)) {
        if (!id.valid() || found_.counted.contains(id)) continue;
        read[size_t(id.index)] = 1;
        const bool past =
            std::any_of(found_.pasts.begin(), found_.pasts.end(), [&](const Past& p) { return p.value == id; });
        if (past)
          refuse("'", from_.node({n}).name, "' (", name_of(from_.node({n}).op), ") uses '", from_.value(id).name,
                 "' for more than keys and values, as where positions follow from their number", kHow);
        if (id == found_.mask)
          refuse("'", from_.node({n}).name, "' (", name_of(from_.node({n}).op),
                 ") uses attention_mask for more than the masks of attentions", kHow);
      }
    }
    for (const CachedAttention& cached : found_.attentions)
      if (!needed_[size_t(cached.node.index)]) refuse("nothing reads what '", from_.node(cached.node).name, "' gives");
  }

  ValueId add(Op op, std::vector<ValueId> inputs, std::string_view name) {
    return to_.add_single(std::move(op), std::move(inputs), name);
  }
  ValueId cast(ValueId x, DType dtype) {
    if (to_.type(x).dtype == dtype) return x;
    Program program;
    program.inputs = 1;
    program.push({Scalar::cast, dtype, {0, -1, -1}});
    return add(ops::Pointwise{program}, {x}, "cast");
  }
  ValueId mapped(ValueId id) {
    if (!id.valid()) return id;
    ValueId& to = map_[size_t(id.index)];
    if (!to.valid()) to = to_.add_constant(from_.value(id).name, *from_.constant(id));
    return to;
  }

  void write_inputs() {
    for (const ValueId id : from_.inputs()) {
      const Value& value = from_.value(id);
      if (id == found_.mask || id == found_.positions) continue;
      const auto past = std::ranges::find(found_.pasts, id, &Past::value);
      if (past == found_.pasts.end()) {
        map_[size_t(id.index)] = to_.add_input(value.name, value.type);
        continue;
      }
      const Shape& shape = value.type.shape;
      caches_[size_t(past - found_.pasts.begin())] =
          to_.add_input(value.name, {options_.dtype, {batch_, options_.positions, shape[1] * shape[3]}});
    }
    lengths_ = to_.add_input(kLengths, {DType::i64, {batch_}});
    counts_ = to_.add_input(kCounts, {DType::i64, {batch_}});
    const Dim positions = options_.positions;
    past_tokens_ = to_.add_input(kPastTokens, {DType::i64, {batch_, positions, 1}});
    settings_ = to_.add_input(kSettings, {DType::f64, {batch_, ops::sampling::kSettings}});
    draws_ = to_.add_input(kDraws, {DType::f64, {batch_, positions}});
    next_lengths_ = add(ops::Pointwise{of_two(Scalar::add)}, {lengths_, counts_}, kNextLengths);
    // S as a number: a constant of each plan.
    rows_count_ = add(ops::ShapeOf{.start = 1, .end = 2}, {map_[size_t(found_.tokens.index)]}, "new_positions");
    total_ = add(ops::Pointwise{of_two(Scalar::add)}, {lengths_, rows_count_}, "all_positions");
    if (found_.positions.valid()) map_[size_t(found_.positions.index)] = places();
    for (const auto& [id, counts] : found_.counted) {
      const ValueId value = counts == Counts::past ? lengths_ : counts == Counts::all ? total_ : places();
      map_[size_t(id.index)] = add(ops::Reshape{from_.type(id).shape}, {value}, from_.value(id).name);
    }
  }

  // i64 [B,S]: those of the new ones.
  ValueId places() {
    if (counted_on_.valid()) return counted_on_;
    // The first S of all there are: a part of a constant, where a range would be a step of each plan.
    Tensor all(DType::i64, {options_.positions});
    std::iota(all.data<int64_t>(), all.data<int64_t>() + options_.positions, 0);
    ops::Slice first = ops::slice_all({options_.positions});
    first.sizes[0] = queries_;
    const ValueId fresh = add(std::move(first), {to_.add_constant("places", std::move(all))}, "new_places");
    return counted_on_ = add(ops::Pointwise{of_two(Scalar::add)},
                             {add(ops::Reshape{{batch_, 1}}, {lengths_}, "first_positions"),
                              add(ops::Reshape{{1, queries_}}, {fresh}, "new_places")},
                             kPositions);
  }

  ValueId appended(size_t which, std::string_view name) {
    if (appended_[which].valid()) return appended_[which];
    const Shape& shape = to_.type(mapped(fresh_of(which))).shape;
    const ValueId rows = add(ops::Reshape{{shape[0], shape[1], shape[2] * shape[3]}}, {mapped(fresh_of(which))}, name);
    return appended_[which] =
               add(ops::Append{}, {caches_[which], cast(rows, options_.dtype), lengths_}, found_.pasts[which].output);
  }

  void write_attention(const CachedAttention& cached) {
    const Node& node = from_.node(cached.node);
    ops::Attention op = node.op.get<ops::Attention>();
    op.right = 0, op.from_end = true, op.zero_nan = false;  // each token sees itself at least
    const ValueId q = mapped(node.inputs[0]);
    const DType dtype = to_.type(q).dtype;
    const ValueId k = cast(appended(cached.keys, node.name), dtype),
                  v = cast(appended(cached.values, node.name), dtype);
    map_[size_t(node.outputs[0].index)] =
        to_.add(op, {q, k, v, {}, total_}, node.name, {from_.value(node.outputs[0]).name})[0];
  }

  // The last row that counts, of [B,S,K] as [B,K]: any where none does. For a count below 0 the index is beyond any
  // tensor.
  ValueId last_row(ValueId x) {
    Program program;
    program.inputs = 1;
    const auto number = [&](int64_t n) {
      Step step{Scalar::constant, DType::i64};
      step.integer = n;
      return program.push(step);
    };
    const int before = program.push({Scalar::sub, DType::i64, {0, number(1), -1}}), zero = number(0);
    const int last = program.push({Scalar::max, DType::i64, {before, zero, -1}}),
              none = program.push({Scalar::less, DType::boolean, {0, zero, -1}}), far = number(int64_t(1) << 40);
    program.push({Scalar::where, DType::i64, {none, far, last}});
    const ValueId index = add(ops::Reshape{{batch_, 1}}, {add(ops::Pointwise{program}, {counts_}, "last")}, "last");
    ops::Gather gather;
    gather.kind = ops::GatherKind::nd;
    gather.batch_dims = 1;
    return add(gather, {x, index}, "last_row");
  }

  // Logits of the last row alone. Where a product with weights makes them, of that row alone, too.
  ValueId last_logits(ValueId logits) {
    const Node* node = from_.producer(logits);
    const auto* product = node ? node->op.get_if<ops::MatMul>() : nullptr;
    bool by_rows = product && !product->transpose_a && from_.type(node->inputs[0]).rank() == 3 &&
                   from_.type(node->inputs[1]).rank() == 2 && from_.value(logits).users.empty();
    for (size_t i = 2; by_rows && i < node->inputs.size(); ++i) by_rows = from_.type(node->inputs[i]).rank() <= 1;
    if (!by_rows) return last_row(mapped(logits));
    std::vector<ValueId> inputs;
    for (const ValueId id : node->inputs) inputs.push_back(mapped(id));
    inputs[0] = last_row(inputs[0]);
    return add(node->op, inputs, node->name);
  }

  // Of the logits [B,V] behind the tokens that were read.
  void add_next_token(ValueId logits) {
    const ValueId rows = add(ops::Reshape{{batch_, queries_, 1}}, {map_[size_t(found_.tokens.index)]}, kPresentTokens);
    const ValueId tokens = add(ops::Append{}, {past_tokens_, rows, lengths_}, kPresentTokens);
    const auto made =
        to_.add(ops::Sample{}, {cast(logits, DType::f32), tokens, next_lengths_, settings_, draws_}, kNext);
    to_.add_output(kNext, made[0]);
    to_.add_output(kFlaw, made[1]);
    to_.add_output(kPresentTokens, tokens);
  }

  void write() {
    write_inputs();
    for (int32_t n = 0; n < from_.node_count(); ++n) {
      if (!needed_[size_t(n)]) continue;
      if (const CachedAttention* cached = cached_at(n)) {
        write_attention(*cached);
        continue;
      }
      const Node& node = from_.node({n});
      std::vector<ValueId> inputs;
      for (const ValueId id : node.inputs) inputs.push_back(mapped(id));
      std::vector<std::string> names;
      for (const ValueId output : node.outputs) names.push_back(from_.value(output).name);
      const auto made = to_.add(node.op, inputs, node.name, names);
      for (size_t o = 0; o < made.size(); ++o)
        if (!found_.counted.contains(node.outputs[o])) map_[size_t(node.outputs[o].index)] = made[o];
    }
    bool logits = false;
    for (const GraphOutput& output : from_.outputs()) {
      if (is_present(output)) continue;
      const TensorType& type = from_.type(output.value);
      if (output.name != kLogits) {
        to_.add_output(output.name, mapped(output.value));
        continue;
      }
      if (type.rank() != 3 || type.shape[0] != batch_ || type.shape[1] != queries_ || !is_float(type.dtype))
        refuse("'", output.name, "' is ", type, ", not [batch,sequence,tokens]");
      const ValueId last = last_logits(output.value);
      to_.add_output(output.name, last);
      add_next_token(last);
      logits = true;
    }
    if (!logits) refuse("it has no output '", kLogits, "'", kHow);
    to_.add_output(kNextLengths, next_lengths_);
    for (size_t i = 0; i < appended_.size(); ++i) to_.add_output(found_.pasts[i].output, appended_[i]);
    to_.compact();
  }
};

}  // namespace

}  // namespace caches

Graph keep_caches(const Graph& graph, const CacheOptions& options, const PassOptions& passes) {
  if (options.positions < 1) fail(ErrorKind::usage, "a cache of ", options.positions, " positions");
  return caches::Keeper(caches::find_caches(graph, options.pairs, options.positions, passes), options).run();
}

}  // namespace temper
