// SPDX-License-Identifier: Apache-2.0
#include "passes/keep_caches.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "graph/caches.h"
#include "graph/ops/append.h"
#include "graph/ops/attention.h"
#include "graph/ops/concat.h"
#include "graph/ops/gather.h"
#include "graph/ops/matmul.h"
#include "graph/ops/pad.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/reshape.h"
#include "graph/ops/sample.h"
#include "graph/ops/shape.h"
#include "graph/ops/slice.h"
#include "graph/ops/transpose.h"
#include "passes/pipeline.h"

namespace temper {

namespace {

constexpr double kSwallows = -1e4;  // a score that this is added to has no weight left in a softmax
const char* const kHow =
    "; a model of PyTorch gets the form that is known by `temper export --past`, which writes input_ids, "
    "attention_mask, position_ids and past_key_values";

constexpr std::string_view kMask = "attention_mask", kPositions = "position_ids";

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  fail(ErrorKind::unsupported, "its past keys and values cannot become caches: ", parts...);
}

using Pairs = std::vector<std::pair<std::string, std::string>>;

Pairs pairs_of(const Graph& graph, const CacheOptions& options) {
  std::vector<std::string> inputs, outputs;
  for (const ValueId id : graph.inputs()) inputs.push_back(graph.value(id).name);
  for (const GraphOutput& output : graph.outputs()) outputs.push_back(output.name);
  Pairs pairs = options.pairs.empty() ? caches::pairs_by_name(inputs, outputs) : options.pairs;
  if (pairs.empty())
    fail(ErrorKind::usage, "the model has no past keys and values: no input past_key_values… with an output present…",
         kHow);
  return pairs;
}

// The output of its own that past and new positions have below.
std::string joined_name(const std::string& output) { return concat(output, " by positions"); }

// The sizes of a model that goes on from what it read before: B, S and P.
struct Sizes {
  Dim batch, queries, length;
};

// The part of a graph that makes `value`, as a graph whose inputs are those that it needs, and what it needs the sizes
// of.
Graph part_of(const Graph& graph, ValueId value) {
  std::vector<char> needed(size_t(graph.node_count()), 0), read(size_t(graph.value_count()), 0);
  read[size_t(value.index)] = 1;
  for (int32_t n = graph.node_count(); n-- > 0;) {
    const Node& node = graph.node({n});
    for (const ValueId output : node.outputs) needed[size_t(n)] |= read[size_t(output.index)];
    if (!needed[size_t(n)] || node.op.is<ops::ShapeOf>()) continue;
    for (const ValueId id : node.inputs)
      if (id.valid()) read[size_t(id.index)] = 1;
  }
  Graph part;
  std::map<ValueId, ValueId> map;
  for (const ValueId id : graph.inputs())
    if (read[size_t(id.index)]) map[id] = part.add_input(graph.value(id).name, graph.type(id));
  const auto mapped = [&](ValueId id) {
    if (!id.valid()) return id;
    const auto it = map.find(id);
    if (it != map.end()) return it->second;
    if (const Tensor* constant = graph.constant(id))
      return map[id] = part.add_constant(graph.value(id).name, *constant);
    return map[id] = part.add_input(graph.value(id).name, graph.type(id));
  };
  for (int32_t n = 0; n < graph.node_count(); ++n) {
    if (!needed[size_t(n)]) continue;
    const Node& node = graph.node({n});
    std::vector<ValueId> inputs;
    for (const ValueId id : node.inputs) inputs.push_back(mapped(id));
    const auto made = part.add(node.op, inputs, node.name);
    for (size_t o = 0; o < made.size(); ++o) map[node.outputs[o]] = made[o];
  }
  part.add_output("part", mapped(value));
  return part;
}

// What `part` gives for one row with `past` positions before `queries` new ones.
Tensor value_of(const Graph& part, const Sizes& of, int64_t past, int64_t queries) {
  const Bindings sizes{{of.batch.text(), 1}, {of.queries.text(), queries}, {of.length.text(), past}};
  std::vector<Tensor> inputs;
  for (const ValueId id : part.inputs()) {
    TensorType type = part.type(id);
    for (Dim& dim : type.shape) dim = dim.substitute(sizes);
    if (!type.is_concrete()) refuse("what tokens see depends on '", part.value(id).name, "' ", part.type(id));
    Tensor tensor(type.dtype, type.dims());
    const std::string& name = part.value(id).name;
    if (name == kMask) {
      Tensor ones(DType::i64, tensor.dims());
      std::fill_n(ones.data<int64_t>(), ones.count(), 1);
      tensor = ones.converted(type.dtype);
    } else if (name == kPositions) {
      for (int64_t i = 0; i < tensor.count(); ++i) tensor.data<int64_t>()[i] = past + i;
    }
    inputs.push_back(std::move(tensor));
  }
  return run_reference(specialize(part, sizes), inputs)[0];
}

// body(past, queries) for small and large numbers of both; true where it is for all.
template <class Body>
bool holds_for_sizes(int64_t most, Body&& body) {
  for (const int64_t queries : {int64_t(1), int64_t(2), int64_t(5)})
    for (const int64_t past : {int64_t(0), int64_t(1), int64_t(7), most / 2, most - queries})
      if (past >= 0 && past + queries <= most && !body(past, queries)) return false;
  return true;
}

// What numbers of a row count, of which there is one, or one for each new position.
enum class Counts { none, past, all, positions };

Counts counts_of(const Graph& graph, ValueId value, const Sizes& sizes, int64_t most) {
  const Graph part = part_of(graph, value);
  const bool by_position =
      std::count(graph.type(value).shape.begin(), graph.type(value).shape.end(), sizes.queries) > 0;
  for (const Counts counts : {Counts::past, Counts::all, Counts::positions}) {
    if (by_position != (counts == Counts::positions)) continue;
    if (holds_for_sizes(most, [&](int64_t past, int64_t queries) {
          const std::vector<int64_t> values = value_of(part, sizes, past, queries).to_ints();
          for (size_t i = 0; i < values.size(); ++i)
            if (values[i] != past + (counts == Counts::all ? queries : by_position ? int64_t(i) : 0)) return false;
          return true;
        }))
      return counts;
  }
  return Counts::none;
}

// Past and new positions that GroupQueryAttention puts together (onnx/ops/group_query_attention.cc): the past, heads
// and all, with place behind it, where new rows are put behind the length of each row of the batch. The new ones are
// [B,G,S,D]; invalid where it is something else, or the length is not that of the past.
ValueId appended_rows(const Graph& graph, ValueId present, std::string_view past, const Sizes& sizes, int64_t most) {
  const auto producer = [&](ValueId id, auto op) -> const Node* {
    const Node* node = graph.producer(id);
    return node && node->op.is<decltype(op)>() && !node->inputs.empty() ? node : nullptr;
  };
  const Node* whole = producer(present, ops::Reshape{});
  const Node* append = whole ? producer(whole->inputs[0], ops::Append{}) : nullptr;
  const Node* pad = append ? producer(append->inputs[0], ops::Pad{}) : nullptr;
  const Node* held = pad ? producer(pad->inputs[0], ops::Reshape{}) : nullptr;
  const Node* rows = append ? producer(append->inputs[1], ops::Reshape{}) : nullptr;
  if (!held || !rows || graph.value(held->inputs[0]).name != past) return {};
  const Shape &cache = graph.type(held->inputs[0]).shape, &fresh = graph.type(rows->inputs[0]).shape;
  if (cache.size() != 4 || fresh != Shape{cache[0], cache[1], sizes.queries, cache[3]} ||
      graph.type(pad->inputs[0]).shape != Shape{cache[0] * cache[1], cache[2], cache[3]} ||
      pad->op.get<ops::Pad>().before != std::vector<Dim>(3, Dim(0)) ||
      graph.type(present).shape != Shape{cache[0], cache[1], cache[2] + sizes.queries, cache[3]} ||
      counts_of(graph, append->inputs[2], sizes, most) != Counts::past)
    return {};
  return rows->inputs[0];
}

std::optional<Sizes> sizes_of(const Graph& graph, const Pairs& pairs) {
  std::optional<Sizes> sizes;
  const auto input = [&](std::string_view name) {
    for (const ValueId id : graph.inputs())
      if (graph.value(id).name == name) return id;
    return ValueId{};
  };
  const ValueId tokens = input(caches::kTokens), past = input(pairs.at(0).first);
  if (tokens.valid() && past.valid() && graph.type(tokens).rank() == 2 && graph.type(past).rank() == 4)
    sizes = Sizes{graph.type(tokens).shape[0], graph.type(tokens).shape[1], graph.type(past).shape[2]};
  return sizes;
}

// Models of ONNX Runtime's generation have a symbol of their own for all positions that attention_mask is of: here they
// are those of the past, and the new ones.
Graph with_known_positions(const Graph& graph, const Pairs& pairs) {
  const auto sizes = sizes_of(graph, pairs);
  if (!sizes || !sizes->queries.is_symbol() || !sizes->length.is_symbol()) return graph;
  Dim all;
  for (const ValueId id : graph.inputs())
    if (graph.value(id).name == kMask && graph.type(id).rank() == 2) all = graph.type(id).shape[1];
  if (!all.is_symbol() || all == sizes->queries || all == sizes->length || all == sizes->batch) return graph;
  // What there is place for behind the past, and then as a term of a sum; in products it stays, and what they are of is
  // refused later.
  const Dim more = dim_max(all - sizes->length, 0), known = sizes->length + sizes->queries;
  const auto replace = [&](Dim& dim) { dim = dim.replace(more, sizes->queries).replace(all, known); };
  Graph to;
  to.name = graph.name;
  std::vector<ValueId> map(static_cast<size_t>(graph.value_count()));
  for (const ValueId id : graph.inputs()) {
    TensorType type = graph.type(id);
    for (Dim& dim : type.shape) replace(dim);
    map[size_t(id.index)] = to.add_input(graph.value(id).name, type);
  }
  const auto mapped = [&](ValueId id) {
    if (id.valid() && !map[size_t(id.index)].valid())
      map[size_t(id.index)] = to.add_constant(graph.value(id).name, *graph.constant(id));
    return id.valid() ? map[size_t(id.index)] : id;
  };
  for (int32_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.node({n});
    std::vector<ValueId> inputs;
    std::vector<std::string> names;
    for (const ValueId id : node.inputs) inputs.push_back(mapped(id));
    for (const ValueId id : node.outputs) names.push_back(graph.value(id).name);
    Op op = node.op;
    change_dims(op, replace);
    const auto made = to.add(std::move(op), inputs, node.name, names);
    for (size_t o = 0; o < made.size(); ++o) map[size_t(node.outputs[o].index)] = made[o];
  }
  for (const GraphOutput& output : graph.outputs()) to.add_output(output.name, mapped(output.value));
  return to;
}

// Where past positions and new ones are joined, heads come behind positions: so attentions of several heads are
// recognised, and rows of positions are appended whole.
void join_by_positions(Graph& graph, const Pairs& pairs, int64_t most) {
  struct Joined {
    GraphOutput output;
    ValueId past, rows;  // [B,G,P,D] and [B,G,S,D]
    std::string name;
  };
  std::vector<Joined> found;
  const auto sizes = sizes_of(graph, pairs);
  for (const auto& [past, present] : pairs)
    for (const GraphOutput& output : graph.outputs()) {
      const Node* node = graph.producer(output.value);
      if (output.name != present || !node || graph.type(output.value).rank() != 4) continue;
      if (node->op.is<ops::Concat>() && node->op.get<ops::Concat>().axis == 2 && node->inputs.size() == 2 &&
          graph.value(node->inputs[0]).name == past) {
        found.push_back({output, node->inputs[0], node->inputs[1], node->name});
        continue;
      }
      const ValueId rows = sizes ? appended_rows(graph, output.value, past, *sizes, most) : ValueId{};
      for (const ValueId id : graph.inputs())
        if (rows.valid() && graph.value(id).name == past) found.push_back({output, id, rows, node->name});
    }
  for (const Joined& of : found) {
    const auto turned = [&](ValueId x) { return graph.add_single(ops::Transpose{{0, 2, 1, 3}}, {x}, of.name); };
    const ValueId joined = graph.add_single(ops::Concat{1}, {turned(of.past), turned(of.rows)}, of.name);
    graph.replace(of.output.value, turned(joined));
    graph.add_output(joined_name(of.output.name), joined);
  }
  graph.compact();
}

// Recognises attentions whatever the device takes.
Graph prepared(Graph graph, const Pairs& pairs, int64_t most, const PassOptions& options) {
  run_passes(graph, options);
  join_by_positions(graph, pairs, most);
  const PassFunction recognise = [](Graph& g, const PassOptions&) {
    return recognise_attention(g, [](const Graph&, const Op&, const std::vector<ValueId>&) { return true; });
  };
  run_passes(graph, options,
             {0,
              "caches",
              {{"recognise_attention", recognise},
               {"fold_constants", fold_constants},
               {"cancel_transposes", cancel_transposes},
               {"remove_no_ops", remove_no_ops},
               {"merge_equal_nodes", merge_equal_nodes}}});
  return graph;
}

Program of_two(Scalar op) {
  Program program;
  program.inputs = 2;
  program.push({op, DType::i64, {0, 1, -1}});
  return program;
}

class Keeper {
 public:
  Keeper(const Graph& graph, const Pairs& pairs, const CacheOptions& options)
      : from_(graph), pairs_(pairs), options_(options) {
    to_.name = graph.name;
    map_.resize(size_t(graph.value_count()));
  }

  Graph run() {
    find_pairs();
    find_attentions();
    find_counted();
    for (const Cached& cached : attentions_) check_mask(cached);
    check_tables();
    find_needed();
    write();
    return std::move(to_);
  }

 private:
  struct Past {
    std::string name, output;
    ValueId value, joined;  // the input; it and the new positions
    ValueId cache, appended;
  };
  struct Cached {
    NodeId node;
    size_t keys, values;  // of pasts_
  };

  const Graph& from_;
  const Pairs& pairs_;
  const CacheOptions& options_;
  Graph to_;
  std::vector<ValueId> map_;  // by value of from_
  std::vector<Past> pasts_;
  std::vector<Cached> attentions_;
  std::map<ValueId, Counts> counted_;
  std::map<ValueId, bool> checked_;  // masks
  std::vector<char> needed_;         // by node
  ValueId tokens_, mask_, positions_;
  Dim batch_, queries_, length_;  // B, S, P
  ValueId lengths_, counts_, total_, rows_count_, next_lengths_;
  ValueId past_tokens_, settings_, draws_;
  ValueId counted_on_;  // places()

  // ---- what there is ----

  ValueId input(std::string_view name) const {
    for (const ValueId id : from_.inputs())
      if (from_.value(id).name == name) return id;
    return {};
  }

  void find_pairs() {
    std::vector<std::string> outputs;
    for (const GraphOutput& output : from_.outputs()) outputs.push_back(output.name);
    tokens_ = input(caches::kTokens), mask_ = input(kMask), positions_ = input(kPositions);
    if (!tokens_.valid() || from_.type(tokens_).rank() != 2 || from_.type(tokens_).dtype != DType::i64)
      refuse("it has no input ", caches::kTokens, " i64[batch,sequence]", kHow);
    batch_ = from_.type(tokens_).shape[0], queries_ = from_.type(tokens_).shape[1];
    for (const ValueId id : {mask_, positions_})
      if (id.valid() && from_.type(id).rank() != 2)
        refuse("the input '", from_.value(id).name, "' is ", from_.type(id));
    if (positions_.valid() &&
        (from_.type(positions_).dtype != DType::i64 || from_.type(positions_).shape != from_.type(tokens_).shape))
      refuse("position_ids is ", from_.type(positions_), ", and ", caches::kTokens, " ", from_.type(tokens_));
    if (!queries_.is_symbol()) refuse("the number of tokens, ", queries_, ", is fixed");
    for (const std::string_view name :
         {caches::kLengths, caches::kCounts, caches::kPastTokens, caches::kSettings, caches::kDraws})
      if (input(name).valid()) refuse("it has an input '", name, "' of its own");
    for (const auto& [past, present] : pairs_) {
      const ValueId id = input(past);
      if (!id.valid()) fail(ErrorKind::usage, "the model has no input '", past, "'");
      if (std::find(outputs.begin(), outputs.end(), present) == outputs.end())
        fail(ErrorKind::usage, "the model has no output '", present, "'");
      const TensorType& type = from_.type(id);
      if (type.rank() != 4 || !is_float(type.dtype) || type.shape[0] != batch_ || !type.shape[1].is_constant() ||
          !type.shape[2].is_symbol() || type.shape[2] == queries_ || !type.shape[3].is_constant())
        refuse("'", past, "' is ", type, "; [", batch_, ",heads,past positions,size] is known", kHow);
      if (!pasts_.empty() && type.shape[2] != length_)
        refuse("'", past, "' has ", type.shape[2], " positions, and others ", length_);
      length_ = type.shape[2];
      const auto output = std::find(outputs.begin(), outputs.end(), joined_name(present));
      const ValueId joined =
          output == outputs.end() ? ValueId{} : from_.outputs()[size_t(output - outputs.begin())].value;
      const Node* node = from_.producer(joined);
      if (!node || !node->op.is<ops::Concat>())
        refuse("the output '", present, "' is not '", past, "' with new positions behind it");
      pasts_.push_back({past, present, id, joined, {}, {}});
    }
  }

  // The past whose positions, with the new ones, `value` [B,P+S,G*D] shows.
  std::optional<size_t> past_of(ValueId value) const {
    const Node* node = from_.producer(value);
    if (!node || !node->op.is<ops::Reshape>() || node->inputs.size() != 1) return std::nullopt;
    for (size_t i = 0; i < pasts_.size(); ++i) {
      const Shape& shape = from_.type(pasts_[i].value).shape;
      if (pasts_[i].joined == node->inputs[0] && from_.type(value).rank() == 3 &&
          from_.type(value).shape[2] == shape[1] * shape[3])
        return i;
    }
    return std::nullopt;
  }

  void find_attentions() {
    std::set<size_t> read;
    for (int32_t n = 0; n < from_.node_count(); ++n) {
      const Node& node = from_.node({n});
      const auto* op = node.op.get_if<ops::Attention>();
      if (!op) continue;
      const auto keys = past_of(node.inputs[1]), values = past_of(node.inputs[2]);
      if (!keys && !values) continue;
      if (!keys || !values) refuse("'", node.name, "' reads keys or values that are not past and new ones");
      if (node.inputs.size() > 4 && node.inputs[4].valid() &&
          (op->right != 0 || !op->from_end ||
           counts_of(from_, node.inputs[4], sizes(), options_.positions) != Counts::all))
        refuse("'", node.name, "' has lengths of its own");
      const bool open = op->right < 0, causal = op->right == 0 && op->from_end;
      if (!(open || causal) || (op->left >= 0 && !op->from_end))
        refuse("'", node.name, "' sees ", op->left, " keys to the left and ", op->right,
               " to the right, counted from the ", op->from_end ? "last" : "first");
      attentions_.push_back({{n}, *keys, *values});
      read.insert({*keys, *values});
    }
    for (size_t i = 0; i < pasts_.size(); ++i)
      if (!read.contains(i))
        refuse("no attention was found that reads '", pasts_[i].output,
               "' (products and a softmax in another form than those that are known)");
  }

  // ---- numbers of positions ----

  Sizes sizes() const { return {batch_, queries_, length_}; }

  // Integers that follow from sizes and from attention_mask alone, and are read by something else: where they are the
  // number of a row's positions, or count new ones on, the graph with caches has them by its lengths.
  void find_counted() {
    std::vector<char> sizes_alone(size_t(from_.value_count()), 0), follows(size_t(from_.value_count()), 0);
    if (mask_.valid()) sizes_alone[size_t(mask_.index)] = follows[size_t(mask_.index)] = 1;
    std::set<ValueId> found;
    for (int32_t n = 0; n < from_.node_count(); ++n) {
      const Node& node = from_.node({n});
      const bool is_shape = node.op.is<ops::ShapeOf>();
      bool alone = !is_float(from_.type(node.outputs[0]).dtype), after = false;
      for (const ValueId id : node.inputs) {
        if (!id.valid()) continue;
        alone = alone && (is_shape || from_.constant(id) || sizes_alone[size_t(id.index)]);
        after = after || follows[size_t(id.index)];
        if (is_shape)
          for (const Dim& dim : from_.type(id).shape) after = after || dim.substitute({{length_.text(), 0}}) != dim;
      }
      for (const ValueId id : node.outputs)
        sizes_alone[size_t(id.index)] = alone, follows[size_t(id.index)] = alone && after;
      if (alone) continue;
      for (const ValueId id : node.inputs)
        if (id.valid() && id != mask_ && follows[size_t(id.index)]) found.insert(id);
    }
    for (const ValueId id : found) {
      const TensorType& type = from_.type(id);
      if (type.dtype != DType::i64 || type.rank() == 0 || type.shape[0] != batch_) continue;
      const auto others = std::count_if(type.shape.begin() + 1, type.shape.end(),
                                        [&](const Dim& dim) { return dim != Dim(1) && dim != queries_; });
      if (others || std::count(type.shape.begin(), type.shape.end(), queries_) > 1) continue;
      const Counts counts = counts_of(from_, id, sizes(), options_.positions);
      if (counts != Counts::none) counted_.emplace(id, counts);
    }
  }

  // ---- masks ----

  void check_mask(const Cached& cached) {
    const Node& node = from_.node(cached.node);
    const auto& op = node.op.get<ops::Attention>();
    const bool masked = node.inputs.size() > 3 && node.inputs[3].valid();
    if (!masked) {
      if (op.right != 0) refuse("'", node.name, "' lets a token see those behind it");
      return;
    }
    if (!checked_.emplace(node.inputs[3], true).second) return;
    const Graph part = part_of(from_, node.inputs[3]);
    holds_for_sizes(options_.positions, [&](int64_t past, int64_t queries) {
      const Tensor mask = value_of(part, sizes(), past, queries);
      const bool chosen = mask.dtype() == DType::boolean;
      const ops::MaskStrides at = ops::mask_strides(mask.dims());
      const std::vector<double> values = mask.to_doubles();
      const int64_t heads = at.head ? mask.dims()[mask.dims().size() - 3] : 1;
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t i = 0; i < queries; ++i)
          for (int64_t j = 0; j < past + queries; ++j) {
            const double value = values.at(size_t(h * at.head + i * at.query + j * at.key));
            const bool sees = j <= past + i;
            if (!sees && op.right == 0) continue;
            if (chosen ? (value != 0) == sees : sees ? value == 0 : value <= kSwallows) continue;
            refuse("with ", past, " past positions and ", queries, " new ones the mask of '", node.name, "' is ", value,
                   " for token ", i, " and key ", j, "; a mask that lets each token see all up to its own is known");
          }
      return true;
    });
  }

  // ---- tables of positions ----

  // Each position of the cache must have its row in the tables that position_ids index.
  void check_tables() const {
    for (int32_t n = 0; n < from_.node_count(); ++n) {
      const Node& node = from_.node({n});
      const auto* gather = node.op.get_if<ops::Gather>();
      if (!gather || gather->kind != ops::GatherKind::axis || !from_.constant(node.inputs[0])) continue;
      const Graph part = part_of(from_, node.inputs[1]);
      const auto counted = counted_.find(node.inputs[1]);
      const bool counts = counted != counted_.end() && counted->second == Counts::positions;
      if (!counts && (part.inputs().size() != 1 || part.value(part.inputs()[0]).name != kPositions)) continue;
      const int64_t rows = from_.constant(node.inputs[0])->dims()[size_t(gather->axis)];
      const auto fits = [&](int64_t positions) {
        const std::vector<double> at = value_of(part, sizes(), positions - 1, 1).to_doubles();
        return std::all_of(at.begin(), at.end(),
                           [&](double row) { return row >= double(-rows) && row < double(rows); });
      };
      if (fits(options_.positions)) continue;
      int64_t most = 0, beyond = options_.positions;
      while (beyond - most > 1) {
        const int64_t middle = most + (beyond - most) / 2;
        (fits(middle) ? most : beyond) = middle;
      }
      fail(ErrorKind::usage, "a cache of ", options_.positions, " positions is longer than the model: '",
           from_.value(node.inputs[0]).name, "' has ", rows, " rows for positions; the largest that works is --cache ",
           most);
    }
  }

  // ---- the graph with caches ----

  const Cached* cached_at(int32_t n) const {
    for (const Cached& cached : attentions_)
      if (cached.node.index == n) return &cached;
    return nullptr;
  }
  // New positions [B,S,G,D] of a past.
  ValueId fresh_of(size_t past) const { return from_.producer(pasts_[past].joined)->inputs[1]; }
  bool is_present(const GraphOutput& output) const {
    return std::any_of(pasts_.begin(), pasts_.end(), [&](const Past& past) {
      return output.name == past.output || output.name == joined_name(past.output);
    });
  }

  std::vector<ValueId> inputs_of(int32_t n) const {
    const Node& node = from_.node({n});
    if (const Cached* cached = cached_at(n)) return {node.inputs[0], fresh_of(cached->keys), fresh_of(cached->values)};
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
        if (!id.valid() || counted_.contains(id)) continue;
        read[size_t(id.index)] = 1;
        const bool past = std::any_of(pasts_.begin(), pasts_.end(), [&](const Past& p) { return p.value == id; });
        if (past)
          refuse("'", from_.node({n}).name, "' (", name_of(from_.node({n}).op), ") uses '", from_.value(id).name,
                 "' for more than keys and values, as where positions follow from their number", kHow);
        if (id == mask_)
          refuse("'", from_.node({n}).name, "' (", name_of(from_.node({n}).op),
                 ") uses attention_mask for more than the masks of attentions", kHow);
      }
    }
    for (const Cached& cached : attentions_)
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
      if (id == mask_ || id == positions_) continue;
      const auto past = std::find_if(pasts_.begin(), pasts_.end(), [&](const Past& p) { return p.value == id; });
      if (past == pasts_.end()) {
        map_[size_t(id.index)] = to_.add_input(value.name, value.type);
        continue;
      }
      const Shape& shape = value.type.shape;
      past->cache = to_.add_input(value.name, {options_.dtype, {batch_, options_.positions, shape[1] * shape[3]}});
    }
    lengths_ = to_.add_input(caches::kLengths, {DType::i64, {batch_}});
    counts_ = to_.add_input(caches::kCounts, {DType::i64, {batch_}});
    const Dim positions = options_.positions;
    past_tokens_ = to_.add_input(caches::kPastTokens, {DType::i64, {batch_, positions, 1}});
    settings_ = to_.add_input(caches::kSettings, {DType::f64, {batch_, ops::sampling::kSettings}});
    draws_ = to_.add_input(caches::kDraws, {DType::f64, {batch_, positions}});
    next_lengths_ = add(ops::Pointwise{of_two(Scalar::add)}, {lengths_, counts_}, caches::kNextLengths);
    // S as a number: a constant of each plan.
    rows_count_ = add(ops::ShapeOf{.start = 1, .end = 2}, {map_[size_t(tokens_.index)]}, "new_positions");
    total_ = add(ops::Pointwise{of_two(Scalar::add)}, {lengths_, rows_count_}, "all_positions");
    if (positions_.valid()) map_[size_t(positions_.index)] = places();
    for (const auto& [id, counts] : counted_) {
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
    Past& past = pasts_[which];
    if (past.appended.valid()) return past.appended;
    const Shape& shape = to_.type(mapped(fresh_of(which))).shape;
    const ValueId rows = add(ops::Reshape{{shape[0], shape[1], shape[2] * shape[3]}}, {mapped(fresh_of(which))}, name);
    return past.appended = add(ops::Append{}, {past.cache, cast(rows, options_.dtype), lengths_}, past.output);
  }

  void write_attention(const Cached& cached) {
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
    const ValueId rows =
        add(ops::Reshape{{batch_, queries_, 1}}, {map_[size_t(tokens_.index)]}, caches::kPresentTokens);
    const ValueId tokens = add(ops::Append{}, {past_tokens_, rows, lengths_}, caches::kPresentTokens);
    const auto made =
        to_.add(ops::Sample{}, {cast(logits, DType::f32), tokens, next_lengths_, settings_, draws_}, caches::kNext);
    to_.add_output(caches::kNext, made[0]);
    to_.add_output(caches::kFlaw, made[1]);
    to_.add_output(caches::kPresentTokens, tokens);
  }

  void write() {
    write_inputs();
    for (int32_t n = 0; n < from_.node_count(); ++n) {
      if (!needed_[size_t(n)]) continue;
      if (const Cached* cached = cached_at(n)) {
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
        if (!counted_.contains(node.outputs[o])) map_[size_t(node.outputs[o].index)] = made[o];
    }
    bool logits = false;
    for (const GraphOutput& output : from_.outputs()) {
      if (is_present(output)) continue;
      const TensorType& type = from_.type(output.value);
      if (output.name != caches::kLogits) {
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
    if (!logits) refuse("it has no output '", caches::kLogits, "'", kHow);
    to_.add_output(caches::kNextLengths, next_lengths_);
    for (const Past& past : pasts_) to_.add_output(past.output, past.appended);
    to_.compact();
  }
};

}  // namespace

Graph keep_caches(const Graph& graph, const CacheOptions& options, const PassOptions& passes) {
  if (options.positions < 1) fail(ErrorKind::usage, "a cache of ", options.positions, " positions");
  const Pairs pairs = pairs_of(graph, options);
  const Graph ready = prepared(with_known_positions(graph, pairs), pairs, options.positions, passes);
  return Keeper(ready, pairs, options).run();
}

}  // namespace temper
