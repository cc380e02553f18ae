// SPDX-License-Identifier: Apache-2.0
// remove_no_ops: nodes that give back their input (a slice of everything, a pad of nothing, a concat of one, ...),
// reshapes of reshapes, and gathers that are reshapes: exporters index masks by all of their positions.
#include <numeric>

#include "graph/ops/gather.h"
#include "graph/ops/reshape.h"
#include "passes/pass.h"

namespace temper {

// Whether there is an element for each index of a gather; an error where it runs says which one has none.
static bool all_exist(const ops::Gather& gather, const Dims& x, const Tensor& indices) {
  const bool positions = gather.kind == ops::GatherKind::nd;
  const int64_t each = positions ? indices.dims().back() : 1, first = positions ? gather.batch_dims : gather.axis;
  const std::vector<double> all = indices.to_doubles();
  for (size_t i = 0; i < all.size(); ++i) {
    const auto size = double(x[size_t(first + int64_t(i) % each)]);
    if (all[i] < -size || all[i] >= size) return false;
  }
  return true;
}

// Whether constant indices pick all elements in the order in which they lie.
static bool picks_all_in_order(const Graph& graph, const Node& node) {
  constexpr int64_t kMostElements = 1 << 22;  // they are picked here, to see
  const auto* gather = node.op.get_if<ops::Gather>();
  const Tensor* indices = gather ? graph.constant(node.inputs[1]) : nullptr;
  if (!indices) return false;
  const TensorType &x = graph.type(node.inputs[0]), &out = graph.type(node.outputs[0]);
  if (!x.is_concrete() || !out.is_concrete() || element_count(x.dims()) != element_count(out.dims()) ||
      element_count(x.dims()) > kMostElements || !all_exist(*gather, x.dims(), *indices))
    return false;
  Tensor places(DType::i64, x.dims());
  std::iota(places.data<int64_t>(), places.data<int64_t>() + places.count(), int64_t(0));
  const TensorType type{DType::i64, out.shape};
  const Tensor picked = gather->reference(std::vector<Tensor>{places, *indices}, std::span(&type, 1))[0];
  return picked.reshaped(x.dims()).same_bits(places);
}

bool remove_no_ops(Graph& graph, const PassOptions& options) {
  bool changed = false;
  const int32_t count = graph.node_count();
  for (int32_t n = 0; n < count; ++n) {
    options.time.check_at(n);
    const Node& node = graph.node({n});
    if (picks_all_in_order(graph, node)) {
      const ValueId x = node.inputs[0], picked = node.outputs[0];
      if (graph.type(x) == graph.type(picked)) graph.replace(picked, x);
      else graph.rewrite(picked, ops::Reshape{graph.type(picked).shape}, {x}, std::string(node.name));
      changed = true;
      continue;
    }
    if (node.outputs.size() != 1 || node.inputs.empty() || !node.inputs[0].valid() ||
        !is_no_op(node.op, graph.type(node.inputs[0]), node.inputs.size()))
      continue;
    const ValueId output = node.outputs[0];
    const bool is_reshape = node.op.is<ops::Reshape>();
    // Behind reshapes lies the value whose elements these are. Those that do not depend on data are one by now, so that
    // more than a few are not looked through.
    constexpr int kMany = 16;
    ValueId source = node.inputs[0];
    for (int i = 0; i < kMany; ++i) {
      const Node* before = graph.producer(source);
      if (!before || !before->op.is<ops::Reshape>() || !before->inputs[0].valid()) break;
      source = before->inputs[0];
      if (graph.type(source) == graph.type(output)) break;
    }
    if (graph.type(source) == graph.type(output)) {
      graph.replace(output, source);
      changed = true;
      continue;
    }
    if (is_reshape && source == node.inputs[0]) continue;
    // A target that depends on data has dimensions that only its own node can name.
    if (is_reshape && node.inputs.size() > 1) continue;
    ops::Reshape reshape;
    reshape.shape = graph.type(output).shape;
    graph.rewrite(output, reshape, {source}, std::string(node.name));
    changed = true;
  }
  return changed;
}

}  // namespace temper
