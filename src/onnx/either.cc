// SPDX-License-Identifier: Apache-2.0
#include "onnx/either.h"

#include "graph/ops/choose.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/reshape.h"
#include "graph/ops/shape.h"

namespace temper {

namespace {

// Calls f(tensor) for each tensor of a value, one after the other, and gives the same value made of what it returns.
template <class F>
OnnxValue with_tensors(const OnnxValue& value, const F& f) {
  if (value.tensor.valid()) return f(value.tensor);
  if (value.either)
    return OnnxEither{value.either->condition, with_tensors(value.either->then, f),
                      with_tensors(value.either->other, f)};
  if (!value.sequence) return {};
  OnnxSequence sequence = *value.sequence;
  for (ValueId& element : sequence.elements) element = f(element);
  if (sequence.stacked.valid()) sequence.stacked = f(sequence.stacked);
  return sequence;
}

std::vector<ValueId> tensors_of(const OnnxValue& value) {
  std::vector<ValueId> tensors;
  with_tensors(value, [&](ValueId tensor) {
    tensors.push_back(tensor);
    return tensor;
  });
  return tensors;
}

size_t sides_of(const OnnxValue& value) {
  return value.either ? sides_of(value.either->then) + sides_of(value.either->other) : 1;
}

bool are_alike(const Graph& graph, const OnnxValue& a, const OnnxValue& b) {
  if (a.either || b.either || a.tensor.valid() != b.tensor.valid() || !a.sequence != !b.sequence) return false;
  if (a.sequence &&
      (a.sequence->elements.size() != b.sequence->elements.size() ||
       a.sequence->stacked.valid() != b.sequence->stacked.valid() || a.sequence->grows_in != b.sequence->grows_in))
    return false;
  const std::vector<ValueId> first = tensors_of(a), second = tensors_of(b);
  for (size_t i = 0; i < first.size(); ++i)
    if (graph.type(first[i]).rank() != graph.type(second[i]).rank()) return false;
  return true;
}

}  // namespace

std::vector<OnnxValue> either_of(Graph& graph, const std::string& name, ValueId condition,
                                 const std::vector<OnnxValue>& then, const std::vector<OnnxValue>& other) {
  ops::Choose op;
  std::vector<ValueId> first, second;
  for (size_t r = 0; r < then.size(); ++r) {
    if (!are_alike(graph, then[r], other[r])) continue;
    const std::vector<ValueId> a = tensors_of(then[r]), b = tensors_of(other[r]);
    for (size_t i = 0; i < a.size(); ++i) {
      const Shape &here = graph.type(a[i]).shape, &there = graph.type(b[i]).shape;
      for (size_t axis = 0; axis < here.size(); ++axis)
        if (here[axis] != there[axis]) op.open.insert(op.open.end(), {int64_t(first.size() + i), int64_t(axis)});
    }
    first.insert(first.end(), a.begin(), a.end());
    second.insert(second.end(), b.begin(), b.end());
  }
  std::vector<ValueId> chosen;
  if (!first.empty()) {
    std::vector<ValueId> inputs{condition};
    inputs.insert(inputs.end(), first.begin(), first.end());
    inputs.insert(inputs.end(), second.begin(), second.end());
    chosen = graph.add_folded(op, std::move(inputs), name);
  }
  size_t next = 0;
  std::vector<OnnxValue> results;
  for (size_t r = 0; r < then.size(); ++r) {
    if (are_alike(graph, then[r], other[r])) {
      results.push_back(with_tensors(then[r], [&](ValueId) { return chosen.at(next++); }));
      continue;
    }
    results.emplace_back(OnnxEither{condition, then[r], other[r]});
    if (sides_of(results.back()) > kMostSides)
      fail(ErrorKind::unsupported, "conditions choose among more than ", kMostSides,
           " results of different ranks or lengths");
  }
  return results;
}

std::optional<std::vector<OnnxValue>> only(Graph& graph, const std::string& name, ValueId condition,
                                           const std::vector<OnnxValue>& results, bool then) {
  bool open = false;
  std::vector<ValueId> kept;
  for (const OnnxValue& result : results) {
    open |= result.either != nullptr;
    const std::vector<ValueId> tensors = tensors_of(result);
    kept.insert(kept.end(), tensors.begin(), tensors.end());
  }
  if (kept.empty()) return std::nullopt;
  const auto chosen_of = [&](const std::vector<ValueId>& values) {
    std::vector<ValueId> inputs{condition};
    const std::vector<ValueId> left_out(values.size());
    for (const auto* side : {then ? &values : &left_out, then ? &left_out : &values})
      inputs.insert(inputs.end(), side->begin(), side->end());
    return graph.add_folded(ops::Choose(), std::move(inputs), name);
  };
  std::vector<ValueId> chosen;
  if (!open) chosen = chosen_of(kept);
  else  // of sides that exclude each other no run needs both, and one choose needs all that it chooses of
    for (ValueId value : kept) chosen.push_back(chosen_of({value})[0]);
  size_t next = 0;
  std::vector<OnnxValue> out;
  out.reserve(results.size());
  for (const OnnxValue& result : results)
    out.push_back(with_tensors(result, [&](ValueId) { return chosen.at(next++); }));
  return out;
}

BothSides on_both_sides(Graph& graph, const std::string& name, ValueId condition,
                        const std::function<std::vector<OnnxValue>(bool then)>& import,
                        const std::function<bool(const Error&)>& misfit) {
  std::vector<OnnxValue> sides[2];
  std::optional<Error> why[2];
  for (const bool then : {true, false}) try {
      sides[then] = import(then);
    } catch (const Error& error) {
      if (!misfit(error) || why[1]) throw;
      why[then] = error;
    }
  if (!why[0] && !why[1]) return {either_of(graph, name, condition, sides[1], sides[0]), std::nullopt};
  const bool then = why[0].has_value();
  auto kept = only(graph, name, condition, sides[then], then);
  if (!kept) throw Error(*why[!then]);
  return {std::move(*kept), std::move(why[!then]), then};
}

std::optional<OnnxValue> fitting(Graph& graph, const std::string& name, const OnnxValue& value,
                                 const std::function<bool(const OnnxValue& side)>& fits) {
  if (!value.either) return fits(value) ? std::optional(value) : std::nullopt;
  const auto then = fitting(graph, name, value.either->then, fits);
  const auto other = fitting(graph, name, value.either->other, fits);
  if (then && other) return either_of(graph, name, value.either->condition, {*then}, {*other})[0];
  if (!then && !other) return std::nullopt;
  const auto left = only(graph, name, value.either->condition, {then ? *then : *other}, then.has_value());
  return left ? std::optional((*left)[0]) : std::nullopt;
}

OnnxValue of_each_length(Graph& graph, const std::string& name, ValueId list, std::vector<ValueId>& conditions) {
  if (conditions.empty()) {
    ops::Reshape to_scalar;
    const ValueId sizes = graph.add_folded(ops::ShapeOf{.start = 0, .end = 1}, {list}, name)[0];
    const ValueId length = graph.add_folded(to_scalar, {sizes}, name)[0];
    for (int64_t n = 0; n < kLongestList; ++n) {
      ops::Pointwise is;
      is.program.inputs = 2;
      is.program.push({Scalar::equal, DType::boolean, {0, 1, -1}});
      const ValueId number = graph.add_constant(concat(name, "/const"), Tensor::of<int64_t>({}, {n}));
      conditions.push_back(graph.add_folded(is, {length, number}, name)[0]);
    }
  }
  // One that is longer does not fit the last.
  OnnxValue value;
  for (int64_t n = kLongestList; n >= 0; --n) {
    ops::Reshape fixed;
    fixed.shape = {Dim(n)};
    const OnnxValue side = graph.add_folded(fixed, {list}, name)[0];
    value = n == kLongestList ? side : OnnxValue(OnnxEither{conditions[size_t(n)], side, value});
  }
  return value;
}

namespace {

// The sides of a value that are no more conditions.
void append_sides(const OnnxValue& value, std::vector<const OnnxValue*>& sides) {
  if (!value.either) return sides.push_back(&value);
  append_sides(value.either->then, sides);
  append_sides(value.either->other, sides);
}

// What `of_side` gives for each side, chosen as the value is.
OnnxValue by_side(Graph& graph, const std::string& name, const OnnxValue& value,
                  const std::function<ValueId(const OnnxValue& side)>& of_side) {
  if (!value.either) return of_side(value);
  return either_of(graph, name, value.either->condition, {by_side(graph, name, value.either->then, of_side)},
                   {by_side(graph, name, value.either->other, of_side)})[0];
}

}  // namespace

std::optional<OpenSequence> open_sequence(Graph& graph, const std::string& name, const OnnxValue& value) {
  std::vector<const OnnxValue*> sides;
  append_sides(value, sides);
  std::vector<TensorType> types;  // of the elements of the longest side
  for (const OnnxValue* side : sides) {
    if (side->tensor.valid() || (side->sequence && side->sequence->stacked.valid())) return std::nullopt;
    for (size_t i = 0; side->sequence && i < side->sequence->elements.size(); ++i) {
      const TensorType& type = graph.type(side->sequence->elements[i]);
      if (i == types.size()) types.push_back(type);
      else if (types[i].dtype != type.dtype || types[i].rank() != type.rank()) return std::nullopt;
    }
  }
  const auto constant = [&](Tensor tensor) { return graph.add_constant(concat(name, "/const"), std::move(tensor)); };
  OpenSequence open;
  for (size_t i = 0; i < types.size(); ++i) {
    // There is no scalar without an element: a zero is there.
    const ValueId none = types[i].dtype == DType::string
                             ? ValueId{}
                             : constant(Tensor(types[i].dtype, Dims(size_t(types[i].rank()), 0)));
    if (!none.valid()) return std::nullopt;
    const OnnxValue element = by_side(graph, name, value, [&](const OnnxValue& side) {
      return side.sequence && i < side.sequence->elements.size() ? side.sequence->elements[i] : none;
    });
    open.elements.push_back(element.tensor);
  }
  const OnnxValue length = by_side(graph, name, value, [&](const OnnxValue& side) {
    return constant(Tensor::of<int64_t>({}, {side.sequence ? int64_t(side.sequence->elements.size()) : -1}));
  });
  open.length = length.tensor;
  return open;
}

std::string text_of(const Graph& graph, const OnnxValue& value) {
  if (value.tensor.valid()) return graph.type(value.tensor).text();
  if (value.either) return concat(text_of(graph, value.either->then), " or ", text_of(graph, value.either->other));
  if (!value.sequence) return "no value";
  return concat("a sequence of ", value.sequence->elements.size(),
                value.sequence->stacked.valid() ? " elements and those that a loop made" : " elements");
}

}  // namespace temper
