// SPDX-License-Identifier: Apache-2.0
// The graph: SSA arrays of values and nodes. A Graph is a value: copy it, compare it, hash it, print it, parse it back.
// It is logical (row-major NCHW, no device) and may have symbolic dimensions.
#pragma once
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/infer.h"
#include "graph/op.h"

namespace temper {

template <class Tag>
struct Id {
  int32_t index = -1;
  bool valid() const { return index >= 0; }
  auto operator<=>(const Id&) const = default;
};
using ValueId = Id<struct ValueTag>;
using NodeId = Id<struct NodeTag>;

// The nodes that use a value, one entry per use, in the order in which they came. Passes go through them in one order
// or the other: what they let go of stands at an end, where it is found and taken out without moving all the others.
class Users {
 public:
  const NodeId* begin() const { return nodes_.data() + gone_; }
  const NodeId* end() const { return nodes_.data() + nodes_.size(); }
  size_t size() const { return nodes_.size() - gone_; }
  bool empty() const { return size() == 0; }
  NodeId operator[](size_t i) const { return nodes_[gone_ + i]; }

  void add(NodeId user) { nodes_.push_back(user); }
  bool remove(NodeId user);  // one entry of it; false where there is none
  void remove_all_but(NodeId user);

 private:
  std::vector<NodeId> nodes_;
  size_t gone_ = 0;  // entries at the front that were removed, fewer than half
};

struct Value {
  std::string name;  // unique in the graph
  TensorType type;
  std::shared_ptr<const Tensor> constant;    // set: the value is this constant and has no producer
  std::shared_ptr<const Contents> contents;  // of small integer values, as far as they follow from shapes
  NodeId producer;                           // invalid for inputs and constants
  Users users;
  int32_t output_uses = 0;  // how many graph outputs it is
};

struct Node {
  Op op;
  std::string name;
  std::vector<ValueId> inputs;  // an invalid id is an absent optional input
  std::vector<ValueId> outputs;
};

struct GraphOutput {
  std::string name;
  ValueId value;
};

class Graph {
 public:
  std::string name;

  ValueId add_input(std::string_view value_name, TensorType type);
  ValueId add_constant(std::string_view value_name, Tensor tensor);
  // Infers types and contents of the outputs. `output_names` may be shorter than the op's outputs (then derived from
  // `node_name`); names are made unique. An Error gets the node's op and name as context.
  std::vector<ValueId> add(Op op, std::vector<ValueId> inputs, std::string_view node_name,
                           const std::vector<std::string>& output_names = {});
  // Like add, but outputs of up to kMaxContents elements that follow from constants or shapes become constants.
  std::vector<ValueId> add_folded(Op op, std::vector<ValueId> inputs, std::string_view node_name,
                                  const std::vector<std::string>& output_names = {});
  ValueId add_single(Op op, std::vector<ValueId> inputs, std::string_view node_name) {
    return add(std::move(op), std::move(inputs), node_name).at(0);
  }
  void add_output(std::string_view output_name, ValueId value) {
    ++values_.at(size_t(value.index)).output_uses;
    output_places_.emplace(value.index, outputs_.size());
    outputs_.push_back({std::string(output_name), value});
  }

  const Value& value(ValueId id) const { return values_.at(size_t(id.index)); }
  const Node& node(NodeId id) const { return nodes_.at(size_t(id.index)); }
  int32_t node_count() const { return int32_t(nodes_.size()); }
  int32_t value_count() const { return int32_t(values_.size()); }
  const std::vector<ValueId>& inputs() const { return inputs_; }
  const std::vector<GraphOutput>& outputs() const { return outputs_; }
  const TensorType& type(ValueId id) const { return value(id).type; }
  const Tensor* constant(ValueId id) const { return id.valid() ? value(id).constant.get() : nullptr; }
  const Node* producer(ValueId id) const {
    return id.valid() && value(id).producer.valid() ? &node(value(id).producer) : nullptr;
  }
  bool is_output(ValueId id) const { return value(id).output_uses > 0; }
  // True when `id` has exactly one use and is no graph output: the producer may be fused into that user.
  bool has_single_use(ValueId id) const { return value(id).users.size() == 1 && !is_output(id); }

  // Redirects every use of `old_value` (graph outputs too) to `new_value`. Throws std::logic_error if the types differ:
  // a pass that does so is wrong. Nodes that are dead by that stay until compact(), but no longer count as users.
  void replace(ValueId old_value, ValueId new_value);
  // Adds a node of one output and puts it in the place of `old_value`: it takes its name and, once compacted, stands in
  // the order where the old producer stood.
  ValueId rewrite(ValueId old_value, Op op, std::vector<ValueId> inputs, std::string_view node_name);
  // The two values exchange their names.
  void swap_names(ValueId a, ValueId b) {
    std::swap(values_.at(size_t(a.index)).name, values_.at(size_t(b.index)).name);
  }
  // Keeps what the outputs need, and all inputs. The order stays; a node that is needed earlier than it stands moves
  // up. Ids change.
  void compact();

 private:
  friend Graph specialize(const Graph&, const Bindings&);
  // Deques: a reference to a value's type or to a node stays good while more are added.
  std::deque<Value> values_;
  std::deque<Node> nodes_;
  std::vector<int32_t> places_;  // by node: its place in the order, that of the node it replaced
  std::vector<ValueId> inputs_;
  std::vector<GraphOutput> outputs_;
  std::unordered_multimap<int32_t, size_t> output_places_;  // by value: which outputs it is
  // For each name the number to try next where it is wanted again ("x.1", "x.2", ...). Every number below is taken.
  std::unordered_map<std::string, int32_t> names_;
  std::unordered_map<std::string, int32_t> unknown_owners_;  // the same of nodes that made unknown dimensions

  std::string unique_name(std::string_view wanted);
  void forget_name(const std::string& forgotten);
  ValueId add_value(std::string_view value_name, TensorType type);
  void release(ValueId value);
};

// The operands that infer sees of a node. They point into the graph.
std::vector<Operand> operands_of(const Graph& graph, std::span<const ValueId> inputs);

// Checks the invariants (order, uses, types that infer gives again); throws std::logic_error naming the first breach.
void verify(const Graph& graph);

// Symbols of the inputs' dimensions bound by concrete input shapes, in input order. Throws Error{usage} where a shape
// contradicts the input's type or an earlier binding.
Bindings bind_shapes(const Graph& graph, const std::vector<Dims>& shapes);
// The graph with symbols replaced: types inferred again, small integer values that became known turned into constants.
Graph specialize(const Graph& graph, const Bindings& bindings);

// Text, two-way: parse(print(g)) == g. Constants of more than 16 elements are printed as #k, an index into `blobs`.
std::string print(const Graph& graph, std::vector<Tensor>* blobs = nullptr);
Graph parse_graph(std::string_view text, std::span<const Tensor> blobs = {});
uint64_t hash(const Graph& graph);

// Runs the whole graph by the ops' references. Inputs in graph order; shapes may be symbolic in the graph.
std::vector<Tensor> run_reference(const Graph& graph, const std::vector<Tensor>& inputs);

// One node on real tensors (undefined ones for absent inputs): types are inferred with the contents at hand.
std::vector<Tensor> run_node(const Op& op, const std::vector<Tensor>& inputs, std::string_view name);

// Elements of an integer value as far as they follow from shapes (contents.cc).
std::shared_ptr<const Contents> infer_contents(const Op& op, std::span<const Operand> inputs, const TensorType& output);

}  // namespace temper
