// SPDX-License-Identifier: Apache-2.0
// fuse_pointwise: a pointwise node whose one user is a pointwise node of the same shape becomes part of that user's
// program. Every program is simplified on the way; constants of one element become steps of it.
//
// Not fused: a producer with another user or that is a graph output (it has to be stored anyway); a producer of a
// smaller shape that the consumer broadcasts (it would be computed again for each element); and a producer that
// fuse_epilogues will take into a convolution or matrix product: a residual sum of two normalised convolutions must not
// drag the normalisation of one into the epilogue of the other.
//
// A broadcast in front of a pointwise node is dropped where the other inputs give the shape: the node broadcasts by
// itself.
//
// What a node will take for certain waits for it, so that a chain becomes one program at its end in one step. Programs
// that grew node by node were simplified as often as they have steps.
#include <algorithm>
#include <span>
#include <utility>

#include "graph/ops/broadcast.h"
#include "graph/ops/pointwise.h"
#include "passes/pass.h"
#include "passes/support/simplify.h"

namespace temper {

namespace {

class Fuser {
 public:
  Fuser(Graph& graph, const BuildTime& time)
      : graph_(graph),
        time_(time),
        count_(graph.node_count()),
        taken_(size_t(graph.value_count()), 0),
        waiting_(size_t(graph.value_count())) {}

  bool run() {
    bool changed = false;
    for (int32_t n = 0; n < count_; ++n) {
      time_.check_at(n);
      if (graph_.node({n}).op.is<ops::Pointwise>() && is_alive(graph_.node({n}).outputs[0])) changed |= visit({n});
    }
    return changed;
  }

 private:
  Graph& graph_;
  const BuildTime& time_;
  const int32_t count_;      // of the nodes that are visited
  std::vector<char> taken_;  // by value: a pointwise result that will become part of an epilogue
  // By value: what its program has with those that wait before it; no steps: it waits for nobody.
  struct Size {
    size_t steps = 0, inputs = 0;
  };
  std::vector<Size> waiting_;

  bool is_alive(ValueId id) const { return !graph_.value(id).users.empty() || graph_.is_output(id); }

  bool used_only_by(ValueId id, const std::vector<NodeId>& nodes) const {
    if (graph_.is_output(id)) return false;
    const auto& users = graph_.value(id).users;
    return std::all_of(users.begin(), users.end(),
                       [&](NodeId user) { return std::find(nodes.begin(), nodes.end(), user) != nodes.end(); });
  }

  bool has_epilogue(ValueId id) const {
    const Node* producer = graph_.producer(id);
    return producer && epilogue_of(producer->op) != nullptr;
  }

  // Equal but for leading axes of size 1: broadcasting in two steps is broadcasting in one.
  static bool same_elements(const Shape& from, const Shape& to) {
    if (from.size() > to.size()) return false;
    const auto skip = int64_t(to.size() - from.size());
    return std::equal(from.begin(), from.end(), to.begin() + skip) &&
           std::all_of(to.begin(), to.begin() + skip, [](const Dim& dim) { return dim == Dim(1); });
  }

  // Programs of one step that read all their inputs and that tidy() leaves as they are: most nodes of a long model are
  // alike.
  struct Tidy {
    Program program;
    std::vector<DType> inputs;
  };
  static constexpr size_t kMostTidy = 64;
  std::vector<Tidy> tidy_;

  void remember_tidy(const BoundProgram& bound) {
    const Program& program = bound.program;
    if (program.steps.size() != 1 || tidy_.size() >= kMostTidy) return;
    const auto& args = program.steps[0].args;
    for (int i = 0; i < program.inputs; ++i)
      if (std::ranges::find(args, i) == args.end()) return;
    tidy_.push_back({program, bound.dtypes(graph_)});
  }
  // Whether visit() would find nothing to do before it looks for producers.
  bool is_known_as_tidy(const Node& node, const Program& program) const {
    if (program.steps.size() != 1) return false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Value& value = graph_.value(node.inputs[i]);
      if (value.constant && value.constant->count() == 1) return false;
      if (value.producer.valid() && graph_.node(value.producer).op.is<ops::Broadcast>()) return false;
      if (std::find(node.inputs.begin(), node.inputs.begin() + int64_t(i), node.inputs[i]) !=
          node.inputs.begin() + int64_t(i))
        return false;
    }
    return std::ranges::any_of(tidy_, [&](const Tidy& known) {
      return known.program == program &&
             std::ranges::equal(known.inputs, node.inputs, {}, {}, [&](ValueId id) { return graph_.type(id).dtype; });
    });
  }

  bool visit(NodeId id) {
    const Node& node = graph_.node(id);
    const ValueId output = node.outputs[0];
    const bool known_as_tidy = is_known_as_tidy(node, node.op.get<ops::Pointwise>().program);
    if (known_as_tidy) {
      const std::span<const ValueId> inputs(node.inputs.begin(), node.inputs.end());
      const Size size = size_with_waiting(1, inputs);
      if (waits_for_user(output, inputs, size)) {
        waiting_[size_t(output.index)] = size;
        return false;
      }
    }
    const TensorType type = graph_.type(output);
    BoundProgram bound{node.op.get<ops::Pointwise>().program, node.inputs};
    const BoundProgram original = bound;
    std::vector<NodeId> fused{id};
    drop_broadcasts(bound, type.shape);
    tidy(graph_, bound);
    if (!known_as_tidy && bound.program == original.program && bound.inputs == original.inputs) remember_tidy(bound);
    const Size size = size_with_waiting(bound.program.steps.size(), bound.inputs);
    const bool waits = waits_for_user(output, bound.inputs, size);
    while (!waits && take_producers(bound, fused, type)) tidy(graph_, bound);
    if (bound.program == original.program && bound.inputs == original.inputs) {
      if (waits) waiting_[size_t(output.index)] = size;
      else note(output, fused);
      return false;
    }
    if (bound.program.is_identity() && bound.inputs.size() == 1 && graph_.type(bound.inputs[0]) == type) {
      graph_.replace(output, bound.inputs[0]);
      return true;
    }
    ops::Pointwise op{std::move(bound.program)};
    const ValueId result =
        graph_.rewrite(output, std::move(op), std::move(bound.inputs), std::string(graph_.node(id).name));
    taken_.resize(size_t(graph_.value_count()), 0);
    waiting_.resize(size_t(graph_.value_count()));
    if (waits) waiting_[size_t(result.index)] = size;
    else note(result, {graph_.value(result).producer});
    return true;
  }

  Size waiting(ValueId id) const { return waiting_[size_t(id.index)]; }

  Size size_with_waiting(size_t steps, std::span<const ValueId> inputs) const {
    Size size{steps, 0};
    for (ValueId input : inputs) {
      size.steps += waiting(input).steps;
      size.inputs += std::max<size_t>(1, waiting(input).inputs);
    }
    return size;
  }

  // Will the one user of `output` take it whatever happens until then? Not where it may become part of an epilogue,
  // which decides what the user takes.
  bool waits_for_user(ValueId output, std::span<const ValueId> inputs, const Size& size) const {
    const auto& users = graph_.value(output).users;
    if (users.empty() || users[0].index >= count_ || size.steps == 0 || !used_only_by(output, {users[0]})) return false;
    const Node& user = graph_.node(users[0]);
    const auto* next = user.op.get_if<ops::Pointwise>();
    if (!next || graph_.type(user.outputs[0]).shape != graph_.type(output).shape || !is_alive(user.outputs[0]))
      return false;
    Size with{size.steps + next->program.steps.size(), size.inputs + user.inputs.size()};
    for (ValueId input : user.inputs) {
      if (input == output) continue;
      with.steps += waiting(input).steps;
      with.inputs += waiting(input).inputs;
    }
    if (with.steps > kMaxProgramSteps || with.inputs >= size_t(kMaxProgramInputs)) return false;
    return std::ranges::none_of(inputs,
                                [&](ValueId input) { return has_epilogue(input) || taken_[size_t(input.index)]; });
  }

  void drop_broadcasts(BoundProgram& bound, const Shape& shape) const {
    for (ValueId& input : bound.inputs) {
      const Node* producer = graph_.producer(input);
      if (!producer || !producer->op.is<ops::Broadcast>() || producer->inputs.size() != 1) continue;
      const ValueId wide = std::exchange(input, producer->inputs[0]);
      if (broadcast_shape(graph_, bound.inputs) != shape) input = wide;
    }
  }

  // All that fit, without tidying in between, but for those that are read twice by now: they are to be one input first.
  // Those that wait come first: there is room for them.
  bool take_producers(BoundProgram& bound, std::vector<NodeId>& fused, const TensorType& type) const {
    bool took = false;
    for (const bool waiting : {true, false})
      while (take_one_producer(bound, fused, type, waiting)) took = true;
    return took;
  }

  bool take_one_producer(BoundProgram& bound, std::vector<NodeId>& fused, const TensorType& type,
                         bool that_waits) const {
    for (size_t slot = 0; slot < bound.inputs.size(); ++slot) {
      const ValueId input = bound.inputs[slot];
      if ((that_waits && waiting(input).steps == 0) || std::ranges::count(bound.inputs, input) > 1) continue;
      const Node* producer = graph_.producer(input);
      if (!producer || taken_.at(size_t(input.index)) || !same_elements(graph_.type(input).shape, type.shape)) continue;
      const auto* pointwise = producer->op.get_if<ops::Pointwise>();
      if (!pointwise || !used_only_by(input, fused)) continue;
      const Program& program = pointwise->program;
      if (bound.inputs.size() + producer->inputs.size() > size_t(kMaxProgramInputs) ||
          bound.program.steps.size() + program.steps.size() > kMaxProgramSteps)
        continue;
      BoundProgram next{splice(program, bound.program, int(slot)), bound.inputs};
      next.inputs.erase(next.inputs.begin() + int64_t(slot));
      next.inputs.insert(next.inputs.end(), producer->inputs.begin(), producer->inputs.end());
      // Numbers broadcast in two steps as in one; of open dimensions it may not be known that they do.
      if (!type.is_concrete() && broadcast_shape(graph_, next.inputs) != broadcast_shape(graph_, bound.inputs))
        continue;
      fused.push_back(graph_.value(input).producer);
      bound = std::move(next);
      return true;
    }
    return false;
  }

  // Will fuse_epilogues take the node that gives `result`? It does so with whatever is the one user of a convolution,
  // or of what it has taken already, and keeps the shape.
  void note(ValueId result, const std::vector<NodeId>& node) {
    for (ValueId input : graph_.producer(result)->inputs)
      if ((has_epilogue(input) || taken_[size_t(input.index)]) &&
          graph_.type(input).shape == graph_.type(result).shape && used_only_by(input, node))
        taken_[size_t(result.index)] = 1;
  }
};

}  // namespace

bool fuse_pointwise(Graph& graph, const PassOptions& options) { return Fuser(graph, options.time).run(); }

}  // namespace temper
