// SPDX-License-Identifier: Apache-2.0
// fold_constants: a node whose inputs are all constants is computed now, by its reference; an integer value whose
// elements follow from known shapes becomes a constant; sizes that are known by now become fields.
#include <algorithm>

#include "base/checked.h"
#include "graph/ops/dequantize.h"
#include "graph/ops/dequantize_blocks.h"
#include "passes/pass.h"

namespace temper {

namespace {

// A folded value may be this large, or have as many bytes or elements as the constants it comes from: a broadcast of
// one number to gigabytes is better made when it is needed. Weights in 16 bits that a cast makes f32 become constants
// however large they are, so that a product of them is one with constant weights.
constexpr int64_t kMaxFoldedBytes = int64_t(64) << 20;
// Scalar steps that folding one node may cost (about a second); what takes more is left to the real kernels.
constexpr double kMaxFoldedWork = 1e9;

double work_of(const Graph& graph, const Node& node) {
  std::vector<TensorType> inputs, outputs;
  for (ValueId id : node.inputs) inputs.push_back(id.valid() ? graph.type(id) : TensorType{});
  for (ValueId id : node.outputs) outputs.push_back(graph.type(id));
  return reference_cost(node.op, inputs, outputs);
}

// `left`: bytes that constants may take; what a node makes is taken off.
bool may_fold(const Graph& graph, const Node& node, int64_t& left) {
  if (node.inputs.empty()) return false;  // its fields say it in fewer bytes
  // 8-bit weights stay that until fold_quantization has found the products that take them so.
  if (node.op.is<ops::Dequantize>() && size_of(graph.type(node.inputs[0]).dtype) == 1) return false;
  // Those in blocks until a device's tactics have been asked: see fold_blocks.
  if (node.op.is<ops::DequantizeBlocks>()) return false;
  int64_t given = 0, given_elements = 0, made = 0, made_elements = 0;
  for (ValueId input : node.inputs) {
    if (!input.valid()) continue;
    if (!graph.constant(input)) return false;
    given += graph.constant(input)->bytes();
    given_elements += graph.constant(input)->count();
  }
  for (ValueId output : node.outputs) {
    const TensorType& type = graph.type(output);
    if (!type.is_concrete() || type.dtype == DType::string) return false;  // strings are no constants
    made += byte_count(type.dtype, type.dims());
    made_elements += element_count(type.dims());
  }
  const bool is_large = made > std::max(given, kMaxFoldedBytes) && made_elements > given_elements;
  if (is_large || made > left || work_of(graph, node) > kMaxFoldedWork) return false;
  left -= made;
  return true;
}

void put_constant(Graph& graph, ValueId value, Tensor tensor) {
  const ValueId constant = graph.add_constant(graph.value(value).name, std::move(tensor));
  graph.replace(value, constant);
  graph.swap_names(value, constant);
}

std::optional<Tensor> known_integers(const Value& value) {
  if (value.constant || !value.contents || !value.type.is_concrete() || !is_int(value.type.dtype)) return std::nullopt;
  std::vector<int64_t> ints;
  for (const Dim& dim : *value.contents) {
    if (!dim.is_constant()) return std::nullopt;
    ints.push_back(dim.value());
  }
  return Tensor::of<int64_t>(value.type.dims(), ints).converted(value.type.dtype);
}

bool give_known_sizes(Graph& graph, const Node& node) {
  Op op = node.op;
  const std::vector<Operand> operands = operands_of(graph, node.inputs);
  const InferContext context(operands, node.name);
  const auto left = absorb(op, context);
  if (!left || node.outputs.size() != 1) return false;
  // A type that is out of date has to be inferred again first, with all that follows.
  if (infer(node.op, context)[0] != graph.type(node.outputs[0])) return false;
  graph.rewrite(node.outputs[0], std::move(op), {node.inputs.begin(), node.inputs.begin() + int64_t(*left)},
                std::string(node.name));
  return true;
}

bool fold_once(Graph& graph, int64_t& left, const BuildTime& time) {
  bool changed = false;
  const int32_t count = graph.node_count();
  for (int32_t n = 0; n < count; ++n) {
    time.check_at(n);
    const Node node = graph.node({n});
    if (may_fold(graph, node, left)) {
      time.check();
      std::vector<Tensor> inputs;
      for (ValueId input : node.inputs) inputs.push_back(input.valid() ? *graph.constant(input) : Tensor());
      std::vector<Tensor> results = run_node(node.op, inputs, node.name);
      for (size_t i = 0; i < results.size(); ++i) put_constant(graph, node.outputs[i], std::move(results[i]));
      changed = true;
      continue;
    }
    for (ValueId output : node.outputs)
      if (auto integers = known_integers(graph.value(output))) {
        put_constant(graph, output, std::move(*integers));
        changed = true;
      }
    changed |= give_known_sizes(graph, node);
  }
  return changed;
}

// A size that was data may be a constant now, which tells types that were unknown.
bool types_are_stale(const Graph& graph) {
  for (int32_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.node({n});
    const auto types =
        with_context([&] { return concat(name_of(node.op), " '", node.name, "'"); },
                     [&] { return infer(node.op, InferContext(operands_of(graph, node.inputs), node.name)); });
    for (size_t i = 0; i < types.size(); ++i)
      if (graph.type(node.outputs[i]) != types[i]) return true;
  }
  return false;
}

}  // namespace

bool fold_constants(Graph& graph, const PassOptions& options) {
  bool changed = false;
  int64_t left = options.memory_limit;
  if (left < 0) {               // many small ones, too, are more than a file of some bytes should become
    left = int64_t(224) << 20;  // with the program itself, below 256 MiB
    for (int32_t i = 0; i < graph.value_count(); ++i)
      if (const Tensor* constant = graph.constant({i}))
        left = checked_add(left, checked_mul<int64_t>(16, constant->bytes()));
  }
  while (fold_once(graph, left, options.time)) {
    changed = true;
    graph.compact();
    if (!types_are_stale(graph)) break;
    graph = specialize(graph, {});
  }
  return changed;
}

}  // namespace temper
