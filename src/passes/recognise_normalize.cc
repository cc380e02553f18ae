// SPDX-License-Identifier: Apache-2.0
// recognise_normalize: (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon), and x / sqrt(mean(x^2) + epsilon),
// written out in reductions and arithmetic, become the normalize op. Scale and shift stay in the pointwise node they
// are in. It reads programs in the form that fuse_pointwise leaves: squares are mul(d, d), constants are steps, and
// each of the parts below is a node of its own, because it has two users or a smaller shape than its consumer.
#include <algorithm>

#include "graph/ops/normalize.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/reduce.h"
#include "passes/pass.h"
#include "passes/support/simplify.h"

namespace temper {

namespace {

using ops::Reduce;

struct Found {
  ValueId x;
  ops::Normalize op;
};

class Matcher {
 public:
  explicit Matcher(const Graph& graph) : graph_(graph) {}

  // Is `numerator` / `divisor`, or where `inverse` numerator * divisor, a normalisation?
  std::optional<Found> match(ValueId numerator, ValueId divisor, bool inverse) const {
    double epsilon = 0;
    const auto variance = root_of_sum(divisor, inverse, epsilon);
    if (!variance) return std::nullopt;
    const Reduce* mean = mean_of(*variance);
    if (!mean) return std::nullopt;
    const ValueId squares = graph_.producer(*variance)->inputs[0];
    const auto squared = square_of(squares);
    if (!squared || *squared != numerator) return std::nullopt;
    Found found{numerator, {mean->axes, epsilon, false}};
    if (const auto x = centered_by_mean(numerator, mean->axes)) {
      found.x = *x;
      found.op.center = true;
    }
    if (!is_float(graph_.type(found.x).dtype) || graph_.type(found.x) != graph_.type(numerator)) return std::nullopt;
    return found;
  }

 private:
  const Graph& graph_;

  const Program* program_of(ValueId id) const {
    const Node* producer = graph_.producer(id);
    const auto* op = producer ? producer->op.get_if<ops::Pointwise>() : nullptr;
    return op ? &op->program : nullptr;
  }

  const Reduce* mean_of(ValueId id) const {
    const Node* producer = graph_.producer(id);
    const auto* op = producer ? producer->op.get_if<Reduce>() : nullptr;
    if (!op || producer->inputs.size() != 1) return nullptr;  // with a second input the axes are data
    return op->kind == ops::ReduceKind::mean && op->keepdims && !op->axes.empty() ? op : nullptr;
  }

  // v where `id` is sqrt(v + epsilon), or its reciprocal.
  std::optional<ValueId> root_of_sum(ValueId id, bool inverse, double& epsilon) const {
    const Program* p = program_of(id);
    if (!p || p->inputs != 1 || p->steps.size() < 3 || p->steps.size() > 5) return std::nullopt;
    const auto& s = p->steps;
    if (s[0].op != Scalar::constant || s[1].op != Scalar::add || s[1].args[0] != 0 || s[1].args[1] != 1)
      return std::nullopt;
    epsilon = s[0].number;
    bool matches = false;
    if (s[2].op == Scalar::sqrt && s[2].args[0] == 2) {
      if (s.size() == 3) matches = !inverse;
      else if (s.size() == 4) matches = inverse && s[3].op == Scalar::reciprocal && s[3].args[0] == 3;
      else
        matches = inverse && s[3].op == Scalar::constant && s[3].number == 1 && s[4].op == Scalar::div &&
                  s[4].args[0] == 4 && s[4].args[1] == 3;
    } else if (s.size() == 4 && s[2].op == Scalar::constant && s[3].op == Scalar::pow && s[3].args[0] == 2 &&
               s[3].args[1] == 3) {
      matches = s[2].number == (inverse ? -0.5 : 0.5);
    }
    if (!matches || !(epsilon >= 0)) return std::nullopt;
    return graph_.producer(id)->inputs[0];
  }

  // d where `id` is d * d.
  std::optional<ValueId> square_of(ValueId id) const {
    const Program* p = program_of(id);
    if (!p || p->inputs != 1) return std::nullopt;
    const auto& s = p->steps;
    const bool product = s.size() == 1 && s[0].op == Scalar::mul && s[0].args[0] == 0 && s[0].args[1] == 0;
    const bool power = s.size() == 2 && s[0].op == Scalar::constant && s[0].number == 2 && s[1].op == Scalar::pow &&
                       s[1].args[0] == 0 && s[1].args[1] == 1;
    if (!product && !power) return std::nullopt;
    return graph_.producer(id)->inputs[0];
  }

  // x where `id` is x - mean(x) over `axes`.
  std::optional<ValueId> centered_by_mean(ValueId id, const std::vector<int64_t>& axes) const {
    const Program* p = program_of(id);
    if (!p || p->inputs != 2 || p->steps.size() != 1 || p->steps[0].op != Scalar::sub) return std::nullopt;
    const auto& inputs = graph_.producer(id)->inputs;
    const ValueId x = inputs[size_t(p->steps[0].args[0])], m = inputs[size_t(p->steps[0].args[1])];
    const Reduce* mean = mean_of(m);
    if (!mean || mean->axes != axes || graph_.producer(m)->inputs[0] != x) return std::nullopt;
    return x;
  }
};

bool recognise_rows(Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  BoundProgram bound{node.op.get<ops::Pointwise>().program, node.inputs};
  for (size_t i = 0; i < bound.program.steps.size(); ++i) {
    const Step step = bound.program.steps[i];
    const bool product = step.op == Scalar::mul;
    if ((!product && step.op != Scalar::div) || std::max(step.args[0], step.args[1]) >= bound.program.inputs) continue;
    std::optional<Found> found;
    for (int first : {0, 1}) {
      if (first == 1 && !product) break;
      found = Matcher(graph).match(bound.inputs[size_t(step.args[size_t(first)])],
                                   bound.inputs[size_t(step.args[size_t(1 - first)])], product);
      if (found) break;
    }
    if (!found) continue;
    const ValueId normalized = graph.add_single(found->op, {found->x}, concat(node.name, ".normalized"));
    // The step becomes the new input, which stands first: a cast to its own dtype goes when the program is simplified.
    std::vector<int> shifted;
    for (int k = 1; k <= bound.program.inputs; ++k) shifted.push_back(k);
    bound.program = remap_inputs(bound.program, shifted, bound.program.inputs + 1);
    bound.program.steps[i] = {Scalar::cast, step.dtype, {0, -1, -1}};
    bound.inputs.insert(bound.inputs.begin(), normalized);
    tidy(graph, bound);
    const ValueId output = node.outputs[0];
    if (bound.program.is_identity() && bound.inputs.size() == 1 && graph.type(bound.inputs[0]) == graph.type(output)) {
      graph.replace(output, bound.inputs[0]);
      graph.swap_names(output, bound.inputs[0]);
      return true;
    }
    ops::Pointwise op{std::move(bound.program)};
    graph.rewrite(output, std::move(op), std::move(bound.inputs), node.name);
    return true;
  }
  return false;
}

}  // namespace

bool recognise_normalize(Graph& graph, const PassOptions& options) {
  bool changed = false;
  const int32_t count = graph.node_count();
  for (int32_t n = 0; n < count; ++n) {
    options.time.check_at(n);
    if (graph.node({n}).op.is<ops::Pointwise>()) changed |= recognise_rows(graph, {n});
  }
  return changed;
}

}  // namespace temper
