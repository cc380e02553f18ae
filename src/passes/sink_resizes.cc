// SPDX-License-Identifier: Apache-2.0
// sink_resizes: a convolution of one tap mixes channels, resizing mixes positions, and both are linear: either may come
// first. Where such a convolution reads joined channels of which some were enlarged before, as at the end of networks
// that segment images, it runs on those as they were, what it gives is enlarged, and the rest of the convolution adds
// that up. So it multiplies at few positions, and nothing is joined in memory. The same products are summed in another
// order. Not where resizing puts a number of its own in (tf_crop_and_resize), and only where it pays (is_less_work).
#include "passes/sink_resizes.h"

#include <algorithm>
#include <numeric>

#include "graph/ops/concat.h"
#include "graph/ops/conv.h"
#include "graph/ops/resize.h"

namespace temper {

namespace {

bool is_of_one_tap(const ops::Conv& op, const Shape& weights) {
  const auto all = [](const auto& list, int64_t value) {
    return std::ranges::all_of(list, [&](int64_t v) { return v == value; });
  };
  return op.group == 1 && all(op.strides, 1) && all(op.pads, 0) &&
         std::all_of(weights.begin() + 2, weights.end(), [](const Dim& size) { return size == Dim(1); });
}

// Elements of a plane; nothing where its size is not known.
std::optional<int64_t> positions_of(const Shape& shape) {
  int64_t count = 1;
  for (size_t axis = 2; axis < shape.size(); ++axis) {
    if (!shape[axis].is_constant()) return std::nullopt;
    count *= shape[axis].value();
  }
  return count;
}

// Of `channels` at `few` positions that become `columns` at `many`. Bringing an element to memory or from there takes
// as long as kMoved multiplications and additions of a kernel that runs at the speed of arithmetic.
bool is_less_work(double channels, double columns, double few, double many) {
  constexpr double kMoved = 64;
  const double multiplied = 2 * channels * columns * (many - few);
  // Enlarged channels are written, and read and written by the concat; enlarged results are written and read.
  return multiplied + kMoved * 3 * channels * many > kMoved * 2 * columns * many;
}

// The node that enlarges, where it can run behind the convolution.
const Node* enlarging(const Graph& graph, ValueId value, int64_t columns) {
  const Node* node = graph.producer(value);
  const auto* op = node ? node->op.get_if<ops::Resize>() : nullptr;
  if (!op || node->inputs.size() != 1 || !graph.has_single_use(value) ||
      op->coordinate == ops::ResizeCoordinate::tf_crop_and_resize)
    return nullptr;
  const Shape &from = graph.type(node->inputs[0]).shape, &to = graph.type(value).shape;
  if (from[0] != to[0] || from[1] != to[1] || !from[1].is_constant()) return nullptr;
  const auto few = positions_of(from), many = positions_of(to);
  if (!few || !many || *many < 2 * *few) return nullptr;
  return is_less_work(double(from[1].value()), double(columns), double(*few), double(*many)) ? node : nullptr;
}

// Some input channels of weights [M, C, 1...].
struct Channels {
  int64_t first, count;
};
Tensor weights_of(const Tensor& weights, const std::vector<Channels>& parts) {
  Dims dims = weights.dims();
  const int64_t all = dims[1];
  dims[1] = 0;
  for (const Channels& part : parts) dims[1] += part.count;
  Tensor out(weights.dtype(), dims);
  float* to = out.data<float>();
  for (int64_t column = 0; column < dims[0]; ++column)
    for (const Channels& part : parts)
      to = std::copy_n(weights.data<float>() + column * all + part.first, part.count, to);
  return out;
}

// The epilogue with `count` more inputs, which are added to what was summed. A bias that is added first stays the
// first: kernels begin with it.
Program with_addends(const Program& epilogue, int count, bool has_bias) {
  Program out;
  out.inputs = epilogue.inputs + count;
  std::vector<int> now(size_t(epilogue.inputs));
  std::iota(now.begin(), now.end(), 0);
  const auto push = [&](Step step) {
    for (int a = 0; a < arity_of(step.op); ++a) step.args[size_t(a)] = now[size_t(step.args[size_t(a)])];
    now.push_back(out.push(step));
  };
  if (has_bias) push(epilogue.steps[0]);
  int sum = has_bias ? now.back() : 0;
  for (int i = 0; i < count; ++i) sum = out.push({Scalar::add, DType::f32, {sum, epilogue.inputs + i, -1}});
  now[has_bias ? size_t(epilogue.inputs) : 0] = sum;
  for (size_t s = has_bias; s < epilogue.steps.size(); ++s) push(epilogue.steps[s]);
  return out;
}

// Whether the program adds an input of one number a channel to input 0 first, and does not read that again.
bool begins_with_bias(const Graph& graph, const Node& node, const Program& epilogue) {
  if (epilogue.steps.empty()) return false;
  const Step& step = epilogue.steps[0];
  const int other = step.args[0] == 0 ? step.args[1] : step.args[0];
  if (step.op != Scalar::add || std::min(step.args[0], step.args[1]) != 0 || other == 0 || other >= epilogue.inputs)
    return false;
  for (size_t s = 1; s < epilogue.steps.size(); ++s)
    for (int a = 0; a < arity_of(epilogue.steps[s].op); ++a)
      if (epilogue.steps[s].args[size_t(a)] == 0) return false;
  const size_t spatial = graph.type(node.outputs[0]).shape.size() - 2;
  const Shape& shape = graph.type(node.inputs[size_t(other) + 1]).shape;
  return shape.size() > spatial &&
         std::all_of(shape.end() - int64_t(spatial), shape.end(), [](const Dim& size) { return size == Dim(1); });
}

bool sink_resize(Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  const auto* op = node.op.get_if<ops::Conv>();
  if (!op || !graph.has_single_use(node.inputs[0])) return false;
  const Tensor* const weights = graph.constant(node.inputs[1]);
  const Node* const producer = graph.producer(node.inputs[0]);
  if (!weights || weights->dtype() != DType::f32 || graph.type(node.inputs[0]).dtype != DType::f32 || !producer ||
      !producer->op.is<ops::Concat>() || producer->op.get<ops::Concat>().axis != 1 ||
      !is_of_one_tap(*op, graph.type(node.inputs[1]).shape))
    return false;
  const Node joined = *producer;
  const int64_t columns = weights->dims()[0];
  std::vector<std::pair<Node, Channels>> enlarged;
  std::vector<ValueId> kept;
  std::vector<Channels> kept_channels;
  int64_t channel = 0;
  for (const ValueId input : joined.inputs) {
    const Dim& count = graph.type(input).shape[1];
    if (!count.is_constant()) return false;
    const Channels part{channel, count.value()};
    channel += part.count;
    if (const Node* resize = enlarging(graph, input, columns)) {
      enlarged.emplace_back(*resize, part);
    } else {
      kept.push_back(input);
      kept_channels.push_back(part);
    }
  }
  if (enlarged.empty() || kept.empty()) return false;

  ops::Conv plain = *op, rest = *op;
  plain.epilogue = {};
  rest.epilogue = with_addends(op->epilogue, int(enlarged.size()), begins_with_bias(graph, node, op->epilogue));
  std::vector<ValueId> inputs = node.inputs;
  const std::string name = graph.value(node.inputs[1]).name;
  for (size_t i = 0; i < enlarged.size(); ++i) {
    const auto& [resize, part] = enlarged[i];
    const ValueId own = graph.add_constant(concat(name, ".of", i), weights_of(*weights, {part})),
                  few = graph.add_single(plain, {resize.inputs[0], own}, concat(node.name, ".of", i));
    ops::Resize behind = resize.op.get<ops::Resize>();
    behind.sizes[1] = columns;
    inputs.push_back(graph.add_single(std::move(behind), {few}, resize.name));
  }
  inputs[0] = kept.size() == 1 ? kept[0] : graph.add_single(ops::Concat{1}, kept, joined.name);
  inputs[1] = graph.add_constant(concat(name, ".rest"), weights_of(*weights, kept_channels));
  graph.rewrite(node.outputs[0], std::move(rest), std::move(inputs), node.name);
  return true;
}

}  // namespace

bool sink_resizes(Graph& graph, const PassOptions& options) {
  bool changed = false;
  const int32_t count = graph.node_count();
  for (int32_t n = 0; n < count; ++n) {
    options.time.check_at(n);
    changed |= sink_resize(graph, {n});
  }
  return changed;
}

}  // namespace temper
