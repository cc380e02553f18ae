// SPDX-License-Identifier: Apache-2.0
// fold_quantization: what the quantize and dequantize nodes mean that commute_quantization and fold_quantized_products
// leave. Constants that are still quantized become floats, or weights in blocks where products of floats alone read
// them; pointwise nodes read and write the integers themselves, and what is left then becomes programs.
#include <algorithm>

#include "graph/ops/dequantize.h"
#include "graph/ops/dequantize_blocks.h"
#include "graph/ops/matmul.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/quantize.h"
#include "passes/pass.h"
#include "passes/support/quantized.h"

namespace temper {

namespace {

class QuantizationFolder {
 public:
  QuantizationFolder(Graph& graph, const BuildTime& time) : graph_(graph), time_(time) {}

  bool run() {
    bool changed = false;
    each([&](NodeId id) { changed |= fold_constant(id); });
    each([&](NodeId id) { changed |= absorb_into_pointwise(id); });
    each([&](NodeId id) { changed |= lower(id); });
    return changed;
  }

 private:
  Graph& graph_;
  const BuildTime& time_;

  template <class F>
  void each(F&& f) {
    const int32_t count = graph_.node_count();
    for (int32_t n = 0; n < count; ++n) {
      time_.check_at(n);
      const ValueId output = graph_.node({n}).outputs[0];
      if (!graph_.value(output).users.empty() || graph_.is_output(output)) f({n});
    }
  }
  bool is_quantization(NodeId id) const {
    const Op& op = graph_.node(id).op;
    return op.is<ops::Quantize, ops::Dequantize>();
  }

  // Weights of products alone stay integers, whose scales are those of one block, or of one for each row or column.
  bool keep_weights(NodeId id) {
    const Node node = graph_.node(id);
    const auto* op = node.op.get_if<ops::Dequantize>();
    if (!op || op->dtype != DType::f32) return false;
    const Tensor *x = graph_.constant(node.inputs[0]), *scale = graph_.constant(node.inputs[1]);
    if (!x || !scale || x->rank() != 2 || x->count() == 0 || size_of(x->dtype()) != 1 || !is_int(x->dtype()) ||
        scale->dtype() != DType::f32)
      return false;
    const Value& made = graph_.value(node.outputs[0]);
    for (NodeId user : made.users)
      if (const Node& product = graph_.node(user);
          !product.op.is<ops::MatMul>() || product.inputs[0] == node.outputs[0] ||
          product.inputs[1] != node.outputs[0] ||
          std::count(product.inputs.begin(), product.inputs.end(), node.outputs[0]) != 1)
        return false;
    if (graph_.is_output(node.outputs[0])) return false;
    ops::DequantizeBlocks blocks{x->dims()[0], x->dims()[1]};
    Dims dims{1, 1};
    if (scale->rank() == 1) {
      (op->axis == 0 ? blocks.block_rows : blocks.block_columns) = 1;
      dims[size_t(op->axis)] = scale->count();
    }
    std::vector<ValueId> inputs{node.inputs[0],
                                graph_.add_constant(graph_.value(node.inputs[1]).name, scale->reshaped(dims))};
    if (node.inputs.size() > 2 && node.inputs[2].valid()) {
      const Tensor* zero = graph_.constant(node.inputs[2]);
      if (!zero) return false;
      inputs.push_back(
          graph_.add_constant(graph_.value(node.inputs[2]).name, zero->converted(DType::f32).reshaped(dims)));
    }
    graph_.rewrite(node.outputs[0], blocks, std::move(inputs), node.name);
    return true;
  }

  bool fold_constant(NodeId id) {
    if (!is_quantization(id)) return false;
    if (keep_weights(id)) return true;
    const Node node = graph_.node(id);
    std::vector<Tensor> inputs;
    for (ValueId input : node.inputs) {
      if (input.valid() && !graph_.constant(input)) return false;
      inputs.push_back(input.valid() ? *graph_.constant(input) : Tensor());
    }
    const ValueId constant =
        graph_.add_constant(graph_.value(node.outputs[0]).name, run_node(node.op, inputs, node.name).at(0));
    graph_.replace(node.outputs[0], constant);
    graph_.swap_names(node.outputs[0], constant);
    return true;
  }

  // Reading integers is worth its few operations for each user: the floats need not be stored for any of them.
  bool absorb_into_pointwise(NodeId id) {
    const auto* op = graph_.node(id).op.get_if<ops::Pointwise>();
    if (!op) return false;
    const std::string name = graph_.node(id).name;
    ValueId output = graph_.node(id).outputs[0];
    const Shape shape = graph_.type(output).shape;
    BoundProgram bound{op->program, graph_.node(id).inputs};
    bool changed = false;
    for (size_t slot = 0; slot < bound.inputs.size(); ++slot) {
      const Value& value = graph_.value(bound.inputs[slot]);
      if (!value.producer.valid() || !graph_.node(value.producer).op.is<ops::Dequantize>() || value.type.shape != shape)
        continue;
      BoundProgram producer = program_of_quantization(graph_, value.producer);
      if (!fits(bound, producer)) continue;
      bound.program = splice(producer.program, bound.program, int(slot));
      bound.inputs.erase(bound.inputs.begin() + int64_t(slot));
      bound.inputs.insert(bound.inputs.end(), producer.inputs.begin(), producer.inputs.end());
      changed = true;
      --slot;
    }
    if (graph_.has_single_use(output))
      if (const NodeId user = graph_.value(output).users[0];
          graph_.node(user).op.is<ops::Quantize>() && graph_.node(user).inputs[0] == output) {
        BoundProgram consumer = program_of_quantization(graph_, user);
        if (!consumer.inputs.empty() && consumer.inputs[0] == output && fits(bound, consumer)) {
          consumer.program = splice(bound.program, consumer.program, 0);
          consumer.inputs.erase(consumer.inputs.begin());
          consumer.inputs.insert(consumer.inputs.end(), bound.inputs.begin(), bound.inputs.end());
          bound = std::move(consumer);
          output = graph_.node(user).outputs[0];
          changed = true;
        }
      }
    if (!changed) return false;
    tidy(graph_, bound);
    graph_.rewrite(output, ops::Pointwise{std::move(bound.program)}, std::move(bound.inputs), name);
    return true;
  }
  static bool fits(const BoundProgram& a, const BoundProgram& b) {
    return a.inputs.size() + b.inputs.size() <= size_t(kMaxProgramInputs) &&
           a.program.steps.size() + b.program.steps.size() <= kMaxProgramSteps;
  }

  bool lower(NodeId id) {
    if (!is_quantization(id)) return false;
    const std::string name = graph_.node(id).name;
    BoundProgram bound = program_of_quantization(graph_, id);
    graph_.rewrite(graph_.node(id).outputs[0], ops::Pointwise{std::move(bound.program)}, std::move(bound.inputs), name);
    return true;
  }
};

}  // namespace

bool fold_quantization(Graph& graph, const PassOptions& options) {
  return QuantizationFolder(graph, options.time).run();
}

}  // namespace temper
