// SPDX-License-Identifier: Apache-2.0
// Imports the ops on sequences. A sequence is a list of values: at a known position each is a change of that list. At a
// position that is data, elements of one shape are stacked, and one is gathered; those of different shapes are chosen.
#include "onnx/sequence.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "graph/ops/choose.h"
#include "graph/ops/concat.h"
#include "graph/ops/gather.h"
#include "graph/ops/reshape.h"
#include "graph/ops/shape.h"
#include "graph/ops/slice.h"
#include "graph/ops/transpose.h"
#include "onnx/either.h"

namespace temper {

ValueId joined(OnnxNode& node, const std::vector<ValueId>& parts, int64_t axis) {
  if (parts.empty()) node.bad("a sequence without elements has no shape");
  return parts.size() == 1 ? parts[0] : node.add(ops::Concat{.axis = axis}, parts);
}

ValueId stacked(OnnxNode& node, const OnnxSequence& sequence) {
  std::vector<ValueId> parts;
  for (ValueId element : sequence.elements) {
    Shape shape = node.graph().type(element).shape;
    shape.insert(shape.begin(), Dim(1));
    parts.push_back(node.reshape(element, shape));
  }
  if (sequence.stacked.valid()) parts.push_back(sequence.stacked);
  return joined(node, parts);
}

namespace {

const OnnxSequence& known_sequence(const OnnxNode& node, size_t i) {
  const OnnxSequence& sequence = node.sequence(i);
  if (sequence.grows_in.valid())
    node.refuse("'", node.input_name(i), "', a sequence that a loop carries, is read inside of the loop; a loop may ",
                "only append to it, unless how often it runs is a constant");
  return sequence;
}

// A list that data have no part in.
const OnnxSequence& listed(const OnnxNode& node, size_t i) {
  const OnnxSequence& sequence = known_sequence(node, i);
  if (sequence.stacked.valid())
    node.refuse("'", node.input_name(i), "' is a sequence whose length is data, as a loop made it; it may be ",
                "appended to, concatenated, counted, and read at a position");
  return sequence;
}

// A position that is no data; `count` elements may be named, from the end too.
std::optional<int64_t> known_position(const OnnxNode& node, size_t i, int64_t count) {
  if (!node.constant(i) && !node.contents(i)) return std::nullopt;
  const auto values = node.constant_ints(i, "the position");
  if (values.size() != 1) node.bad("the position is not one number");
  const int64_t position = values[0] < 0 ? values[0] + count : values[0];
  if (position < 0 || position >= count) node.bad("there is no element ", values[0], " of ", count);
  return position;
}

// A position that is data as a number from 0 to count - 1. One that does not exist is looked up in vain, which is an
// error when the model runs.
ValueId checked_position(OnnxNode& node, size_t i, int64_t count) {
  std::vector<int64_t> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  const ValueId given = node.reshape(node.cast(node.input(i), DType::i64), {});
  return node.add(ops::Gather{}, {node.ints(all), given});
}

// candidates[index]; `index` is data.
ValueId picked(OnnxNode& node, const std::vector<ValueId>& candidates, ValueId index) {
  const Graph& graph = node.graph();
  const TensorType type = graph.type(candidates.at(0));
  const bool alike = std::all_of(candidates.begin(), candidates.end(),
                                 [&](ValueId candidate) { return graph.type(candidate) == type; });
  if (alike) {
    const ValueId all = stacked(node, {.elements = candidates, .stacked = {}, .grows_in = {}});
    return node.add(ops::Gather{}, {all, index});
  }
  ValueId chosen = candidates.back();
  for (size_t i = candidates.size() - 1; i-- > 0;) {
    const Shape &a = graph.type(candidates[i]).shape, &b = graph.type(chosen).shape;
    if (a.size() != b.size())
      node.refuse("elements of different ranks, ", graph.type(candidates[i]), " and ", graph.type(chosen),
                  ", at a position that is data; make the position a constant");
    ops::Choose choose;
    for (size_t axis = 0; axis < a.size(); ++axis)
      if (a[axis] != b[axis]) choose.open.insert(choose.open.end(), {0, int64_t(axis)});
    const ValueId here = node.pointwise(Scalar::equal, {index, node.number(int64_t(i))}, DType::boolean);
    chosen = node.add(choose, {here, candidates[i], chosen});
  }
  return chosen;
}

// 0 in front of the position, 1 at it, 2 behind it.
ValueId side_of(OnnxNode& node, int64_t place, ValueId position) {
  ProgramBuilder b({DType::i64});
  const int here = b.constant(DType::i64, double(place));
  const int behind =
      b.op(Scalar::where, b.op(Scalar::equal, here, 0), b.constant(DType::i64, 1), b.constant(DType::i64, 2));
  return node.program(b.result(b.op(Scalar::where, b.op(Scalar::less, here, 0), b.constant(DType::i64, 0), behind)),
                      {position});
}

}  // namespace

void import_SequenceEmpty(OnnxNode& node) {
  node.ignore_attribute("dtype");
  node.set_output(0, OnnxSequence{});
}

void import_SequenceConstruct(OnnxNode& node) {
  OnnxSequence sequence;
  for (size_t i = 0; i < node.input_count(); ++i) sequence.elements.push_back(node.input(i));
  node.set_output(0, std::move(sequence));
}

void import_SequenceLength(OnnxNode& node) {
  const OnnxSequence& sequence = known_sequence(node, 0);
  const ValueId listed = node.number(int64_t(sequence.elements.size()));
  if (!sequence.stacked.valid()) return node.set_output(0, listed);
  const ValueId more = node.reshape(node.add(ops::ShapeOf{.start = 0, .end = 1}, {sequence.stacked}), {});
  node.set_output(0, node.pointwise(Scalar::add, {listed, more}));
}

void import_SequenceAt(OnnxNode& node) {
  const OnnxSequence& sequence = known_sequence(node, 0);
  const int64_t count = int64_t(sequence.elements.size());
  if (sequence.stacked.valid()) {
    const ValueId position = node.reshape(node.cast(node.input(1), DType::i64), {});
    return node.set_output(0, node.add(ops::Gather{}, {stacked(node, sequence), position}));
  }
  if (const auto position = known_position(node, 1, count))
    return node.set_output(0, sequence.elements[size_t(*position)]);
  if (count == 0) node.bad("the sequence has no elements");
  node.set_output(0, picked(node, sequence.elements, checked_position(node, 1, count)));
}

void import_SequenceInsert(OnnxNode& node) {
  const ValueId tensor = node.input(1);
  if (!node.has(2)) {
    OnnxSequence sequence = node.sequence(0);
    if (sequence.stacked.valid()) {
      const ValueId own = stacked(node, {.elements = {tensor}, .stacked = {}, .grows_in = {}});
      sequence.stacked = joined(node, {sequence.stacked, own});
    } else {
      sequence.elements.push_back(tensor);
    }
    return node.set_output(0, std::move(sequence));
  }
  OnnxSequence sequence = listed(node, 0);
  const int64_t count = int64_t(sequence.elements.size());
  // From the end it counts the elements that are there: -1 is in front of the last one.
  if (node.constant(2) || node.contents(2)) {
    const auto values = node.constant_ints(2, "the position");
    const int64_t position = values.size() != 1 ? -1 : values[0] < 0 ? values[0] + count : values[0];
    if (position < 0 || position > count) node.bad("no element is inserted at ", values, " of ", count);
    sequence.elements.insert(sequence.elements.begin() + position, tensor);
    return node.set_output(0, std::move(sequence));
  }
  // -count ... count as 0 ... 2 * count, and what is outside as a place that does not exist.
  ProgramBuilder b({DType::i64});
  const int place = b.op(Scalar::add, 0, b.constant(DType::i64, double(count)));
  const int negative = b.op(Scalar::less, place, b.constant(DType::i64, 0));
  const Program program = b.result(b.op(Scalar::where, negative, b.constant(DType::i64, double(2 * count + 1)), place));
  std::vector<int64_t> places;
  for (int64_t i = -count; i <= count; ++i) places.push_back(i < 0 ? i + count : i);
  const ValueId given = node.reshape(node.cast(node.input(2), DType::i64), {});
  const ValueId position = node.add(ops::Gather{}, {node.ints(places), node.program(program, {given})});
  OnnxSequence longer;
  for (int64_t i = 0; i <= count; ++i) {
    const ValueId before = sequence.elements.empty() ? tensor : sequence.elements[size_t(std::min(i, count - 1))];
    const ValueId behind = sequence.elements.empty() ? tensor : sequence.elements[size_t(std::max<int64_t>(i - 1, 0))];
    longer.elements.push_back(picked(node, {before, tensor, behind}, side_of(node, i, position)));
  }
  node.set_output(0, std::move(longer));
}

void import_SequenceErase(OnnxNode& node) {
  OnnxSequence sequence = listed(node, 0);
  const int64_t count = int64_t(sequence.elements.size());
  if (count == 0) node.bad("the sequence has no elements");
  const auto known = node.has(1) ? known_position(node, 1, count) : count - 1;
  if (known) {
    sequence.elements.erase(sequence.elements.begin() + *known);
  } else {
    const ValueId position = checked_position(node, 1, count);
    OnnxSequence shorter;
    for (int64_t i = 0; i + 1 < count; ++i) {
      const ValueId next = sequence.elements[size_t(i) + 1];
      shorter.elements.push_back(picked(node, {sequence.elements[size_t(i)], next, next}, side_of(node, i, position)));
    }
    sequence = std::move(shorter);
  }
  node.set_output(0, std::move(sequence));
}

void import_ConcatFromSequence(OnnxNode& node) {
  const OnnxSequence& sequence = known_sequence(node, 0);
  const bool new_axis = node.int_attribute("new_axis", 0) != 0;
  const int64_t given_axis = node.int_attribute("axis");
  const Graph& graph = node.graph();
  if (sequence.elements.empty() && !sequence.stacked.valid()) node.bad("the sequence has no elements");
  const int64_t rank =
      sequence.elements.empty() ? graph.type(sequence.stacked).rank() - 1 : graph.type(sequence.elements[0]).rank();
  const int64_t axis = normalize_axis(given_axis, rank + (new_axis ? 1 : 0));
  // The first axis of what is stacked moves to where it is wanted.
  const auto moved = [&](ValueId x) {
    ops::Transpose move;
    for (int64_t i = 1; i <= rank; ++i) move.perm.push_back(i);
    move.perm.insert(move.perm.begin() + axis, 0);
    return axis == 0 ? x : node.add(move, {x});
  };
  if (new_axis) return node.set_output(0, moved(stacked(node, sequence)));
  std::vector<ValueId> parts = sequence.elements;
  if (sequence.stacked.valid()) {
    Shape shape = graph.type(sequence.stacked).shape;
    shape[size_t(axis) + 1] = shape[0] * shape[size_t(axis) + 1];
    shape.erase(shape.begin());
    parts.push_back(node.reshape(moved(sequence.stacked), shape));
  }
  node.set_output(0, joined(node, parts, axis));
}

namespace {

// Slices of one element along an axis of a size that is open: as many as only a run knows.
OnnxSequence slices_of(OnnxNode& node, ValueId x, int64_t axis, bool keep) {
  Shape shape = node.graph().type(x).shape;
  const Dim count = shape[size_t(axis)];
  ops::Transpose move;
  for (int64_t i = 0; i < int64_t(shape.size()); ++i)
    if (i != axis) move.perm.push_back(i);
  move.perm.insert(move.perm.begin(), axis);
  ValueId all = axis == 0 ? x : node.add(move, {x});
  if (keep) {
    shape[size_t(axis)] = 1;
    shape.insert(shape.begin(), count);
    all = node.reshape(all, shape);
  }
  return {.elements = {}, .stacked = all, .grows_in = {}};
}

// Parts of a size that is data, the last of what is left, of an axis of `size`: a side for each number of parts.
OnnxValue parts_of(OnnxNode& node, ValueId x, int64_t axis, int64_t size, ValueId given) {
  // More have more numbers of parts than sides are supported, and not as many constants are made of them.
  constexpr int64_t kMost = 1024;
  if (size > kMost) node.refuse("parts of a size that is data of an axis of ", size, "; make the size a constant");
  // One below 1 is looked up in vain, which is an error when the model runs.
  ProgramBuilder b({DType::i64});
  const int too_small = b.op(Scalar::less, 0, b.constant(DType::i64, 1));
  const int within = b.op(Scalar::min, 0, b.constant(DType::i64, double(size)));
  const Program place = b.result(b.op(Scalar::where, too_small, b.constant(DType::i64, double(size + 1)), within));
  std::vector<int64_t> all(size_t(size) + 1);
  std::iota(all.begin(), all.end(), 0);
  const ValueId part = node.add(ops::Gather{}, {node.ints(all), node.program(place, {given})});
  ProgramBuilder c({DType::i64});
  const int rounded = c.op(Scalar::add, 0, c.constant(DType::i64, double(size - 1)));
  const ValueId count = node.program(c.result(c.op(Scalar::div, rounded, 0)), {part});
  const ValueId axes = node.ints({axis});
  OnnxValue value;
  for (int64_t each = size, before = 0; each >= 1; --each) {
    const int64_t parts = (size + each - 1) / each;
    if (parts == std::exchange(before, parts)) continue;
    OnnxSequence sequence;
    ValueId start = node.ints({0});
    for (int64_t i = 1; i <= parts; ++i) {
      const ValueId end =
          i == parts ? node.ints({size}) : node.reshape(node.pointwise(Scalar::mul, {part, node.number(i)}), {1});
      sequence.elements.push_back(node.add(ops::Slice{}, {x, start, end, axes, {}}));
      start = end;
    }
    if (!value.valid()) {
      value = std::move(sequence);
      continue;
    }
    const ValueId so_many = node.pointwise(Scalar::equal, {count, node.number(parts)}, DType::boolean);
    value = either_of(node.graph(), node.name(), so_many, {std::move(sequence)}, {value})[0];
  }
  return value;
}

}  // namespace

void import_SplitToSequence(OnnxNode& node) {
  const TensorType type = node.type(0);
  const int64_t axis = normalize_axis(node.int_attribute("axis", 0), type.rank());
  const bool keep = node.int_attribute("keepdims", 1) != 0 || node.has(1);
  const Dim size = type.shape[size_t(axis)];
  OnnxSequence sequence;
  if (node.has(1) && node.type(1).rank() == 1 && !node.constant(1) && !node.contents(1)) {
    // The sizes are data: each part starts where the one before it ends.
    const int64_t parts = node.type(1).dims()[0];
    const ValueId axes = node.ints({axis}), sizes = node.cast(node.input(1), DType::i64);
    ValueId start = node.ints({0});
    for (int64_t i = 0; i < parts; ++i) {
      ops::Slice one;
      one.starts = {Dim(i)};
      one.sizes = {Dim(1)};
      one.steps = {1};
      const ValueId end = node.pointwise(Scalar::add, {start, node.add(one, {sizes})});
      sequence.elements.push_back(node.add(ops::Slice{}, {node.input(0), start, end, axes, {}}));
      start = end;
    }
    return node.set_output(0, std::move(sequence));
  }
  const bool by_data = node.has(1) && node.type(1).rank() == 0 && !node.constant(1) && !node.contents(1);
  if (by_data && size.is_constant() && size.value() > 0)
    return node.set_output(0, parts_of(node, node.input(0), axis, size.value(), node.cast(node.input(1), DType::i64)));
  const bool single =
      !node.has(1) || (node.constant(1) && node.type(1).rank() == 0 && node.constant_ints(1, "split")[0] == 1);
  if (!size.is_constant() && single) return node.set_output(0, slices_of(node, node.input(0), axis, keep));
  if (!size.is_constant())
    node.refuse("of how many elements '", size, "' makes a sequence is not known; give a fixed shape with --shapes");
  std::vector<int64_t> sizes;
  if (node.has(1) && node.type(1).rank() == 1) {
    sizes = node.constant_ints(1, "split");
    if (std::any_of(sizes.begin(), sizes.end(), [](int64_t part) { return part < 0; }) ||
        std::accumulate(sizes.begin(), sizes.end(), int64_t(0)) != size.value())
      node.bad("split ", sizes, " of axis ", axis, " of ", type);
  } else {
    const std::vector<int64_t> given = node.has(1) ? node.constant_ints(1, "split") : std::vector<int64_t>{1};
    if (given.size() != 1 || given[0] < 1) node.bad("split is ", given);
    const int64_t each = given[0];
    constexpr int64_t kMost = 1 << 20;
    if ((size.value() - 1) / each >= kMost) node.refuse("a sequence of more than ", kMost, " elements");
    for (int64_t start = 0; start < size.value(); start += each) sizes.push_back(std::min(each, size.value() - start));
  }
  int64_t start = 0;
  for (int64_t part : sizes) {
    ops::Slice slice = ops::slice_all(type.shape);
    slice.starts[size_t(axis)] = start;
    slice.sizes[size_t(axis)] = part;
    start += part;
    ValueId element = node.add(slice, {node.input(0)});
    if (!keep) {
      Shape shape = type.shape;
      shape.erase(shape.begin() + axis);
      element = node.reshape(element, shape);
    }
    sequence.elements.push_back(element);
  }
  node.set_output(0, std::move(sequence));
}

void import_SequenceMap(OnnxNode& node) {
  const onnx::GraphProto* body = node.graph_attribute("body");
  if (!body) node.bad("the body is missing");
  const size_t count = listed(node, 0).elements.size();
  std::vector<OnnxSequence> outputs(node.output_count());
  for (size_t element = 0; element < count; ++element) {
    std::vector<OnnxValue> inputs;
    for (size_t i = 0; i < node.input_count(); ++i) {
      if (!node.value(i).sequence) {
        inputs.emplace_back(node.input(i));
        continue;
      }
      const OnnxSequence& sequence = listed(node, i);
      if (sequence.elements.size() != count)
        node.bad("its sequences have ", count, " and ", sequence.elements.size(), " elements");
      inputs.emplace_back(sequence.elements[element]);
    }
    const auto given = node.inline_graph(*body, inputs);
    if (given.size() != outputs.size()) node.bad("its body has ", given.size(), " outputs");
    for (size_t i = 0; i < given.size(); ++i) {
      if (!given[i].tensor.valid()) node.bad("output ", i, " of its body is no tensor");
      outputs[i].elements.push_back(given[i].tensor);
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) node.set_output(i, std::move(outputs[i]));
}

}  // namespace temper
