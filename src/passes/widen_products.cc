// SPDX-License-Identifier: Apache-2.0
// widen_products: matrix products and convolutions of floats that a device does not multiply (f8e4m3fn before sm_89,
// f16 on CPUs) become those of f32, and so do recurrent nets of 16 bits, which no kernel computes. Narrower numbers are
// exact in f32 and products are summed in f32 anyway, so that nothing but the order of sums differs: constants are
// converted, and what is computed is still rounded before. A recurrent net rounds its results, no more each step's.
#include <algorithm>
#include <map>

#include "base/half.h"
#include "graph/ops/conv.h"
#include "graph/ops/conv_transpose.h"
#include "graph/ops/matmul.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/recurrent.h"
#include "passes/pass.h"
#include "passes/support/simplify.h"

namespace temper {

namespace {

ops::Pointwise cast_to(DType dtype) {
  Program cast;
  cast.push({Scalar::cast, dtype, {0, -1, -1}});
  return ops::Pointwise{cast};
}

class Widening {
 public:
  Widening(Graph& graph, const std::set<DType>& narrow) : graph_(graph), narrow_(narrow) {}

  bool visit(NodeId id) {
    const Node node = graph_.node(id);  // nodes are added
    if (std::ranges::none_of(node.outputs, [&](ValueId value) { return is_used(value); })) return false;
    const bool is_recurrent = node.op.is<ops::Recurrent>();
    if (!is_recurrent && !node.op.is<ops::MatMul>() && !node.op.is<ops::Conv>() && !node.op.is<ops::ConvTranspose>())
      return false;
    const DType dtype = graph_.type(node.inputs[0]).dtype;
    if (is_recurrent) return is_half(dtype) && visit_recurrent(node, dtype);
    if (!narrow_.contains(dtype)) return false;
    std::vector<ValueId> inputs = node.inputs;
    for (size_t i : {0, 1}) inputs[i] = widened(inputs[i]);
    Op op = node.op;
    // The others' epilogues begin in f32 as they are.
    if (op.is<ops::ConvTranspose>()) *epilogue_of(op) = behind_cast(*epilogue_of(op), dtype);
    graph_.rewrite(node.outputs[0], std::move(op), std::move(inputs), node.name);
    return true;
  }

 private:
  Graph& graph_;
  const std::set<DType>& narrow_;
  std::map<int32_t, ValueId> wide_;  // by value

  bool is_used(ValueId id) const { return !graph_.value(id).users.empty() || graph_.is_output(id); }

  ValueId widened(ValueId id) {
    ValueId& known = wide_[id.index];
    if (known.valid()) return known;
    const std::string name = concat(graph_.value(id).name, "/f32");
    if (const Tensor* constant = graph_.constant(id))
      return known = graph_.add_constant(name, constant->converted(DType::f32));
    return known = graph_.add_single(cast_to(DType::f32), {id}, name);
  }

  bool visit_recurrent(const Node& node, DType dtype) {
    std::vector<ValueId> inputs = node.inputs;
    for (ValueId& input : inputs)
      if (input.valid() && graph_.type(input).dtype == dtype) input = widened(input);
    const std::vector<ValueId> wide = graph_.add(node.op, std::move(inputs), node.name);
    for (size_t i = 0; i < wide.size(); ++i) {
      if (!is_used(node.outputs[i])) continue;
      const std::string name = graph_.value(node.outputs[i]).name;
      const ValueId narrow = graph_.add_single(cast_to(dtype), {wide[i]}, name);
      graph_.swap_names(node.outputs[i], narrow);
      graph_.replace(node.outputs[i], narrow);
    }
    return true;
  }
};

}  // namespace

bool widen_products(Graph& graph, const std::set<DType>& narrow, const PassOptions& options) {
  Widening widening(graph, narrow);
  bool changed = false;
  const int32_t count = graph.node_count();
  for (int32_t n = 0; n < count; ++n) {
    options.time.check_at(n);
    changed |= widening.visit({n});
  }
  return changed;
}

}  // namespace temper
