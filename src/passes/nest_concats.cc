// SPDX-License-Identifier: Apache-2.0
// nest_concats: a concat that begins with all that an earlier concat along its axis joins begins with that one's output
// instead, as where each layer reads all before it (DenseNet). It has less to copy then, or nothing: a plan may write
// the earlier output straight into the later one (plan/parts.h), but no value into two.
//
// What concats join is kept as paths in a tree, which begins anew for each axis: equal beginnings are one path, so that
// finding the longest costs a step for each value that is joined.
#include <algorithm>
#include <unordered_map>

#include "graph/ops/concat.h"
#include "passes/pass.h"

namespace temper {

namespace {

class Paths {
 public:
  struct Place {
    int32_t before = -1;  // in the path; -1 for its beginning
    ValueId value;
    int64_t length = 0;
    ValueId concat;  // the first that joins just this path; invalid: none
  };

  int32_t beginning(int64_t axis) {
    const auto [it, fresh] = beginnings_.try_emplace(axis, int32_t(places_.size()));
    if (fresh) places_.push_back({});
    return it->second;
  }
  int32_t behind(int32_t place, ValueId value) {
    const uint64_t key = uint64_t(uint32_t(place)) << 32 | uint32_t(value.index);
    const auto [it, fresh] = next_.try_emplace(key, int32_t(places_.size()));
    if (fresh) places_.push_back({place, value, places_[size_t(place)].length + 1, {}});
    return it->second;
  }
  Place& operator[](int32_t place) { return places_[size_t(place)]; }
  std::vector<ValueId> values(int32_t place) const {
    std::vector<ValueId> values;
    for (; places_[size_t(place)].before >= 0; place = places_[size_t(place)].before)
      values.push_back(places_[size_t(place)].value);
    std::reverse(values.begin(), values.end());
    return values;
  }

 private:
  std::vector<Place> places_;
  std::unordered_map<int64_t, int32_t> beginnings_;  // by axis
  std::unordered_map<uint64_t, int32_t> next_;
};

struct Joined {
  int64_t axis;
  int32_t path;
};

}  // namespace

bool nest_concats(Graph& graph, const PassOptions& options) {
  bool changed = false;
  Paths paths;
  std::unordered_map<int32_t, Joined> joined;  // by the concat's output
  const int32_t count = graph.node_count();
  // An input that is a concat counts as what that one joins. Where it is not the first, its values are walked once
  // more: as many in all as a model may have nodes; beyond, it counts as one value, which is as true and finds less.
  int64_t may_walk = 1'000'000;
  for (int32_t n = 0; n < count; ++n) {
    options.time.check_at(n);
    const auto* op = graph.node({n}).op.get_if<ops::Concat>();
    if (!op || (graph.value(graph.node({n}).outputs[0]).users.empty() && !graph.is_output(graph.node({n}).outputs[0])))
      continue;
    const int64_t axis = op->axis;
    const Node node = graph.node({n});
    int32_t path = paths.beginning(axis);
    ValueId longest;      // an earlier concat of what the first inputs join,
    size_t replaced = 0;  // and how many inputs these are
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      const auto inner = joined.find(input.index);
      const bool same_axis = inner != joined.end() && inner->second.axis == axis;
      if (same_axis && i == 0) path = inner->second.path;
      else if (same_axis && paths[inner->second.path].length <= may_walk) {
        may_walk -= paths[inner->second.path].length;
        for (ValueId value : paths.values(inner->second.path)) path = paths.behind(path, value);
      } else path = paths.behind(path, input);
      if (i > 0 && i + 1 < node.inputs.size() && paths[path].concat.valid())
        longest = paths[path].concat, replaced = i + 1;
    }
    ValueId made = node.outputs[0];
    if (longest.valid()) {
      std::vector<ValueId> inputs{longest};
      inputs.insert(inputs.end(), node.inputs.begin() + int64_t(replaced), node.inputs.end());
      made = graph.rewrite(made, ops::Concat{axis}, std::move(inputs), node.name);
      changed = true;
    }
    if (!paths[path].concat.valid()) paths[path].concat = made;
    joined[made.index] = {axis, path};
  }
  return changed;
}

}  // namespace temper
