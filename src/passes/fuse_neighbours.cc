// SPDX-License-Identifier: Apache-2.0
#include "passes/fuse_neighbours.h"

#include <algorithm>
#include <array>

#include "base/half.h"
#include "graph/ops/conv.h"
#include "graph/ops/fused.h"
#include "graph/ops/matmul.h"
#include "graph/ops/normalize.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/pool.h"
#include "graph/ops/reduce.h"
#include "graph/ops/slice.h"
#include "graph/ops/softmax.h"
#include "passes/support/simplify.h"

namespace temper {

namespace {

// The pointwise node of one input, of that input's shape, that makes `value` for `user` alone; null where there is
// none.
const Node* pointwise_for(const Graph& graph, ValueId value, NodeId user) {
  const Node* node = graph.producer(value);
  if (!node || !node->op.is<ops::Pointwise>() || node->inputs.size() != 1) return nullptr;
  const auto& users = graph.value(value).users;
  const bool alone =
      !graph.is_output(value) && std::all_of(users.begin(), users.end(), [&](NodeId u) { return u == user; });
  return alone && graph.type(node->inputs[0]).shape == graph.type(value).shape ? node : nullptr;
}

// The pointwise node of one input that alone reads `value`; null where there is none.
const Node* pointwise_behind(const Graph& graph, ValueId value) {
  if (!graph.has_single_use(value)) return nullptr;
  const Node& node = graph.node(graph.value(value).users[0]);
  return node.op.is<ops::Pointwise>() && node.inputs.size() == 1 ? &node : nullptr;
}

const Program& program_of(const Node& node) { return node.op.get<ops::Pointwise>().program; }

void take_pool(ops::FusedConv& fused, const ops::Pool& pool) {
  fused.pool_kernel = pool.kernel;
  fused.pool_strides = pool.strides;
  fused.pool_pads = pool.pads;
}

// The max pool that alone reads `value`, if fused_conv can say it; null where there is none.
const Node* max_pool_behind(const Graph& graph, ValueId value) {
  if (!graph.has_single_use(value)) return nullptr;
  const Node& node = graph.node(graph.value(value).users[0]);
  const auto* pool = node.op.get_if<ops::Pool>();
  if (!pool) return nullptr;
  ops::FusedConv said;
  take_pool(said, *pool);
  return said.pool() == *pool ? &node : nullptr;
}

// What stands before a convolution, a normalisation or softmax.
struct Before {
  Program program;
  std::vector<ValueId> inputs;
  ValueId given;  // the result of the program, where it is read elsewhere
};

// The pointwise node that makes `value`, whose shape its first input has; input i of the program is inputs[i]. Where it
// has other users than `user`, it is of two tensors of that shape at most: then it is read no more often than it would
// be.
std::optional<Before> before_rows(const Graph& graph, ValueId value, NodeId user) {
  const Node* node = graph.producer(value);
  if (!node || !node->op.is<ops::Pointwise>()) return std::nullopt;
  Before out{program_of(*node), node->inputs, {}};
  const Shape shape = graph.type(value).shape;
  const auto has_shape = [&](ValueId id) { return graph.type(id).shape == shape; };
  const auto full = std::find_if(out.inputs.begin(), out.inputs.end(), has_shape);
  if (full == out.inputs.end()) return std::nullopt;
  const auto& users = graph.value(value).users;
  if (graph.is_output(value) || !std::all_of(users.begin(), users.end(), [&](NodeId u) { return u == user; })) {
    if (std::count_if(out.inputs.begin(), out.inputs.end(), has_shape) > 2) return std::nullopt;
    out.given = value;
  }
  const int at = int(full - out.inputs.begin());
  if (at > 0) {
    std::vector<int> places;
    places.reserve(size_t(out.program.inputs));
    for (int i = 0; i < out.program.inputs; ++i) places.push_back(i == at ? 0 : i == 0 ? at : i);
    out.program = remap_inputs(out.program, places, out.program.inputs);
    std::swap(out.inputs[0], out.inputs[size_t(at)]);
  }
  if (out.program.is_identity()) return std::nullopt;
  return out;
}

// Whether the program reads a single tensor of its result's shape, the first.
bool of_one_tensor(const Graph& graph, const Before& before) {
  const Shape shape = graph.type(before.inputs[0]).shape;
  return std::none_of(before.inputs.begin() + 1, before.inputs.end(),
                      [&](ValueId id) { return graph.type(id).shape == shape; });
}

// With all of its neighbours, or else with one of them.
bool fuse_conv(Graph& graph, NodeId id, const FusionTaken& taken) {
  const Node node = graph.node(id);
  auto found = before_rows(graph, node.inputs[0], id);
  if (found && (found->given.valid() || !of_one_tensor(graph, *found))) found.reset();
  if (std::count(node.inputs.begin(), node.inputs.end(), node.inputs[0]) != 1) found.reset();
  const Before* before = found ? &*found : nullptr;
  const Node* behind = max_pool_behind(graph, node.outputs[0]);
  for (const auto& [first, last] : {std::pair(before, behind), std::pair(before, static_cast<const Node*>(nullptr)),
                                    std::pair(static_cast<const Before*>(nullptr), behind)}) {
    if (!first && !last) continue;
    ops::FusedConv fused{{}, node.op.get<ops::Conv>(), {}, {}, {}};
    std::vector<ValueId> inputs = node.inputs;
    ValueId output = node.outputs[0];
    if (first) {
      fused.prologue = first->program;
      inputs[0] = first->inputs[0];
      inputs.insert(inputs.end(), first->inputs.begin() + 1, first->inputs.end());
    }
    if (last) {
      take_pool(fused, last->op.get<ops::Pool>());
      output = last->outputs[0];
    }
    if (!taken(graph, fused, inputs)) continue;
    graph.rewrite(output, std::move(fused), std::move(inputs), node.name);
    return true;
  }
  return false;
}

bool fuse_reduce(Graph& graph, NodeId id, const FusionTaken& taken) {
  const Node node = graph.node(id);
  if (node.inputs.size() != 1 || graph.type(node.inputs[0]).dtype != DType::f32) return false;
  ops::FusedReduce fused{{}, {}, node.op.get<ops::Reduce>()};
  std::vector<ValueId> inputs = node.inputs;
  ValueId output = node.outputs[0];
  if (const Node* before = pointwise_for(graph, node.inputs[0], id)) {
    fused.prologue = program_of(*before);
    inputs[0] = before->inputs[0];
  }
  if (const Node* behind = pointwise_behind(graph, output)) {
    fused.epilogue = program_of(*behind);
    output = behind->outputs[0];
  }
  if ((fused.prologue.is_identity() && fused.epilogue.is_identity()) || !taken(graph, fused, inputs)) return false;
  graph.rewrite(output, std::move(fused), std::move(inputs), node.name);
  return true;
}

// Whether a program only widens 16 bits to f32: what reads the result may as well read them.
bool only_widens(const Graph& graph, const Node& node) {
  return node.op.is<ops::Pointwise>() && node.inputs.size() == 1 && program_of(node).steps.size() == 1 &&
         program_of(node).steps[0].op == Scalar::cast && program_of(node).steps[0].dtype == DType::f32 &&
         ops::row_dtype(graph.type(node.inputs[0]).dtype) == DType::f32;
}

// The output of the program that alone reads `value` and keeps its shape, and that program as an epilogue which begins
// at `accumulator`. A value of another dtype is what is left of the accumulator in it.
std::optional<std::pair<ValueId, BoundProgram>> behind_rows(const Graph& graph, ValueId value, DType accumulator) {
  const auto& users = graph.value(value).users;
  if (users.empty() || graph.is_output(value) ||
      !std::all_of(users.begin(), users.end(), [&](NodeId u) { return u == users[0]; }))
    return std::nullopt;
  const Node& node = graph.node(users[0]);
  if (!node.op.is<ops::Pointwise>() || graph.type(node.outputs[0]).shape != graph.type(value).shape)
    return std::nullopt;
  BoundProgram read{program_of(node), node.inputs};
  tidy(graph, read);  // each input once
  const auto slot = std::find(read.inputs.begin(), read.inputs.end(), value);
  if (slot == read.inputs.end()) return std::nullopt;
  Program first;
  const DType dtype = graph.type(value).dtype;
  if (dtype != accumulator) first.push({Scalar::cast, dtype, {0, -1, -1}});
  // splice gives the inputs of `read` but for the slot, then that of `first`, which is to be input 0.
  const int others = read.program.inputs - 1;
  std::vector<int> places;
  places.reserve(size_t(others) + 1);
  for (int i = 0; i < others; ++i) places.push_back(i + 1);
  places.push_back(0);
  BoundProgram out{remap_inputs(splice(first, read.program, int(slot - read.inputs.begin())), places, others + 1),
                   {ValueId{}},
                   1,
                   accumulator};
  for (ValueId id : read.inputs)
    if (id != value) out.inputs.push_back(id);
  tidy(graph, out);
  return std::pair(node.outputs[0], std::move(out));
}

// `make` gives the fused op of a prologue, an epilogue and whether the prologue's result is given out.
template <class Make>
bool fuse_rows(Graph& graph, NodeId id, bool may_give, const FusionTaken& taken, Make make) {
  const Node node = graph.node(id);
  const ValueId value = node.inputs[0];
  const DType dtype = graph.type(value).dtype;
  // 16 bits are read as they are.
  const Node* widening = graph.producer(value);
  const ValueId x = widening && only_widens(graph, *widening) ? widening->inputs[0] : value;
  const Before alone{{}, {x}, {}};
  std::vector<Before> befores;
  if (x == value || graph.has_single_use(value))
    if (auto before = before_rows(graph, x, x == value ? id : graph.value(value).producer))
      if (may_give || !before->given.valid()) befores.push_back(std::move(*before));
  befores.push_back(alone);
  const auto behind = behind_rows(graph, node.outputs[0], ops::row_dtype(dtype));
  for (const bool with_epilogue : {true, false})
    for (const Before& before : befores) {
      if (with_epilogue && !behind) continue;
      Program epilogue;
      if (with_epilogue) epilogue = behind->second.program;
      // Alone, an op of 16 bits rounds its result.
      else if (ops::row_dtype(dtype) != dtype) epilogue.push({Scalar::cast, dtype, {0, -1, -1}});
      if (!with_epilogue && before.program.is_identity() && before.inputs[0] == value) continue;
      std::vector<ValueId> inputs = before.inputs;
      if (with_epilogue) inputs.insert(inputs.end(), behind->second.inputs.begin() + 1, behind->second.inputs.end());
      const ValueId output = with_epilogue ? behind->first : node.outputs[0];
      // What it gives out must not be needed for what it reads.
      if (before.given.valid() && std::any_of(inputs.begin() + int64_t(before.inputs.size()), inputs.end(),
                                              [&](ValueId i) { return graph.value(i).producer.valid(); }))
        continue;
      Op op = make(before.program, epilogue, before.given.valid());
      if (!taken(graph, op, inputs)) continue;
      if (!before.given.valid()) {
        graph.rewrite(output, std::move(op), std::move(inputs), node.name);
      } else {
        const auto made = graph.add(std::move(op), std::move(inputs), node.name,
                                    {graph.value(output).name, graph.value(before.given).name});
        for (const auto& [old, now] : {std::pair(output, made[0]), std::pair(before.given, made[1])}) {
          graph.replace(old, now);
          graph.swap_names(old, now);
        }
      }
      return true;
    }
  return false;
}

// A product without the residual that its epilogue added at the end.
struct WithoutResidual {
  ops::MatMul product;
  std::vector<ValueId> inputs;
  ValueId residual;
  Program sum;  // of both, in f32
};

// The product of 16 bits whose result `value` has one reader, where its epilogue ends with the sum in f32 of a tensor
// of its shape. Products of 8 bits are farther off than that sum is rounded.
std::optional<WithoutResidual> without_residual(const Graph& graph, ValueId value) {
  const Node* node = graph.producer(value);
  const auto* product = node ? node->op.get_if<ops::MatMul>() : nullptr;
  const TensorType& type = graph.type(value);
  if (!product || !is_half(type.dtype) || graph.type(node->inputs[0]).dtype != type.dtype ||
      !graph.has_single_use(value))
    return std::nullopt;
  const Program& epilogue = product->epilogue;
  const int inputs = epilogue.inputs, rounding = epilogue.result();
  const auto step_of = [&](int v) { return v < inputs ? nullptr : &epilogue.steps[size_t(v - inputs)]; };
  const auto reads = [&](int v) {
    int64_t count = 0;
    for (const Step& step : epilogue.steps) count += std::count(step.args.begin(), step.args.end(), v);
    return count;
  };
  const Step* last = step_of(rounding);
  const Step* sum = last && last->op == Scalar::cast && last->dtype == type.dtype ? step_of(last->args[0]) : nullptr;
  if (!sum || sum->op != Scalar::add || sum->dtype != DType::f32 || last->args[0] != rounding - 1) return std::nullopt;
  for (const size_t side : {1, 0}) {
    int added = sum->args[side];
    const Step* widening = step_of(added);
    if (widening && (widening->op != Scalar::cast || reads(added) != 1)) continue;
    if (widening) added = widening->args[0];
    if (added < 1 || added >= inputs || reads(added) != 1) continue;
    const ValueId residual = node->inputs[node->inputs.size() - size_t(inputs - added)];
    if (graph.type(residual).shape != type.shape || ops::row_dtype(graph.type(residual).dtype) != DType::f32) continue;
    WithoutResidual out{*product, {node->inputs.begin(), node->inputs.end() - (inputs - 1)}, residual, {2, {}}};
    BoundProgram bound{epilogue, {ValueId{}}, 1, accumulator_dtype(graph, *node)};
    bound.inputs.insert(bound.inputs.end(), node->inputs.end() - (inputs - 1), node->inputs.end());
    bound.program.steps.resize(bound.program.steps.size() - 2);
    bound.program.push({Scalar::cast, type.dtype, {sum->args[1 - side], -1, -1}});
    tidy(graph, bound);
    out.product.epilogue = bound.program;
    out.inputs.insert(out.inputs.end(), bound.inputs.begin() + 1, bound.inputs.end());
    const int made = out.sum.push({Scalar::cast, DType::f32, {0, -1, -1}});
    const bool is_wide = graph.type(residual).dtype == DType::f32;
    const int widened = is_wide ? 1 : out.sum.push({Scalar::cast, DType::f32, {1, -1, -1}});
    out.sum.push({Scalar::add, DType::f32, {made, widened, -1}});
    return out;
  }
  return std::nullopt;
}

// A residual sum of 16 bits that only a normalisation reads, in f32, is made there: it is then never rounded, and what
// is rounded in its place, the product, is the smaller of both. As many bytes are read and written. A normalisation
// that one node reads may yet go into that, which a sum would forbid (fuse_few_rows): as at the end of a decoder.
void move_residual(Graph& graph, NodeId id, const FusionTaken& taken) {
  const Node& node = graph.node(id);
  const ValueId value = node.inputs[0];
  const Node* widening = graph.producer(value);
  if (!widening || !only_widens(graph, *widening) || !graph.has_single_use(value)) return;
  const auto behind = behind_rows(graph, node.outputs[0], DType::f32);
  const ValueId result = behind ? behind->first : node.outputs[0];
  if (graph.has_single_use(result)) return;
  const ValueId rounded = widening->inputs[0];
  const auto found = without_residual(graph, rounded);
  if (!found || !taken(graph, ops::FusedNormalize{found->sum, node.op.get<ops::Normalize>(), {}, false},
                       {rounded, found->residual}))
    return;
  const ValueId product = graph.add_single(found->product, found->inputs, graph.producer(rounded)->name);
  graph.rewrite(value, ops::Pointwise{found->sum}, {product, found->residual}, widening->name);
}

bool fuse_normalize(Graph& graph, NodeId id, const FusionTaken& taken) {
  move_residual(graph, id, taken);
  const auto op = graph.node(id).op.get<ops::Normalize>();
  return fuse_rows(graph, id, true, taken, [&](const Program& prologue, const Program& epilogue, bool gives_input) {
    return ops::FusedNormalize{prologue, op, epilogue, gives_input};
  });
}

bool fuse_softmax(Graph& graph, NodeId id, const FusionTaken& taken) {
  const auto op = graph.node(id).op.get<ops::Softmax>();
  return fuse_rows(graph, id, false, taken, [&](const Program& prologue, const Program& epilogue, bool) {
    return ops::FusedSoftmax{prologue, op, epilogue};
  });
}

// Half `half` (0 or 1) of the columns of a matrix that `value` is, where it is read by `user` alone: the matrix;
// invalid where it is no such half.
ValueId whole_of_half(const Graph& graph, ValueId value, NodeId user, int64_t half) {
  const Node* node = graph.producer(value);
  const auto& users = graph.value(value).users;
  const auto* slice = node ? node->op.get_if<ops::Slice>() : nullptr;
  if (!slice || node->inputs.size() != 1 || graph.is_output(value) ||
      !std::all_of(users.begin(), users.end(), [&](NodeId u) { return u == user; }))
    return {};
  const Shape &shape = graph.type(node->inputs[0]).shape, &part = graph.type(value).shape;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const bool last = axis + 1 == shape.size();
    if (slice->steps[axis] != 1 || slice->starts[axis] != (last ? part[axis] * Dim(half) : Dim(0)) ||
        shape[axis] != (last ? part[axis] * Dim(2) : part[axis]))
      return {};
  }
  return node->inputs[0];
}

// A program of the two halves of a product's columns, which nothing else reads.
bool fuse_gate(Graph& graph, NodeId id, const FusionTaken& taken) {
  const Node node = graph.node(id);
  BoundProgram read{program_of(node), node.inputs};
  tidy(graph, read);  // each input once
  if (read.inputs.size() != 2) return false;
  const bool turned = !whole_of_half(graph, read.inputs[0], id, 0).valid();
  if (turned) {
    read.program = remap_inputs(read.program, std::array{1, 0}, 2);
    std::swap(read.inputs[0], read.inputs[1]);
  }
  const ValueId whole = whole_of_half(graph, read.inputs[0], id, 0);
  if (!whole.valid() || whole_of_half(graph, read.inputs[1], id, 1) != whole || graph.is_output(whole) ||
      graph.value(whole).users.size() != 2)
    return false;
  const Node* product = graph.producer(whole);
  if (!product || !product->op.is<ops::MatMul>()) return false;
  ops::GatedMatMul fused{product->op.get<ops::MatMul>(), read.program};
  if (!taken(graph, fused, product->inputs)) return false;
  graph.rewrite(node.outputs[0], std::move(fused), product->inputs, product->name);
  return true;
}

}  // namespace

bool fuse_neighbours(Graph& graph, const FusionTaken& taken, const BuildTime& time) {
  bool changed = false;
  const int32_t count = graph.node_count();
  for (int32_t n = 0; n < count; ++n) {
    time.check_at(n);
    const Node& node = graph.node({n});
    const ValueId output = node.outputs[0];
    if (graph.value(output).users.empty() && !graph.is_output(output)) continue;  // dead by now
    if (node.op.is<ops::Conv>()) changed |= fuse_conv(graph, {n}, taken);
    else if (node.op.is<ops::Reduce>()) changed |= fuse_reduce(graph, {n}, taken);
    else if (node.op.is<ops::Normalize>()) changed |= fuse_normalize(graph, {n}, taken);
    else if (node.op.is<ops::Softmax>()) changed |= fuse_softmax(graph, {n}, taken);
    else if (node.op.is<ops::Pointwise>()) changed |= fuse_gate(graph, {n}, taken);
  }
  return changed;
}

}  // namespace temper
