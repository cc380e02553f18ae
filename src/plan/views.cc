// SPDX-License-Identifier: Apache-2.0
#include "plan/views.h"

#include <algorithm>

#include "graph/ops/transpose.h"
#include "plan/place.h"
#include "plan/view_layouts.h"

namespace temper {

bool Views::is_view(NodeId id) const {
  if (!id.valid()) return false;
  const Node& node = graph_.node(id);
  return is_always_view(node) || (node.op.is<ops::Transpose>() && !choices_[size_t(id.index)].chosen.tactic);
}

ValueId Views::root(ValueId id) const {
  while (is_view(graph_.value(id).producer)) id = graph_.producer(id)->inputs[0];
  return id;
}

Layout Views::layout_of(ValueId id) const {
  const Node* node = graph_.producer(id);
  if (!node) return Layout::plain;
  const size_t output = size_t(std::find(node->outputs.begin(), node->outputs.end(), id) - node->outputs.begin());
  return config(graph_.value(id).producer).outputs[output];
}

std::optional<Layout> Views::root_layout(ValueId id, Layout layout) const {
  while (same_memory(graph_.type(id).dims(), layout_of(id), layout)) {
    const NodeId producer = graph_.value(id).producer;
    if (!is_view(producer)) return layout;
    id = graph_.node(producer).inputs[0];
    layout = config(producer).inputs[0];
  }
  return {};
}

bool Views::keeps_rows(ValueId id, Layout layout) const {
  const auto at_root = root_layout(id, layout);
  if (!at_root) return false;
  const Dims dims = graph_.type(id).dims(), root_dims = graph_.type(root(id)).dims();
  return !dims.empty() && !root_dims.empty() && row_of(dims, layout) == row_of(root_dims, *at_root);
}

}  // namespace temper
