// SPDX-License-Identifier: Apache-2.0
#include "passes/find_caches.h"

#include <algorithm>
#include <set>

#include "graph/ops/append.h"
#include "graph/ops/attention.h"
#include "graph/ops/concat.h"
#include "graph/ops/gather.h"
#include "graph/ops/pad.h"
#include "graph/ops/reshape.h"
#include "graph/ops/shape.h"
#include "graph/ops/transpose.h"
#include "passes/pipeline.h"

namespace temper::caches {

namespace {

constexpr double kSwallows = -1e4;  // a score that this is added to has no weight left in a softmax

Pairs pairs_of(const Graph& graph, const Pairs& given) {
  std::vector<std::string> inputs, outputs;
  for (const ValueId id : graph.inputs()) inputs.push_back(graph.value(id).name);
  for (const GraphOutput& output : graph.outputs()) outputs.push_back(output.name);
  Pairs pairs = given.empty() ? pairs_by_name(inputs, outputs) : given;
  if (pairs.empty())
    fail(ErrorKind::usage, "the model has no past keys and values: no input past_key_values… with an output present…",
         kHow);
  return pairs;
}

// The output of its own that past and new positions have below.
std::string joined_name(const std::string& output) { return concat(output, " by positions"); }

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
  const ValueId tokens = input(kTokens), past = input(pairs.at(0).first);
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

class CacheFinder {
 public:
  CacheFinder(Graph graph, const Pairs& pairs, int64_t most) : pairs_(pairs), most_(most) {
    found_.graph = std::move(graph);
  }

  Found run() {
    find_pairs();
    find_attentions();
    find_counted();
    for (const CachedAttention& cached : found_.attentions) check_mask(cached);
    check_tables();
    return std::move(found_);
  }

 private:
  const Pairs& pairs_;
  const int64_t most_;  // positions
  Found found_;
  const Graph& graph_ = found_.graph;
  Sizes& sizes_ = found_.sizes;
  std::map<ValueId, bool> checked_;  // masks

  // ---- what there is ----

  ValueId input(std::string_view name) const {
    for (const ValueId id : graph_.inputs())
      if (graph_.value(id).name == name) return id;
    return {};
  }

  void find_pairs() {
    std::vector<std::string> outputs;
    for (const GraphOutput& output : graph_.outputs()) outputs.push_back(output.name);
    found_.tokens = input(kTokens), found_.mask = input(kMask), found_.positions = input(kPositions);
    if (!found_.tokens.valid() || graph_.type(found_.tokens).rank() != 2 ||
        graph_.type(found_.tokens).dtype != DType::i64)
      refuse("it has no input ", kTokens, " i64[batch,sequence]", kHow);
    sizes_.batch = graph_.type(found_.tokens).shape[0], sizes_.queries = graph_.type(found_.tokens).shape[1];
    for (const ValueId id : {found_.mask, found_.positions})
      if (id.valid() && graph_.type(id).rank() != 2)
        refuse("the input '", graph_.value(id).name, "' is ", graph_.type(id));
    if (found_.positions.valid() && (graph_.type(found_.positions).dtype != DType::i64 ||
                                     graph_.type(found_.positions).shape != graph_.type(found_.tokens).shape))
      refuse("position_ids is ", graph_.type(found_.positions), ", and ", kTokens, " ", graph_.type(found_.tokens));
    if (!sizes_.queries.is_symbol()) refuse("the number of tokens, ", sizes_.queries, ", is fixed");
    for (const std::string_view name : {kLengths, kCounts, kPastTokens, kSettings, kDraws})
      if (input(name).valid()) refuse("it has an input '", name, "' of its own");
    for (const auto& [past, present] : pairs_) {
      const ValueId id = input(past);
      if (!id.valid()) fail(ErrorKind::usage, "the model has no input '", past, "'");
      if (std::find(outputs.begin(), outputs.end(), present) == outputs.end())
        fail(ErrorKind::usage, "the model has no output '", present, "'");
      const TensorType& type = graph_.type(id);
      if (type.rank() != 4 || !is_float(type.dtype) || type.shape[0] != sizes_.batch || !type.shape[1].is_constant() ||
          !type.shape[2].is_symbol() || type.shape[2] == sizes_.queries || !type.shape[3].is_constant())
        refuse("'", past, "' is ", type, "; [", sizes_.batch, ",heads,past positions,size] is known", kHow);
      if (!found_.pasts.empty() && type.shape[2] != sizes_.length)
        refuse("'", past, "' has ", type.shape[2], " positions, and others ", sizes_.length);
      sizes_.length = type.shape[2];
      const auto output = std::find(outputs.begin(), outputs.end(), joined_name(present));
      const ValueId joined =
          output == outputs.end() ? ValueId{} : graph_.outputs()[size_t(output - outputs.begin())].value;
      const Node* node = graph_.producer(joined);
      if (!node || !node->op.is<ops::Concat>())
        refuse("the output '", present, "' is not '", past, "' with new positions behind it");
      found_.pasts.push_back({past, present, joined_name(present), id, joined});
    }
  }

  // The past whose positions, with the new ones, `value` [B,P+S,G*D] shows.
  std::optional<size_t> past_of(ValueId value) const {
    const Node* node = graph_.producer(value);
    if (!node || !node->op.is<ops::Reshape>() || node->inputs.size() != 1) return std::nullopt;
    for (size_t i = 0; i < found_.pasts.size(); ++i) {
      const Shape& shape = graph_.type(found_.pasts[i].value).shape;
      if (found_.pasts[i].joined == node->inputs[0] && graph_.type(value).rank() == 3 &&
          graph_.type(value).shape[2] == shape[1] * shape[3])
        return i;
    }
    return std::nullopt;
  }

  void find_attentions() {
    std::set<size_t> read;
    for (int32_t n = 0; n < graph_.node_count(); ++n) {
      const Node& node = graph_.node({n});
      const auto* op = node.op.get_if<ops::Attention>();
      if (!op) continue;
      const auto keys = past_of(node.inputs[1]), values = past_of(node.inputs[2]);
      if (!keys && !values) continue;
      if (!keys || !values) refuse("'", node.name, "' reads keys or values that are not past and new ones");
      if (node.inputs.size() > 4 && node.inputs[4].valid() &&
          (op->right != 0 || !op->from_end || counts_of(graph_, node.inputs[4], sizes_, most_) != Counts::all))
        refuse("'", node.name, "' has lengths of its own");
      const bool open = op->right < 0, causal = op->right == 0 && op->from_end;
      if (!(open || causal) || (op->left >= 0 && !op->from_end))
        refuse("'", node.name, "' sees ", op->left, " keys to the left and ", op->right,
               " to the right, counted from the ", op->from_end ? "last" : "first");
      found_.attentions.push_back({{n}, *keys, *values});
      read.insert({*keys, *values});
    }
    for (size_t i = 0; i < found_.pasts.size(); ++i)
      if (!read.contains(i))
        refuse("no attention was found that reads '", found_.pasts[i].output,
               "' (products and a softmax in another form than those that are known)");
  }

  // ---- numbers of positions ----

  // Integers that follow from sizes and from attention_mask alone, and are read by something else: where they are the
  // number of a row's positions, or count new ones on, the graph with caches has them by its lengths.
  void find_counted() {
    std::vector<char> sizes_alone(size_t(graph_.value_count()), 0), follows(size_t(graph_.value_count()), 0);
    if (found_.mask.valid()) sizes_alone[size_t(found_.mask.index)] = follows[size_t(found_.mask.index)] = 1;
    std::set<ValueId> found;
    for (int32_t n = 0; n < graph_.node_count(); ++n) {
      const Node& node = graph_.node({n});
      const bool is_shape = node.op.is<ops::ShapeOf>();
      bool alone = !is_float(graph_.type(node.outputs[0]).dtype), after = false;
      for (const ValueId id : node.inputs) {
        if (!id.valid()) continue;
        alone = alone && (is_shape || graph_.constant(id) || sizes_alone[size_t(id.index)]);
        after = after || follows[size_t(id.index)];
        if (is_shape)
          for (const Dim& dim : graph_.type(id).shape)
            after = after || dim.substitute({{sizes_.length.text(), 0}}) != dim;
      }
      for (const ValueId id : node.outputs)
        sizes_alone[size_t(id.index)] = alone, follows[size_t(id.index)] = alone && after;
      if (alone) continue;
      for (const ValueId id : node.inputs)
        if (id.valid() && id != found_.mask && follows[size_t(id.index)]) found.insert(id);
    }
    for (const ValueId id : found) {
      const TensorType& type = graph_.type(id);
      if (type.dtype != DType::i64 || type.rank() == 0 || type.shape[0] != sizes_.batch) continue;
      const auto others = std::count_if(type.shape.begin() + 1, type.shape.end(),
                                        [&](const Dim& dim) { return dim != Dim(1) && dim != sizes_.queries; });
      if (others || std::count(type.shape.begin(), type.shape.end(), sizes_.queries) > 1) continue;
      const Counts counts = counts_of(graph_, id, sizes_, most_);
      if (counts != Counts::none) found_.counted.emplace(id, counts);
    }
  }

  // ---- masks ----

  void check_mask(const CachedAttention& cached) {
    const Node& node = graph_.node(cached.node);
    const auto& op = node.op.get<ops::Attention>();
    const bool masked = node.inputs.size() > 3 && node.inputs[3].valid();
    if (!masked) {
      if (op.right != 0) refuse("'", node.name, "' lets a token see those behind it");
      return;
    }
    if (!checked_.emplace(node.inputs[3], true).second) return;
    const Graph part = part_of(graph_, node.inputs[3]);
    holds_for_sizes(most_, [&](int64_t past, int64_t queries) {
      const Tensor mask = value_of(part, sizes_, past, queries);
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
    for (int32_t n = 0; n < graph_.node_count(); ++n) {
      const Node& node = graph_.node({n});
      const auto* gather = node.op.get_if<ops::Gather>();
      if (!gather || gather->kind != ops::GatherKind::axis || !graph_.constant(node.inputs[0])) continue;
      const Graph part = part_of(graph_, node.inputs[1]);
      const auto counted = found_.counted.find(node.inputs[1]);
      const bool counts = counted != found_.counted.end() && counted->second == Counts::positions;
      if (!counts && (part.inputs().size() != 1 || part.value(part.inputs()[0]).name != kPositions)) continue;
      const int64_t rows = graph_.constant(node.inputs[0])->dims()[size_t(gather->axis)];
      const auto fits = [&](int64_t positions) {
        const std::vector<double> at = value_of(part, sizes_, positions - 1, 1).to_doubles();
        return std::all_of(at.begin(), at.end(),
                           [&](double row) { return row >= double(-rows) && row < double(rows); });
      };
      if (fits(most_)) continue;
      int64_t most = 0, beyond = most_;
      while (beyond - most > 1) {
        const int64_t middle = most + (beyond - most) / 2;
        (fits(middle) ? most : beyond) = middle;
      }
      fail(ErrorKind::usage, "a cache of ", most_, " positions is longer than the model: '",
           graph_.value(node.inputs[0]).name, "' has ", rows, " rows for positions; the largest that works is --cache ",
           most);
    }
  }
};

}  // namespace

Found find_caches(const Graph& graph, const Pairs& given, int64_t positions, const PassOptions& passes) {
  const Pairs pairs = pairs_of(graph, given);
  Graph ready = prepared(with_known_positions(graph, pairs), pairs, positions, passes);
  return CacheFinder(std::move(ready), pairs, positions).run();
}

}  // namespace temper::caches
