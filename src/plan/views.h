// SPDX-License-Identifier: Apache-2.0
// Views: nodes that only say otherwise how the bytes of their input are read (view_layouts.h), so that they take no
// step and no memory.
#pragma once
#include <optional>
#include <vector>

#include "plan/choose.h"

namespace temper {

// The views of a graph for which a candidate was chosen for each node.
class Views {
 public:
  Views(const Graph& graph, const std::vector<NodeChoice>& choices) : graph_(graph), choices_(choices) {}

  bool is_view(NodeId id) const;
  // The value that the views which make `id` begin at; itself where no view makes it.
  ValueId root(ValueId id) const;
  // The layout that a value has in memory; of a view: that in which it shows the bytes of its input.
  Layout layout_of(ValueId id) const;
  // The layout of the root in which it holds the bytes of `id` in `layout`, so that reading one as the other needs no
  // reorder anywhere in between; nothing where it does not. The root may be stored in another one with the same bytes.
  std::optional<Layout> root_layout(ValueId id, Layout layout) const;
  // Whether also the rows (layout.h) of the root in that layout are those of `id`.
  bool keeps_rows(ValueId id, Layout layout) const;

 private:
  const Graph& graph_;
  const std::vector<NodeChoice>& choices_;

  const Config& config(NodeId id) const { return choices_[size_t(id.index)].chosen.config; }
};

}  // namespace temper
