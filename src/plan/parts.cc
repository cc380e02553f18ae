// SPDX-License-Identifier: Apache-2.0
#include "plan/parts.h"

#include <algorithm>

#include "graph/ops/concat.h"
#include "graph/ops/slice.h"
#include "plan/place.h"
#include "plan/views.h"

namespace temper {

namespace {

class PartFinder {
 public:
  PartFinder(const Graph& graph, std::vector<NodeChoice>& choices)
      : graph_(graph),
        choices_(choices),
        parts_(size_t(graph.value_count())),
        refused_by_(size_t(graph.value_count()), -1) {}

  // The last concat first: the pitch of a part is that of the whole, which is known by then where that is a part, too.
  std::vector<Part> run() {
    for (int32_t n = graph_.node_count(); n-- > 0;)
      if (const auto* op = graph_.node({n}).op.get_if<ops::Concat>()) place_inputs(n, size_t(op->axis));
    for (int32_t n = 0; n < graph_.node_count(); ++n)
      if (const auto* op = graph_.node({n}).op.get_if<ops::Slice>()) place_slice(n, *op);
    return std::move(parts_);
  }

 private:
  const Graph& graph_;
  std::vector<NodeChoice>& choices_;
  const Views views_{graph_, choices_};
  std::vector<Part> parts_;
  std::vector<int32_t> refused_by_;  // by value: the concat that it was found not to fit, as output or for its pitch;
                                     // it may be its input many times

  NodeChoice& choice(NodeId node) { return choices_[size_t(node.index)]; }
  // The port of the node that makes the value, and its layout.
  std::pair<Port*, Layout> made_at(ValueId id) {
    const NodeId producer = graph_.value(id).producer;
    const Node& node = graph_.node(producer);
    size_t o = 0;
    while (node.outputs[o] != id) ++o;
    return {&choice(producer).problem.outputs[o], choice(producer).chosen.config.outputs[o]};
  }
  bool takes(NodeId node) {
    const NodeChoice& c = choice(node);
    return c.chosen.tactic->takes(c.problem, c.chosen.config);
  }

  void place_inputs(int32_t n, size_t axis) {
    int64_t position = 0;
    for (size_t i = 0; i < graph_.node({n}).inputs.size(); ++i) {
      place(n, i, axis, position);
      position += graph_.type(graph_.node({n}).inputs[i]).dims()[axis];
    }
  }

  // Input i of the concat `n`, which begins at `position` along the axis.
  void place(int32_t n, size_t i, size_t axis, int64_t position) {
    const Node& node = graph_.node({n});
    NodeChoice& concat_choice = choices_[size_t(n)];
    const Port& whole = concat_choice.problem.outputs[0];
    const Layout layout = concat_choice.chosen.config.outputs[0];
    const Dims input = graph_.type(node.inputs[i]).dims();
    const ValueId id = views_.root(node.inputs[i]);
    int32_t& refused_by = refused_by_[size_t(id.index)];
    if (!graph_.producer(id) || parts_[size_t(id.index)].whole.valid() || refused_by == n) return;
    if (is_output(id)) return void(refused_by = n);
    if (concat_choice.chosen.config.inputs[i] != layout) return;
    const auto place = place_in_whole(whole.type, input, axis, position, layout, whole.pitch);
    if (!place) return;
    const auto at_root = views_.root_layout(node.inputs[i], layout);
    if (!at_root) return;
    if (place->pitch) {
      if (made_at(id).second != *at_root || !views_.keeps_rows(node.inputs[i], layout) ||
          !give_pitch(id, *at_root, place->pitch, n, i))
        return void(refused_by = n);
    } else {
      concat_choice.problem.inputs[i].in_place = true;
      if (!takes({n})) {
        concat_choice.problem.inputs[i].in_place = false;
        return;
      }
    }
    parts_[size_t(id.index)] = {node.outputs[0], place->offset};
  }

  void place_slice(int32_t n, const ops::Slice& op) {
    const Node& node = graph_.node({n});
    const ValueId id = node.outputs[0];
    NodeChoice& slice = choices_[size_t(n)];
    const Layout layout = slice.chosen.config.outputs[0];
    if (node.inputs.size() != 1 || parts_[size_t(id.index)].whole.valid() || is_output(id) ||
        slice.chosen.config.inputs[0] != layout)
      return;
    const TensorType& from = graph_.type(node.inputs[0]);
    const Dims whole = from.dims(), part = graph_.type(id).dims();
    size_t axis = whole.size();
    for (size_t a = 0; a < whole.size(); ++a) {
      if (op.steps[a] != 1 || (part[a] != whole[a] && axis < whole.size())) return;
      if (part[a] != whole[a]) axis = a;
    }
    if (axis == whole.size()) return;
    const ValueId root = views_.root(node.inputs[0]);
    if (!graph_.producer(root) || made_at(root).first->pitch || !views_.root_layout(node.inputs[0], layout)) return;
    const auto place = place_in_whole(from, part, axis, op.starts[axis].value(), layout, 0);
    if (!place || (place->pitch && !give_readers_pitch(id, layout, place->pitch))) return;
    made_at(id).first->pitch = place->pitch;
    parts_[size_t(id.index)] = {root, place->offset, true};
    slice.chosen.tactic = nullptr;
  }

  // To all ports that write or read the value; to none where one does not take it.
  bool give_pitch(ValueId id, Layout layout, int64_t pitch, int32_t n, size_t place) {
    Port& written = *made_at(id).first;
    bool& in_place = choices_[size_t(n)].problem.inputs[place].in_place;
    written.pitch = pitch;
    in_place = true;
    if (takes(graph_.value(id).producer) && give_readers_pitch(id, layout, pitch)) return true;
    written.pitch = 0;
    in_place = false;
    return false;
  }
  bool give_readers_pitch(ValueId id, Layout layout, int64_t pitch) {
    auto set = [&](int64_t to) {
      each_reader(id, layout, [&](NodeId user, size_t i, ValueId, Layout) {
        choice(user).problem.inputs[i].pitch = to;
        return true;
      });
    };
    const int64_t row = row_of(graph_.type(id).dims(), layout);
    set(pitch);
    const bool all = each_reader(id, layout, [&](NodeId user, size_t i, ValueId shown, Layout as) {
      const Dims dims = graph_.type(shown).dims();
      const Layout read = choice(user).chosen.config.inputs[i];
      return !dims.empty() && same_memory(dims, as, read) && row_of(dims, read) == row && takes(user);
    });
    if (!all) set(0);
    return all;
  }
  // Calls f(node, input, value, layout) for all that read the value, or a view of it, and says whether all answer true.
  // Its elements lie in memory as those of the value or view in that layout: where a row of what is read has as many
  // elements as a row of the value, both have the same rows.
  template <class F>
  bool each_reader(ValueId id, Layout layout, F&& f) {
    bool all = true;
    for (NodeId user : graph_.value(id).users) {
      const Node& node = graph_.node(user);
      if (views_.is_view(user)) {
        const Config& config = choice(user).chosen.config;
        all = config.inputs[0] == layout && each_reader(node.outputs[0], config.outputs[0], f) && all;
      } else {
        for (size_t i = 0; i < node.inputs.size(); ++i)
          if (node.inputs[i] == id) all = f(user, i, id, layout) && all;
      }
    }
    return all;
  }

  // The value, or a view of it, is an output of the graph.
  bool is_output(ValueId id) const {
    const Value& value = graph_.value(id);
    if (value.output_uses > 0) return true;
    for (NodeId user : value.users)
      if (views_.is_view(user) && is_output(graph_.node(user).outputs[0])) return true;
    return false;
  }
};

}  // namespace

std::vector<Part> find_parts(const Graph& graph, std::vector<NodeChoice>& choices) {
  return PartFinder(graph, choices).run();
}

bool copies_nothing(const Problem& problem) {
  return !problem.inputs.empty() && std::ranges::all_of(problem.inputs, &Port::in_place);
}

}  // namespace temper
