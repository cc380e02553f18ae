// SPDX-License-Identifier: Apache-2.0
// merge_products: the products that make the queries, keys and values of an attention, each by weights of its own from
// one input, become one product whose columns lie side by side, and slices of it. An attention reads such slices where
// they lie (plan/parts.h), so that nothing is copied: the input is read once, and one kernel is launched instead of
// three. Products that anything else reads stay apart: a slice would have to be copied for it.
//
// Products of few rows do not fill a GPU. Those that read one input are joined whichever attentions read them: in
// Stable Diffusion the keys and values that 16 attentions take from the prompt. Likewise those whose results
// convolutions add, one number for each channel of each image: what 22 of them take from the embedding of the time
// step. All results are there until the last of them is read, so that this is done only where they are small.
//
// The epilogues must be one program on equal inputs, or on constants that differ along the columns alone; a product
// that lacks the addition of such a constant joins those that have it by adding -0. Weights of few bits in blocks
// (graph/ops/dequantize_blocks.h) join weights in blocks of the same size, as far as no block would get a part of
// another product's weights.
#include <algorithm>
#include <map>
#include <optional>

#include "graph/ops/attention.h"
#include "graph/ops/broadcast.h"
#include "graph/ops/concat.h"
#include "graph/ops/conv.h"
#include "graph/ops/dequantize_blocks.h"
#include "graph/ops/matmul.h"
#include "graph/ops/reshape.h"
#include "graph/ops/slice.h"
#include "passes/pass.h"
#include "passes/support/simplify.h"

namespace temper {

namespace {

struct Member {
  ValueId result;  // of which there will be a slice: the product's, or a view of it that an attention reads
  const Node* product = nullptr;
  const ops::MatMul* op = nullptr;
  const ops::Reshape* view = nullptr;  // null: the attention reads the product's output itself
  const Node* blocks = nullptr;        // what makes the weights; null: they are a constant
  int64_t columns = 0;
};

// The axis of the weights along which products are joined: rows of transposed weights are columns of the product.
int axis_of_columns(const Member& member) { return member.op->transpose_b ? 0 : 1; }

// Weights in blocks that belong to no other product, where none reaches behind the columns.
bool are_whole_blocks(const Graph& graph, const Member& member) {
  const auto& op = member.blocks->op.get<ops::DequantizeBlocks>();
  return member.columns % (axis_of_columns(member) == 0 ? op.block_rows : op.block_columns) == 0 &&
         std::all_of(member.blocks->inputs.begin(), member.blocks->inputs.end(),
                     [&](ValueId id) { return id.valid() && graph.constant(id) && graph.has_single_use(id); });
}

// The product behind `id`, an input of an attention, where nothing else reads it.
std::optional<Member> member_at(const Graph& graph, ValueId id) {
  if (!id.valid() || !graph.has_single_use(id)) return std::nullopt;
  Member member{id, graph.producer(id)};
  if (member.product && member.product->inputs.size() == 1 &&
      (member.view = member.product->op.get_if<ops::Reshape>())) {
    const ValueId inner = member.product->inputs[0];
    if (!graph.has_single_use(inner) || graph.type(inner).shape.empty() ||
        graph.type(inner).shape.back() != graph.type(id).shape.back())
      return std::nullopt;
    member.product = graph.producer(inner);
  }
  if (!member.product || !(member.op = member.product->op.get_if<ops::MatMul>())) return std::nullopt;
  const ValueId weights = member.product->inputs[1];
  const TensorType& type = graph.type(weights);
  if (!graph.has_single_use(weights) || !type.is_concrete() || type.rank() != 2 || element_count(type.dims()) == 0)
    return std::nullopt;
  member.columns = type.dims()[size_t(axis_of_columns(member))];
  if (graph.constant(weights)) return member;
  member.blocks = graph.producer(weights);
  if (!member.blocks || !member.blocks->op.is<ops::DequantizeBlocks>() || !are_whole_blocks(graph, member))
    return std::nullopt;
  return member;
}

// The product behind `id`, an input of a convolution's epilogue, if it is [N,C,1,...] and a view of the [N,C] of one.
std::optional<Member> member_of_images(const Graph& graph, ValueId id) {
  const Node* view = id.valid() && graph.has_single_use(id) ? graph.producer(id) : nullptr;
  if (!view || view->inputs.size() != 1 || !view->op.is<ops::Reshape>()) return std::nullopt;
  const Shape &shape = graph.type(id).shape, &inner = graph.type(view->inputs[0]).shape;
  if (shape.size() < 3 || inner.size() != 2 || !std::equal(inner.begin(), inner.end(), shape.begin()) ||
      std::any_of(shape.begin() + 2, shape.end(), [](const Dim& dim) { return dim != Dim(1); }))
    return std::nullopt;
  return member_at(graph, view->inputs[0]);
}

// The epilogue with all that it reads taken as -0, which is added to any number without a change.
Program of_sums_alone(const Graph& graph, const Member& member) {
  Program program = member.op->epilogue;
  for (int e = program.inputs; --e > 0;)
    program = with_constant(program, e, graph.type(member.product->inputs.at(1 + size_t(e))).dtype, -0.0);
  const DType accumulator[] = {accumulator_dtype(graph, *member.product)};
  return simplify(program, accumulator);
}

// A constant as a row of `columns` elements; an undefined tensor where it differs along another axis.
Tensor as_row(const Tensor& constant, int64_t columns) {
  if (constant.count() == 1) return run_node(ops::Broadcast{{columns}}, {constant.reshaped({1})}, "row").at(0);
  if (constant.count() != columns || constant.rank() == 0 || constant.dims().back() != columns) return {};
  return constant.reshaped({columns});
}

bool blocks_alike(const Graph& graph, const Member& a, const Member& b) {
  if (!a.blocks || !b.blocks) return a.blocks == b.blocks;
  return a.blocks->op == b.blocks->op && a.blocks->inputs.size() == b.blocks->inputs.size() &&
         graph.type(a.blocks->inputs[0]).dtype == graph.type(b.blocks->inputs[0]).dtype;
}

bool alike(const Graph& graph, const Member& a, const Member& b) {
  const auto dtype = [&](const Member& m) { return graph.type(m.product->inputs[1]).dtype; };
  if (a.product->inputs[0] != b.product->inputs[0] || a.op->transpose_a != b.op->transpose_a ||
      a.op->transpose_b != b.op->transpose_b || a.op->tf32 != b.op->tf32 || dtype(a) != dtype(b) ||
      !blocks_alike(graph, a, b) || graph.type(a.result).dtype != graph.type(b.result).dtype || !a.view != !b.view)
    return false;
  const Shape &sa = graph.type(a.result).shape, &sb = graph.type(b.result).shape;
  return sa.size() == sb.size() && std::equal(sa.begin(), sa.end() - 1, sb.begin());
}

bool merge(Graph& graph, std::vector<Member> members) {
  // The longest epilogue is that of all; a product that adds nothing adds -0.
  const Member& first = *std::max_element(members.begin(), members.end(), [](const Member& a, const Member& b) {
    return a.op->epilogue.steps.size() < b.op->epilogue.steps.size();
  });
  const Program epilogue = first.op->epilogue, without = of_sums_alone(graph, first);
  for (const Member& member : members)
    if (member.op->epilogue != epilogue && (member.op->epilogue.inputs > 1 || member.op->epilogue != without))
      return false;
  std::vector<Tensor> made;  // by extra: its columns side by side; undefined where all members share one value
  for (int e = 0; e + 1 < epilogue.inputs; ++e) {
    const ValueId id = first.product->inputs.at(2 + size_t(e));
    const auto input = [&](const Member& m) {
      return m.product->inputs.size() > 2 ? m.product->inputs[2 + size_t(e)] : ValueId{};
    };
    const Shape& shape = graph.type(id).shape;
    const bool shared = (shape.empty() || shape.back() == Dim(1)) &&
                        std::all_of(members.begin(), members.end(), [&](const Member& m) { return input(m) == id; });
    made.emplace_back();
    if (shared) continue;
    const Tensor no_change = Tensor::of<float>({1}, {-0.0f}).converted(graph.type(id).dtype);
    std::vector<Tensor> rows;
    for (const Member& member : members) {
      const Tensor* constant = graph.constant(input(member));
      if (input(member).valid() && !constant) return false;
      rows.push_back(as_row(constant ? *constant : no_change, member.columns));
      if (!rows.back().defined() || rows.back().dtype() != rows.front().dtype()) return false;
    }
    made.back() = run_node(ops::Concat{0}, rows, "columns").at(0);
  }

  const Node leader = *members[0].product;
  const ops::Reshape* view = members[0].view;
  std::string name = leader.name;
  int64_t columns = 0;
  for (const Member& member : members) {
    if (&member != &members[0]) name += "+" + member.product->name;
    columns += member.columns;
  }
  const auto joined = [&](const char* what, auto&& part_of) {
    std::vector<Tensor> parts;
    parts.reserve(members.size());
    for (const Member& member : members) parts.push_back(*graph.constant(part_of(member)));
    Tensor all = run_node(ops::Concat{axis_of_columns(members[0])}, parts, name).at(0);
    return graph.add_constant(concat(name, what), std::move(all));
  };
  ValueId weights;
  if (members[0].blocks) {
    std::vector<ValueId> blocks;
    for (size_t i = 0; i < members[0].blocks->inputs.size(); ++i)
      blocks.push_back(joined(i == 0   ? ".integers"
                              : i == 1 ? ".scales"
                                       : ".zeros",
                              [&](const Member& member) { return member.blocks->inputs[i]; }));
    weights = graph.add_single(Op(members[0].blocks->op), std::move(blocks), name + ".weights");
  } else {
    weights = joined(".weights", [](const Member& member) { return member.product->inputs[1]; });
  }
  std::vector<ValueId> inputs{leader.inputs[0], weights};
  for (size_t e = 0; e < made.size(); ++e)
    inputs.push_back(made[e].defined() ? graph.add_constant(name + ".columns", std::move(made[e]))
                                       : first.product->inputs[2 + e]);
  ops::MatMul op = leader.op.get<ops::MatMul>();
  op.epilogue = epilogue;
  Shape shape = graph.type(members[0].result).shape;
  shape.back() = columns;
  ValueId whole = graph.add_single(std::move(op), std::move(inputs), name);
  if (view) whole = graph.add_single(ops::Reshape{shape}, {whole}, name + ".view");
  int64_t at = 0;
  for (const Member& member : members) {
    ops::Slice slice = ops::slice_all(shape);
    slice.starts.back() = at;
    slice.sizes.back() = member.columns;
    at += member.columns;
    graph.rewrite(member.result, std::move(slice), {whole}, member.product->name);
  }
  return true;
}

// Of the whole graph, those that an attention or a convolution reads.
std::vector<Member> all_members(const Graph& graph, const BuildTime& time) {
  std::vector<Member> members;
  for (int32_t n = 0; n < graph.node_count(); ++n) {
    time.check_at(n);
    const Node& node = graph.node({n});
    const bool attention = node.op.is<ops::Attention>();
    if (!attention && !node.op.is<ops::Conv>()) continue;
    for (size_t i = attention ? 0 : 2; i < (attention ? 3 : node.inputs.size()); ++i)
      if (auto member = attention ? member_at(graph, node.inputs[i]) : member_of_images(graph, node.inputs[i]))
        members.push_back(*member);
  }
  return members;
}

// The products of few rows, whichever nodes read them.
bool merge_few_rows(Graph& graph, const BuildTime& time) {
  constexpr int64_t kMostBytes = 16 << 20;  // of their results together: less than half of the L2 of an A100
  std::map<int32_t, std::vector<std::vector<Member>>> groups;  // by the products' first input
  for (const Member& member : all_members(graph, time)) {
    if (!graph.type(member.result).is_concrete()) continue;
    auto& of_input = groups[member.product->inputs[0].index];
    const auto group =
        std::ranges::find_if(of_input, [&](const auto& others) { return alike(graph, others.front(), member); });
    if (group != of_input.end()) group->push_back(member);
    else of_input.push_back({member});
  }
  bool changed = false;
  for (auto& [input, of_input] : groups)
    for (std::vector<Member>& group : of_input) {
      int64_t bytes = 0;
      for (const Member& member : group)
        bytes += element_count(graph.type(member.result)) * size_of(graph.type(member.result).dtype);
      if (group.size() > 1 && bytes <= kMostBytes) changed |= merge(graph, std::move(group));
    }
  return changed;
}

}  // namespace

bool merge_products(Graph& graph, const PassOptions& options) {
  bool changed = merge_few_rows(graph, options.time);
  const int32_t count = graph.node_count();
  for (int32_t n = 0; n < count; ++n) {
    options.time.check_at(n);
    if (!graph.node({n}).op.is<ops::Attention>()) continue;
    std::vector<Member> members;
    for (size_t i = 0; i < 3; ++i)
      if (auto member = member_at(graph, graph.node({n}).inputs[i])) members.push_back(*member);
    // Queries, keys and values; or keys and values alone, which cross attention takes from another input.
    for (size_t a = 0; a < members.size(); ++a) {
      std::vector<Member> group{members[a]};
      for (size_t b = a + 1; b < members.size(); ++b)
        if (alike(graph, members[a], members[b])) group.push_back(members[b]);
      if (group.size() < 2) continue;
      if (merge(graph, group)) {
        changed = true;
        break;
      }
    }
  }
  return changed;
}

}  // namespace temper
