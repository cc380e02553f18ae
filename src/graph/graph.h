// SPDX-License-Identifier: Apache-2.0
// The graph: SSA arrays of values and nodes. A Graph is a value: copy it, compare it, hash it, print it, parse it back.
// It is logical (row-major NCHW, no device) and may have symbolic dimensions.
#pragma once
#include <deque>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/inline_vector.h"
#include "graph/infer.h"
#include "graph/names.h"
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
using ValueIds = InlineVector<ValueId, 2>;

// The nodes that use a value, one entry per use, in the order in which they came. Passes let go of some or all of very
// many, one at a time: an entry that is removed leaves a hole, and the others move up once half of all are holes.
class Users {
 public:
  class Iterator {
   public:
    using value_type = NodeId;
    using difference_type = std::ptrdiff_t;
    using reference = const NodeId&;
    using pointer = const NodeId*;
    using iterator_category = std::forward_iterator_tag;

    Iterator() = default;
    Iterator(const NodeId* at, const NodeId* end) : at_(at), end_(end) {}
    reference operator*() const { return *at_; }
    pointer operator->() const { return at_; }
    Iterator& operator++() {
      do ++at_;
      while (at_ != end_ && !at_->valid());
      return *this;
    }
    Iterator operator++(int) {
      const Iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    const NodeId *at_ = nullptr, *end_ = nullptr;
  };

  Iterator begin() const { return {entries_.begin() + front_, entries_.end()}; }
  Iterator end() const { return {entries_.end(), entries_.end()}; }
  size_t size() const { return entries_.size() - front_ - holes_; }
  bool empty() const { return size() == 0; }
  NodeId operator[](size_t i) const { return *std::next(begin(), std::ptrdiff_t(i)); }

  void add(NodeId user) {
    ascending_ = ascending_ && (entries_.empty() || node_of(entries_.back()) <= user);
    entries_.push_back(user);
  }
  bool remove(NodeId user);  // one entry of it; false where there is none
  void remove_all_but(NodeId user);
  void clear() { *this = {}; }

 private:
  InlineVector<NodeId, 2> entries_;  // the first from front_ on and the last one are no holes
  uint32_t front_ = 0;               // holes before the first entry
  uint32_t holes_ : 31 = 0;          // between entries
  uint32_t ascending_ : 1 = true;

  // A hole holds the complement of the node that was there, by which the list stays in order.
  static NodeId node_of(NodeId entry) { return entry.valid() ? entry : NodeId{~entry.index}; }
  NodeId* find(NodeId user);
  void close_holes();
  template <class Kept>
  void keep_if(const Kept& kept);
};

struct Value {
  std::string name;  // unique in the graph
  TensorType type;
  std::shared_ptr<const Tensor> constant;    // set: the value is this constant and has no producer
  std::shared_ptr<const Contents> contents;  // of small integer values, as far as they follow from shapes
  NodeId producer;                           // invalid for inputs and constants
  int32_t output_uses = 0;                   // how many graph outputs it is
  Users users;
};

struct Node {
  Op op;
  std::string name;
  ValueIds inputs;  // an invalid id is an absent optional input
  ValueIds outputs;
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

  ValueId find(std::string_view value_name) const;  // invalid where no value has the name
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
    std::string &name_a = values_.at(size_t(a.index)).name, &name_b = values_.at(size_t(b.index)).name;
    names_.swap(name_a, a.index, name_b, b.index);
    name_a.swap(name_b);
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
  Names names_;
  // For each node that made unknown dimensions the number to try next where its name is wanted again.
  std::unordered_map<std::string, int32_t> unknown_owners_;

  std::string unique_name(std::string_view wanted);
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
