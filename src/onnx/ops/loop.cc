// SPDX-License-Identifier: Apache-2.0
// Imports Loop and Scan as the loops of graph/ops/loop.h. A Scan is a Loop whose body picks its slices by the
// iteration.
#include "graph/ops/loop.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <numeric>

#include "graph/control.h"
#include "graph/ops/broadcast.h"
#include "graph/ops/choose.h"
#include "graph/ops/gather.h"
#include "graph/ops/shape.h"
#include "graph/ops/slice.h"
#include "graph/ops/transpose.h"
#include "onnx/either.h"
#include "onnx/loop.h"
#include "onnx/sequence.h"

namespace temper {

namespace {

// A loop has one body, and a value one rank in it. As many bodies as iterations may have others.
struct RankChanges : Error {
  RankChanges(size_t in_loop, std::string message) : Error(ErrorKind::unsupported, std::move(message)), loop(in_loop) {}
  size_t loop;  // how many loops it is inside of
};

bool is_true(const OnnxNode& node, const Graph& graph, ValueId condition) {
  const Tensor* constant = graph.constant(condition);
  if (constant && constant->count() != 1) node.bad("a condition has ", constant->count(), " elements");
  return constant && constant->to_ints()[0];
}

const onnx::GraphProto& body_graph(const OnnxNode& node) {
  const auto* body = node.graph_attribute("body");
  if (!body) node.bad("the body is missing");
  return *body;
}

// A body may want its iteration and its condition as vectors of one element.
ValueId as_declared(OnnxNode& node, ValueId scalar, const onnx::ValueInfoProto& input) {
  const auto& type = input.type().tensor_type();
  return type.has_shape() && type.shape().dim_size() == 1 ? node.reshape(scalar, {1}) : scalar;
}

// While it lives, nodes are those of a loop's body. Whoever lists refusals goes on behind a body that was refused.
struct Inside {
  Inside(std::vector<ValueId>& all, ValueId iteration) : loops(all) { loops.push_back(iteration); }
  Inside(const Inside&) = delete;
  ~Inside() { loops.pop_back(); }
  std::vector<ValueId>& loops;
};

}  // namespace

std::vector<ValueId> add_loop(OnnxNode& node, ValueId trip, ValueId condition, const std::vector<ValueId>& initial,
                              const LoopBody& body, const std::vector<int64_t>* joined) {
  Graph& graph = node.graph();
  const bool begins_true = !condition.valid() || is_true(node, graph, condition);
  std::vector<int64_t> open;
  for (;;) {
    ops::LoopBegin begin;
    begin.loop = graph.node_count();
    begin.nested = !node.loops().empty();
    begin.open = open;
    std::vector<ValueId> inputs{trip, condition};
    inputs.insert(inputs.end(), initial.begin(), initial.end());
    if (begin.nested) inputs.push_back(node.loops().back());
    const std::vector<ValueId> begins = node.add_many(begin, std::move(inputs));
    const std::vector<ValueId> carried(begins.begin() + 2, begins.end());
    const std::vector<ValueId> given = [&] {
      const Inside inside(node.loops(), begins[0]);
      return body(begins[0], begins[1], carried);
    }();
    // Mostly a body hands its condition on.
    const bool trip_decides = begins_true && (given.at(0) == begins[1] || is_true(node, graph, given[0]));
    if (trip_decides && !trip.valid()) node.bad("it never ends: no number of iterations, and no condition");
    if (const Tensor* number = trip_decides ? graph.constant(trip) : nullptr; number && number->count() == 1)
      check_iterations(number->to_ints()[0], node.limits().iterations);
    bool fits = true;
    for (size_t i = 0; i < carried.size(); ++i) {
      const TensorType &type = graph.type(carried[i]), &next = graph.type(given.at(1 + i));
      if (type.dtype != next.dtype) node.bad("carried value ", i, " is ", type, " first and ", next, " later");
      if (type.rank() != next.rank())
        throw RankChanges(node.loops().size(),
                          concat("a carried value (number ", i, ") that is ", type, " first and ", next,
                                 " later is not supported where how often the loop runs is no small constant"));
      for (size_t axis = 0; axis < type.shape.size(); ++axis) {
        if (type.shape[axis] == next.shape[axis] || ops::is_open(open, i, axis)) continue;
        open.insert(open.end(), {int64_t(i), int64_t(axis)});
        fits = false;
      }
    }
    if (!fits) {
      node.count_loop_again();
      continue;
    }
    ops::LoopEnd end;
    end.carried = int64_t(carried.size());
    end.open = open;
    if (joined) end.joined = *joined;
    end.limit = node.limits().iterations;
    std::vector<ValueId> last{begins[0], trip_decides ? trip : ValueId{}, given[0]};
    last.insert(last.end(), carried.begin(), carried.end());
    last.insert(last.end(), given.begin() + 1, given.end());
    if (last.size() == 3) return {};
    return node.add_many(end, std::move(last));
  }
}

namespace {

bool is_listed(const OnnxValue& value) { return !value.tensor.valid(); }

// A loop that carries a sequence, nothing in the place of a value, or values of changing ranks, and that runs a known
// number of times: its iterations, one after the other. Nothing where the number is not known after all.
std::optional<std::vector<OnnxValue>> unrolled(OnnxNode& node, const onnx::GraphProto& body,
                                               const std::vector<OnnxValue>& initial, int64_t trip) {
  Graph& graph = node.graph();
  const auto known_condition = [&](ValueId condition) -> std::optional<bool> {
    const Tensor* constant = graph.constant(condition);
    if (!constant) return std::nullopt;
    return is_true(node, graph, condition);
  };
  ValueId condition = node.has(1) ? node.input(1) : node.scalar(DType::boolean, 1);
  std::vector<OnnxValue> carried = initial;
  std::vector<OnnxSequence> scans(node.output_count() - initial.size());
  constexpr int64_t kMost = 10'000;
  // One that only a run knows, and that the body hands on: all iterations are run, or none.
  ValueId open;
  int64_t iteration = 0;
  for (; iteration < trip; ++iteration) {
    const auto goes_on = known_condition(condition);
    if (!goes_on && iteration == 0 && scans.empty() && trip <= kMost) open = condition;
    if ((!goes_on && (!open.valid() || condition != open)) || iteration == kMost) return std::nullopt;
    if (goes_on && !*goes_on) break;
    std::vector<OnnxValue> inputs{as_declared(node, node.constant(Tensor::of<int64_t>({}, {iteration})), body.input(0)),
                                  as_declared(node, condition, body.input(1))};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    const auto given = node.inline_open(body, inputs);
    if (!given[0].tensor.valid()) node.bad("the condition that its body gives is no tensor");
    condition = given[0].tensor;
    carried.assign(given.begin() + 1, given.begin() + 1 + int64_t(initial.size()));
    for (size_t i = 0; i < scans.size(); ++i) {
      const OnnxValue& slice = given[1 + initial.size() + i];
      if (!slice.tensor.valid()) node.bad("output ", 1 + initial.size() + i, " of its body is no tensor");
      scans[i].elements.push_back(slice.tensor);
    }
  }
  if (open.valid()) return either_of(graph, node.name(), open, carried, initial);
  if (iteration == 0 && !scans.empty()) node.refuse("it runs no iteration, and stacks what its body gives");
  for (const OnnxSequence& scan : scans) carried.emplace_back(stacked(node, scan));
  return carried;
}

// What a loop's body has appended to a sequence in this iteration, as one value [n, element's axes...]; nothing where
// it is no element, whatever the conditions are. Where they choose, n is data.
ValueId appended_in(OnnxNode& node, ValueId iteration, const OnnxValue& value) {
  Graph& graph = node.graph();
  const auto empty = [&](const OnnxValue& side) {
    return !side.either && side.sequence->elements.empty() && !side.sequence->stacked.valid();
  };
  if (!value.either) {
    if (!value.sequence || value.sequence->grows_in != iteration)
      node.unsupported("a loop that makes another sequence of one that it carries than by appending to it");
    return empty(value) ? ValueId{} : stacked(node, *value.sequence);
  }
  ValueId sides[2];
  for (const bool then : {true, false})
    sides[then] = appended_in(node, iteration, then ? value.either->then : value.either->other);
  if (!sides[0].valid() && !sides[1].valid()) return {};
  for (const bool then : {true, false})
    if (!sides[then].valid()) {
      const TensorType& type = graph.type(sides[!then]);
      if (type.dtype == DType::string)
        node.unsupported("a loop that appends strings to a sequence if a condition holds");
      Shape none = type.shape;
      none[0] = 0;
      sides[then] = node.add(ops::Broadcast{.shape = none}, {node.scalar(type.dtype, 0)});
    }
  const OnnxValue both = either_of(graph, node.name(), value.either->condition, {sides[1]}, {sides[0]})[0];
  if (both.either)
    node.refuse("its body appends ", text_of(graph, both), " to a sequence, as a condition chooses; elements of one ",
                "rank are supported");
  return both.tensor;
}

// A loop whose body appends to the sequences that it carries: what it appends is a scan.
std::vector<OnnxValue> growing(OnnxNode& node, const onnx::GraphProto& body, const std::vector<OnnxValue>& initial) {
  std::vector<ValueId> tensors;
  for (const OnnxValue& value : initial) {
    if (!value.valid()) node.unsupported("a carried value that is there only after some iterations");
    if (value.tensor.valid()) tensors.push_back(value.tensor);
  }
  const size_t own_scans = node.output_count() - initial.size();
  std::vector<size_t> grown;    // the carried sequences that the body appends to
  std::vector<int64_t> joined;  // the scans of these
  const LoopBody run = [&](ValueId iteration, ValueId condition, const std::vector<ValueId>& carried) {
    std::vector<OnnxValue> inputs{as_declared(node, iteration, body.input(0)),
                                  as_declared(node, condition, body.input(1))};
    size_t next = 0;
    for (const OnnxValue& value : initial) {
      if (value.sequence) inputs.emplace_back(OnnxSequence{.elements = {}, .stacked = {}, .grows_in = iteration});
      else inputs.emplace_back(carried.at(next++));
    }
    const auto given = node.inline_open(body, inputs);
    std::vector<ValueId> out, appended;
    grown.clear();
    joined.clear();
    for (size_t i = 0; i < given.size(); ++i) {
      const std::string& name = body.output(int(i)).name();
      const bool is_sequence = i > 0 && i <= initial.size() && initial[i - 1].sequence;
      if (!is_sequence) {
        if (given[i].either)
          node.refuse("'", name, "' of its body is ", text_of(node.graph(), given[i]),
                      ", as a condition chooses; one rank is supported there");
        if (!given[i].tensor.valid()) node.bad("output ", i, " of its body is no tensor");
        out.push_back(given[i].tensor);
        continue;
      }
      const ValueId more = with_context([&] { return concat("the sequence '", name, "' of its body"); },
                                        [&] { return appended_in(node, iteration, given[i]); });
      if (!more.valid()) continue;
      joined.push_back(int64_t(own_scans + grown.size()));
      grown.push_back(i - 1);
      appended.push_back(more);
    }
    out.insert(out.end(), appended.begin(), appended.end());
    return out;
  };
  const auto results = add_loop(node, node.optional_input(0), node.optional_input(1), tensors, run, &joined);
  std::vector<OnnxValue> outputs;
  size_t next = 0;
  outputs.reserve(initial.size());
  for (const OnnxValue& value : initial) outputs.push_back(value.sequence ? value : OnnxValue(results.at(next++)));
  for (size_t i = 0; i < own_scans; ++i) outputs.emplace_back(results.at(next++));
  for (size_t carried : grown) {
    const ValueId scan = results.at(next++);
    OnnxSequence sequence = *initial[carried].sequence;
    sequence.stacked = sequence.stacked.valid() ? temper::joined(node, {sequence.stacked, scan}) : scan;
    outputs[carried] = std::move(sequence);
  }
  return outputs;
}

// How often the loop runs at most, where that is known.
std::optional<int64_t> known_trip(const OnnxNode& node) {
  if (!node.has(0)) return std::numeric_limits<int64_t>::max();
  if (!node.constant(0) && !node.contents(0)) return std::nullopt;
  if (const Contents* contents = node.contents(0); contents && contents->size() == 1 && !(*contents)[0].is_constant())
    return std::nullopt;
  const auto values = node.constant_ints(0, "the number of iterations");
  if (values.size() != 1) node.bad("the number of iterations is not one number");
  return values[0];
}

}  // namespace

void import_Loop(OnnxNode& node) {
  const onnx::GraphProto& graph = body_graph(node);
  if (node.input_count() < 2) node.bad("it has ", node.input_count(), " inputs");
  std::vector<OnnxValue> initial;
  for (size_t i = 2; i < node.input_count(); ++i) initial.push_back(node.value(i));
  if (size_t(graph.input_size()) != 2 + initial.size())
    node.bad("its body has ", graph.input_size(), " inputs for ", initial.size(), " carried values");
  if (size_t(graph.output_size()) != 1 + node.output_count() || node.output_count() < initial.size())
    node.bad("its body has ", graph.output_size(), " outputs for ", node.output_count(), " of the node and ",
             initial.size(), " carried values");
  std::optional<std::vector<OnnxValue>> outputs;
  // One after the other they take a graph of their number, and each may be another. The body of a loop is one.
  constexpr int64_t kFew = 64;
  if (std::any_of(initial.begin(), initial.end(), is_listed)) {
    const auto trip = known_trip(node);
    if (trip && (*trip <= kFew || !node.takes_first_side())) outputs = unrolled(node, graph, initial, *trip);
  }
  if (!outputs) try {
      outputs = growing(node, graph, initial);
    } catch (const RankChanges& change) {
      if (change.loop != node.loops().size()) throw;
      if (const auto trip = known_trip(node); trip && *trip <= kFew) outputs = unrolled(node, graph, initial, *trip);
      if (!outputs) throw;
    }
  for (size_t i = 0; i < outputs->size(); ++i) node.set_output(i, (*outputs)[i]);
}

namespace {

// ONNX's Scan from opset 9 on; `node` is any that holds the body.
struct ScanForm {
  size_t scans = 0;                                                   // inputs that are scanned, the last ones
  std::vector<int64_t> in_axes, in_backward, out_axes, out_backward;  // one per scanned input and output
};

std::vector<int64_t> one_each(const OnnxNode& node, const char* name, size_t count) {
  auto values = node.ints_attribute(name, std::vector<int64_t>(count, 0));
  if (values.size() != count) node.bad("'", std::string_view(name), "' has ", values.size(), " values for ", count);
  return values;
}

ValueId pick(OnnxNode& node, ValueId x, ValueId index, int64_t axis) {
  ops::Gather gather;
  gather.axis = axis;
  return node.add(gather, {x, index});
}

ValueId length_of(OnnxNode& node, ValueId x, int64_t axis) {
  return node.add(ops::ShapeOf{.start = axis, .end = axis + 1}, {x});
}

std::vector<ValueId> add_scan(OnnxNode& node, const ScanForm& form, std::vector<ValueId> inputs) {
  const onnx::GraphProto& body = body_graph(node);
  Graph& graph = node.graph();
  const size_t states = inputs.size() - form.scans;
  const std::vector<ValueId> initial(inputs.begin(), inputs.begin() + int64_t(states));
  std::vector<int64_t> axes;
  for (size_t i = 0; i < form.scans; ++i) {
    const TensorType type = graph.type(inputs[states + i]);
    axes.push_back(normalize_axis(form.in_axes[i], type.rank()));
    const Dim length = type.shape[size_t(axes[i])], first = graph.type(inputs[states]).shape[size_t(axes[0])];
    if (length == first) continue;
    if (length.is_constant() && first.is_constant()) node.bad("it scans ", first, " and ", length, " slices at once");
    // A run in which they are not as many ends with an error: the elements do not fit.
    Shape as_many = type.shape;
    as_many[size_t(axes[i])] = first;
    inputs[states + i] = node.reshape(inputs[states + i], as_many);
  }
  const ValueId trip = length_of(node, inputs[states], axes[0]);
  auto outputs =
      add_loop(node, trip, {}, initial, [&](ValueId iteration, ValueId condition, std::vector<ValueId> carried) {
        ValueId backward;
        for (size_t i = 0; i < form.scans; ++i) {
          if (form.in_backward[i] && !backward.valid()) {
            const ValueId last = node.pointwise(Scalar::sub, {node.reshape(trip, {}), node.scalar(DType::i64, 1)});
            backward = node.pointwise(Scalar::sub, {last, iteration});
          }
          carried.push_back(pick(node, inputs[states + i], form.in_backward[i] ? backward : iteration, axes[i]));
        }
        std::vector<ValueId> given{condition};
        for (const OnnxValue& value : node.inline_graph(body, {carried.begin(), carried.end()})) {
          if (!value.tensor.valid()) node.bad("an output of its body is no tensor");
          given.push_back(value.tensor);
        }
        return given;
      });
  for (size_t i = states; i < outputs.size(); ++i) {
    const TensorType type = graph.type(outputs[i]);
    const auto rank = size_t(type.rank());
    if (form.out_backward[i - states]) {
      ops::Slice slice;
      slice.starts.assign(rank, 0);
      slice.sizes = type.shape;
      slice.steps.assign(rank, 1);
      slice.starts[0] = dim_max(type.shape[0] - Dim(1), 0);
      slice.steps[0] = -1;
      outputs[i] = node.add(slice, {outputs[i]});
    }
    if (const int64_t axis = normalize_axis(form.out_axes[i - states], type.rank())) {
      ops::Transpose transpose;
      for (size_t k = 1; k < rank; ++k) transpose.perm.push_back(int64_t(k));
      transpose.perm.insert(transpose.perm.begin() + axis, 0);
      outputs[i] = node.add(transpose, {outputs[i]});
    }
  }
  return outputs;
}

}  // namespace

void import_Scan(OnnxNode& node) {
  const onnx::GraphProto& body = body_graph(node);
  const bool batched = node.opset() < 9;  // then input 0 is the lengths, and the first axis of all others the batch
  std::vector<ValueId> inputs;
  for (size_t i = batched ? 1 : 0; i < node.input_count(); ++i) inputs.push_back(node.input(i));
  if (batched && node.has(0)) node.unsupported("a batch of sequences of different lengths");
  const int64_t scans = node.int_attribute("num_scan_inputs");
  if (scans < 1 || scans > int64_t(inputs.size()) || size_t(body.input_size()) != inputs.size())
    node.bad("it scans ", scans, " of ", inputs.size(), " inputs, and its body has ", body.input_size());
  ScanForm form;
  form.scans = size_t(scans);
  const size_t states = inputs.size() - form.scans;
  if (size_t(body.output_size()) != node.output_count() || node.output_count() < states)
    node.bad("its body has ", body.output_size(), " outputs for ", node.output_count(), " of the node");
  const size_t scanned = node.output_count() - states;
  form.in_axes.assign(form.scans, 0);
  form.out_axes.assign(scanned, 0);
  form.out_backward.assign(scanned, 0);
  std::vector<ValueId> outputs;
  if (batched) {
    form.in_backward = one_each(node, "directions", form.scans);
    outputs = add_loop(node, length_of(node, inputs[0], 0), {}, {},
                       [&](ValueId sample, ValueId condition, const std::vector<ValueId>&) {
                         std::vector<ValueId> own;
                         own.reserve(inputs.size());
                         for (ValueId input : inputs) own.push_back(pick(node, input, sample, 0));
                         auto given = add_scan(node, form, own);
                         given.insert(given.begin(), condition);
                         return given;
                       });
  } else {
    form.in_axes = one_each(node, "scan_input_axes", form.scans);
    form.in_backward = one_each(node, "scan_input_directions", form.scans);
    form.out_axes = one_each(node, "scan_output_axes", scanned);
    form.out_backward = one_each(node, "scan_output_directions", scanned);
    outputs = add_scan(node, form, inputs);
  }
  for (size_t i = 0; i < outputs.size(); ++i) node.set_output(i, outputs[i]);
}

}  // namespace temper
