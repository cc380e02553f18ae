// SPDX-License-Identifier: Apache-2.0
#include "graph/graph.h"

#include <algorithm>
#include <stdexcept>

#include "graph/fields.h"

namespace temper {

std::string Graph::unique_name(std::string_view wanted) {
  std::string unique(wanted.empty() ? "value" : wanted);
  if (!find(unique).valid()) return unique;
  for (int32_t& next = names_.next_number(unique);;)
    if (std::string candidate = concat(unique, '.', next++); !find(candidate).valid()) return candidate;
}

ValueId Graph::find(std::string_view value_name) const {
  return {names_.find(value_name, [&](int32_t v) -> const std::string& { return values_[size_t(v)].name; })};
}

ValueId Graph::add_value(std::string_view value_name, TensorType type) {
  if (type.rank() > kMaxRank)
    fail(ErrorKind::bad_file, "'", value_name, "' has ", type.rank(), " dimensions; ", kMaxRank, " are allowed");
  Value value;
  value.name = unique_name(value_name);
  value.type = std::move(type);
  names_.add(value.name, int32_t(values_.size()));
  values_.push_back(std::move(value));
  return {int32_t(values_.size() - 1)};
}

ValueId Graph::add_input(std::string_view value_name, TensorType type) {
  inputs_.push_back(add_value(value_name, std::move(type)));
  return inputs_.back();
}

ValueId Graph::add_constant(std::string_view value_name, Tensor tensor) {
  if (tensor.dtype() == DType::string)
    fail(ErrorKind::bad_file, "strings stand in a graph as the node constant_strings, not as the constant '",
         value_name, "'");
  const ValueId id = add_value(value_name, tensor.type());
  Value& value = values_[size_t(id.index)];
  if (has_contents(tensor.dtype()) && tensor.count() <= kMaxContents) {
    const auto ints = tensor.to_ints();
    value.contents = std::make_shared<const Contents>(ints.begin(), ints.end());
  }
  value.constant = std::make_shared<const Tensor>(std::move(tensor));
  return id;
}

std::vector<Operand> operands_of(const Graph& graph, std::span<const ValueId> inputs) {
  std::vector<Operand> operands;
  for (ValueId id : inputs) {
    if (!id.valid()) {
      operands.push_back({});
      continue;
    }
    const Value& value = graph.value(id);
    operands.push_back({&value.type, value.constant.get(), value.contents.get()});
  }
  return operands;
}

std::vector<ValueId> Graph::add(Op op, std::vector<ValueId> inputs, std::string_view node_name,
                                const std::vector<std::string>& output_names) {
  return with_context([&] { return concat(name_of(op), " '", node_name, "'"); },
                      [&] {
                        std::vector<Operand> operands = operands_of(*this, inputs);
                        if (const auto left = absorb(op, InferContext(operands, node_name))) {
                          inputs.resize(*left);
                          operands.resize(*left);
                        }
                        std::string unique(node_name);
                        std::vector<TensorType> types;
                        for (int32_t* next = nullptr;;) {
                          const InferContext context(operands, unique);
                          types = infer(op, context);
                          if (!context.has_unknown()) break;
                          const auto [owner, fresh] = unknown_owners_.try_emplace(symbol_of(unique), 1);
                          if (fresh) break;
                          if (!next) next = &owner->second;
                          unique = concat(node_name, '.', (*next)++);
                        }
                        for (const TensorType& type : types)
                          if (type.is_concrete()) byte_count(type.dtype, type.dims());
                        std::vector<std::shared_ptr<const Contents>> contents;
                        contents.reserve(types.size());
                        for (const TensorType& type : types)
                          contents.push_back(types.size() == 1 ? infer_contents(op, operands, type) : nullptr);
                        const NodeId id{int32_t(nodes_.size())};
                        Node node{std::move(op), std::move(unique), std::move(inputs), {}};
                        for (ValueId input : node.inputs)
                          if (input.valid()) values_[size_t(input.index)].users.add(id);
                        for (size_t i = 0; i < types.size(); ++i) {
                          const std::string wanted = i < output_names.size() && !output_names[i].empty()
                                                         ? output_names[i]
                                                     : i == 0 ? std::string(node_name)
                                                              : concat(node_name, '.', i);
                          const ValueId value = add_value(wanted, std::move(types[i]));
                          values_[size_t(value.index)].producer = id;
                          values_[size_t(value.index)].contents = contents[i];
                          node.outputs.push_back(value);
                        }
                        nodes_.push_back(std::move(node));
                        places_.push_back(id.index);
                        return nodes_.back().outputs;
                      });
}

// Elements that folding one node may read, and what its reference may cost; more is for a pass to judge.
constexpr int64_t kMaxFoldedInput = 4096;
constexpr double kMaxFoldedCost = double(kMaxFoldedInput * kMaxContents);

std::vector<ValueId> Graph::add_folded(Op op, std::vector<ValueId> inputs, std::string_view node_name,
                                       const std::vector<std::string>& output_names) {
  std::vector<ValueId> outputs = add(std::move(op), std::move(inputs), node_name, output_names);
  const Node& node = nodes_[size_t(value(outputs[0]).producer.index)];
  auto is_small = [&](ValueId id) {
    const TensorType& type = this->type(id);
    return type.is_concrete() && type.dtype != DType::string && element_count(type.dims()) <= kMaxContents;
  };
  if (outputs.size() == 1 && is_small(outputs[0]) && value(outputs[0]).contents) {
    std::vector<int64_t> ints;
    for (const Dim& dim : *value(outputs[0]).contents)
      if (dim.is_constant()) ints.push_back(dim.value());
    if (ints.size() == value(outputs[0]).contents->size()) {
      const TensorType type = this->type(outputs[0]);
      return {add_constant(value(outputs[0]).name, Tensor::of<int64_t>(type.dims(), ints).converted(type.dtype))};
    }
  }
  if (!is_concrete(node.op)) return outputs;
  for (ValueId id : outputs)
    if (!is_small(id)) return outputs;
  std::vector<Tensor> tensors;
  int64_t given = 0;
  for (ValueId id : node.inputs) {
    if (id.valid() && !constant(id)) return outputs;
    tensors.push_back(id.valid() ? *constant(id) : Tensor());
    given += tensors.back().count();
  }
  if (given > kMaxFoldedInput) return outputs;
  std::vector<TensorType> from, types;
  for (ValueId id : node.inputs) from.push_back(id.valid() ? type(id) : TensorType{});
  for (ValueId id : outputs) types.push_back(type(id));
  if (reference_cost(node.op, from, types) > kMaxFoldedCost) return outputs;
  const std::vector<Tensor> results = with_context([&] { return concat(name_of(node.op), " '", node.name, "'"); },
                                                   [&] { return temper::reference(node.op, tensors, types); });
  for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = add_constant(value(outputs[i]).name, results[i]);
  return outputs;
}

namespace {

// The place of `wanted` from `at` on, or the end. A node may have very many inputs, so blocks of them are compared at
// once.
size_t find_input(const ValueIds& inputs, ValueId wanted, size_t at) {
  constexpr size_t kBlock = 64;
  for (; at + kBlock <= inputs.size(); at += kBlock) {
    int32_t found = 0;
    for (size_t i = 0; i < kBlock; ++i) found |= inputs[at + i].index == wanted.index;
    if (found) break;
  }
  while (at < inputs.size() && inputs[at] != wanted) ++at;
  return at;
}

}  // namespace

// An entry of the user; null where there is none.
NodeId* Users::find(NodeId user) {
  NodeId *first = entries_.begin() + front_, *last = entries_.end();
  if (!ascending_) {  // what a pass lets go of mostly stands near an end
    for (; first < last--; ++first) {
      if (*first == user) return first;
      if (*last == user) return last;
    }
    return nullptr;
  }
  if (first < last && *first == user) return first;
  // The last of several is found, so that holes stand behind the entries of one node.
  NodeId* const behind =
      std::partition_point(first, last, [&](NodeId entry) { return entry == user || node_of(entry) < user; });
  return behind != first && behind[-1] == user ? behind - 1 : nullptr;
}

bool Users::remove(NodeId user) {
  NodeId* const found = find(user);
  if (!found) return false;
  if (found == entries_.end() - 1) {
    NodeId* last = found;
    for (; last != entries_.begin() + front_ && !last[-1].valid(); --last) --holes_;
    entries_.erase(last, entries_.end());
  } else if (found == entries_.begin() + front_) {
    *found = {~user.index};
    for (++front_; !entries_[front_].valid(); ++front_) --holes_;
  } else {
    *found = {~user.index};
    ++holes_;
  }
  if (front_ + holes_ >= size()) close_holes();
  return true;
}

void Users::close_holes() {
  keep_if([](NodeId entry) { return entry.valid(); });
}

void Users::remove_all_but(NodeId user) {
  keep_if([&](NodeId entry) { return entry.valid() && entry == user; });
}

template <class Kept>
void Users::keep_if(const Kept& kept) {
  entries_.erase(std::copy_if(entries_.begin(), entries_.end(), entries_.begin(), kept), entries_.end());
  front_ = 0;
  holes_ = 0;
  ascending_ = std::is_sorted(entries_.begin(), entries_.end());
}

void Graph::replace(ValueId old_value, ValueId new_value) {
  if (old_value == new_value) return;
  Value &from = values_.at(size_t(old_value.index)), &to = values_.at(size_t(new_value.index));
  if (from.type != to.type)
    throw std::logic_error(concat("replace: '", from.name, "' ", from.type, " by '", to.name, "' ", to.type));
  // A node that computes the new value from the old one keeps its input.
  auto left = from.users.size() - size_t(std::count(from.users.begin(), from.users.end(), to.producer));
  for (NodeId user : from.users) {
    if (left == 0) break;  // the first entry of a node stands for all its uses
    if (user == to.producer) continue;
    ValueIds& inputs = nodes_[size_t(user.index)].inputs;
    for (size_t at = 0; left > 0 && (at = find_input(inputs, old_value, at)) < inputs.size(); --left) {
      inputs[at] = new_value;
      to.users.add(user);
    }
  }
  from.users.remove_all_but(to.producer);
  while (auto place = output_places_.extract(old_value.index)) {
    outputs_[place.mapped()].value = new_value;
    place.key() = new_value.index;
    output_places_.insert(std::move(place));
  }
  to.output_uses += from.output_uses;
  from.output_uses = 0;
  release(old_value);
}

// A value without uses: its producer, once all its outputs are so, no longer counts as a user of its inputs, and so on
// up. Passes see exact use counts without compacting in between.
void Graph::release(ValueId dead) {
  std::vector<ValueId> stack{dead};
  while (!stack.empty()) {
    const Value& value = this->value(stack.back());
    stack.pop_back();
    if (!value.producer.valid()) continue;
    const Node& producer = node(value.producer);
    const bool in_use = std::any_of(producer.outputs.begin(), producer.outputs.end(), [&](ValueId output) {
      return !this->value(output).users.empty() || is_output(output);
    });
    if (in_use) continue;
    for (ValueId input : producer.inputs) {
      if (!input.valid()) continue;
      auto& users = values_[size_t(input.index)].users;
      // Without a use of it: released before.
      if (users.remove(value.producer) && users.empty()) stack.push_back(input);
    }
  }
}

ValueId Graph::rewrite(ValueId old_value, Op op, std::vector<ValueId> inputs, std::string_view node_name) {
  const ValueId result = add_single(std::move(op), std::move(inputs), node_name);
  const NodeId old_producer = value(old_value).producer;
  if (old_producer.valid()) places_.back() = places_[size_t(old_producer.index)];
  replace(old_value, result);
  swap_names(old_value, result);
  return result;
}

void verify(const Graph& graph) {
  auto breach = [](auto&&... parts) { throw std::logic_error(concat("graph verification: ", parts...)); };
  std::vector<std::vector<NodeId>> users(size_t(graph.value_count()));
  for (int32_t n = 0; n < graph.node_count(); ++n)
    for (ValueId input : graph.node({n}).inputs)
      if (input.valid()) users[size_t(input.index)].push_back({n});
  std::vector<int32_t> output_uses(size_t(graph.value_count()), 0);
  for (const GraphOutput& output : graph.outputs()) ++output_uses[size_t(output.value.index)];
  for (int32_t v = 0; v < graph.value_count(); ++v) {
    const Value& value = graph.value({v});
    std::vector<NodeId> recorded(value.users.begin(), value.users.end());
    std::sort(recorded.begin(), recorded.end());
    if (recorded != users[size_t(v)] || value.output_uses != output_uses[size_t(v)])
      breach("the uses of '", value.name, "' are out of step");
  }
  for (int32_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.node({n});
    for (ValueId input : node.inputs) {
      if (!input.valid()) continue;
      const Value& value = graph.value(input);
      if (value.producer.valid() && value.producer.index >= n)
        breach("'", node.name, "' uses '", value.name, "' before it exists");
    }
    const auto operands = operands_of(graph, node.inputs);
    const auto types = infer(node.op, InferContext(operands, node.name));
    if (types.size() != node.outputs.size()) breach("'", node.name, "' has the wrong number of outputs");
    for (size_t i = 0; i < types.size(); ++i)
      if (graph.type(node.outputs[i]) != types[i])
        breach("'", graph.value(node.outputs[i]).name, "' is ", graph.type(node.outputs[i]), " but its op gives ",
               types[i]);
  }
}

Bindings bind_shapes(const Graph& graph, const std::vector<Dims>& shapes) {
  if (shapes.size() != graph.inputs().size())
    fail(ErrorKind::usage, "the model has ", graph.inputs().size(), " inputs; ", shapes.size(), " shapes were given");
  Bindings bindings;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const Value& input = graph.value(graph.inputs()[i]);
    auto bad = [&](const auto&... why) {
      fail(ErrorKind::usage, "input '", input.name, "' is ", input.type, "; the shape ", shapes[i], " does not fit",
           why...);
    };
    if (shapes[i].size() != input.type.shape.size()) bad();
    for (size_t axis = 0; axis < shapes[i].size(); ++axis) {
      const Dim& dim = input.type.shape[axis];
      if (shapes[i][axis] < 0) bad();
      if (dim.is_constant()) {
        if (dim.value() != shapes[i][axis]) bad(" (axis ", axis, " must be ", dim, ")");
        continue;
      }
      if (!dim.is_symbol()) continue;
      auto [it, fresh] = bindings.emplace(dim.text(), shapes[i][axis]);
      if (!fresh && it->second != shapes[i][axis]) bad(": '", dim, "' is already ", it->second);
    }
  }
  // Expressions are checked, not solved.
  for (size_t i = 0; i < shapes.size(); ++i) {
    const Value& input = graph.value(graph.inputs()[i]);
    for (size_t axis = 0; axis < shapes[i].size(); ++axis)
      if (const Dim dim = input.type.shape[axis].substitute(bindings); dim != Dim(shapes[i][axis]))
        fail(ErrorKind::usage, "input '", input.name, "' is ", input.type, "; the shape ", shapes[i], " gives ", dim,
             " for axis ", axis);
  }
  return bindings;
}

std::vector<Tensor> run_node(const Op& given, const std::vector<Tensor>& inputs, std::string_view name) {
  return with_context([&] { return concat(name_of(given), " '", name, "'"); },
                      [&] {
                        Op op = given;
                        const TensorOperands operands(inputs);
                        InferContext context(operands, name);
                        std::span<const Tensor> tensors(inputs);
                        if (const auto left = absorb(op, context)) {
                          tensors = tensors.first(*left);
                          return temper::reference(op, tensors, infer(op, context.first(*left)));
                        }
                        return temper::reference(op, tensors, infer(op, context));
                      });
}

}  // namespace temper
