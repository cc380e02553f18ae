// SPDX-License-Identifier: Apache-2.0
#include "passes/support/squares.h"

#include <optional>
#include <vector>

#include "graph/ops/pointwise.h"
#include "graph/ops/reduce.h"
#include "graph/product.h"

namespace temper {

namespace {

// What a value's users do with it in the end.
struct Fate {
  bool sensitive = false;    // a root, quotient or logarithm reads it
  bool logarithm = false;    // a logarithm does
  bool squared_log = false;  // it is squared, and a logarithm reads that
  void add(const Fate& other) {
    sensitive |= other.sensitive;
    logarithm |= other.logarithm;
    squared_log |= other.squared_log;
  }
};

class Finder {
 public:
  explicit Finder(const Graph& graph)
      : graph_(graph), square_(size_t(graph.value_count())), fate_(size_t(graph.value_count())) {}

  Squares run() {
    for (int32_t n = 0; n < graph_.node_count(); ++n) look_ahead(graph_.node({n}));
    for (int32_t n = graph_.node_count(); n-- > 0;) look_back(graph_.node({n}));
    Squares found;
    for (int32_t v = 0; v < graph_.value_count(); ++v)
      if (square_[size_t(v)] && fate_[size_t(v)].sensitive)
        found.values[graph_.value({v}).name] = concat("'", graph_.value({v}).name, "' holds squares on their way to a ",
                                                      fate_[size_t(v)].logarithm ? "logarithm" : "root or quotient");
    for (int32_t n = 0; n < graph_.node_count(); ++n) {
      const Node& node = graph_.node({n});
      if (is_product(node.op) && fate_[size_t(node.outputs[0].index)].squared_log)
        found.products[node.name] = "its result is squared on the way to a logarithm";
    }
    return found;
  }

 private:
  const Graph& graph_;
  std::vector<char> square_;  // by value
  std::vector<Fate> fate_;

  bool square(ValueId id) const { return id.valid() && square_[size_t(id.index)]; }
  bool constant(ValueId id) const { return id.valid() && graph_.constant(id); }

  // The program's first own input among the node's: a product's program starts at its sum, which is no input of the
  // node.
  static size_t first_input(const Node& node, const Program& program) {
    return is_product(node.op) ? node.inputs.size() - size_t(program.inputs - 1) : 0;
  }
  static const Program* program_of(const Node& node) {
    if (const auto* pointwise = node.op.get_if<ops::Pointwise>()) return &pointwise->program;
    return is_product(node.op) ? epilogue_of(node.op) : nullptr;
  }
  // By value of a program: the number, where it is one.
  std::vector<std::optional<double>> numbers(const Node& node, const Program& program) const {
    std::vector<std::optional<double>> out(size_t(program.inputs));
    const size_t skip = is_product(node.op) ? 1 : 0, first = first_input(node, program);
    for (size_t i = skip; i < out.size(); ++i)
      if (const ValueId id = node.inputs[first + i - skip]; id.valid())
        if (const Tensor* tensor = graph_.constant(id); tensor && tensor->count() == 1)
          out[i] = tensor->to_doubles()[0];
    for (const Step& step : program.steps)
      out.push_back(step.op == Scalar::constant ? std::optional(step.number)
                    : step.op == Scalar::cast   ? out[size_t(step.args[0])]
                                                : std::nullopt);
    return out;
  }

  void look_ahead(const Node& node) {
    bool result = false;
    if (const auto* reduce = node.op.get_if<ops::Reduce>()) result = reduce->kind == ops::ReduceKind::sum_square;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      result |= flow_of(node.op, i) != Flow::computed && square(node.inputs[i]);
    if (const Program* program = program_of(node)) {
      std::vector<char> squares;
      if (is_product(node.op))
        squares.push_back((square(node.inputs[0]) && constant(node.inputs[1])) ||
                          (square(node.inputs[1]) && constant(node.inputs[0])));
      for (size_t i = first_input(node, *program); squares.size() < size_t(program->inputs); ++i)
        squares.push_back(square(node.inputs[i]));
      const auto number = numbers(node, *program);
      for (const Step& step : program->steps) {
        const auto arg = [&](int a) { return squares[size_t(step.args[size_t(a)])] != 0; };
        bool is = false;
        switch (step.op) {
          case Scalar::mul:
            is = (step.args[0] == step.args[1] && !number[size_t(step.args[0])]) || arg(0) || arg(1);
            break;
          case Scalar::fma: is = step.args[0] == step.args[1] || arg(0) || arg(1) || arg(2); break;
          case Scalar::pow: is = number[size_t(step.args[1])].value_or(0) >= 2; break;
          case Scalar::add:
          case Scalar::sub:
          case Scalar::max:
          case Scalar::min: is = arg(0) || arg(1); break;
          case Scalar::div:
            is = arg(0) && (number[size_t(step.args[1])] || is_constant(node, *program, step.args[1]));
            break;
          case Scalar::where: is = arg(1) || arg(2); break;
          case Scalar::cast:
          case Scalar::neg:
          case Scalar::abs:
          case Scalar::relu: is = arg(0); break;
          default: break;
        }
        squares.push_back(is);
      }
      result = squares[size_t(program->result())];
    }
    for (ValueId output : node.outputs) square_[size_t(output.index)] = result;
  }
  bool is_constant(const Node& node, const Program& program, int argument) const {
    const int skip = is_product(node.op) ? 1 : 0;
    return argument >= skip && argument < program.inputs &&
           constant(node.inputs[first_input(node, program) + size_t(argument - skip)]);
  }

  void look_back(const Node& node) {
    Fate result;
    for (ValueId output : node.outputs) result.add(fate_[size_t(output.index)]);
    const auto reaches = [&](ValueId id, const Fate& fate) {
      if (id.valid()) fate_[size_t(id.index)].add(fate);
    };
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (flow_of(node.op, i) != Flow::computed) reaches(node.inputs[i], result);
    if (const auto* reduce = node.op.get_if<ops::Reduce>()) {
      if (reduce->kind == ops::ReduceKind::log_sum) reaches(node.inputs[0], {true, true, false});
      if (reduce->kind == ops::ReduceKind::sum_square && result.logarithm)
        reaches(node.inputs[0], {false, false, true});
    }
    const Program* program = program_of(node);
    if (!program) return;
    std::vector<Fate> fates(size_t(program->inputs) + program->steps.size());
    fates[size_t(program->result())].add(result);
    const auto number = numbers(node, *program);
    for (size_t s = program->steps.size(); s-- > 0;) {
      const Step& step = program->steps[s];
      const Fate fate = fates[size_t(program->inputs) + s];
      const auto give = [&](int a, const Fate& what) { fates[size_t(step.args[size_t(a)])].add(what); };
      const Fate read{true, false, false};
      switch (step.op) {
        case Scalar::log: give(0, {true, true, false}); break;
        case Scalar::sqrt: give(0, {true, fate.logarithm, false}); break;
        case Scalar::reciprocal: give(0, read); break;
        case Scalar::div:
          give(0, fate);
          give(1, read);
          break;
        case Scalar::pow:
          if (const auto power = number[size_t(step.args[1])]; power && *power >= 2)
            give(0, {false, false, fate.logarithm});
          else give(0, read);
          break;
        case Scalar::mul:
          if (step.args[0] == step.args[1]) give(0, {false, false, fate.logarithm});
          else give(0, fate), give(1, fate);
          break;
        case Scalar::fma:
          if (step.args[0] == step.args[1]) give(0, {false, false, fate.logarithm});
          else give(0, fate), give(1, fate);
          give(2, fate);
          break;
        case Scalar::add:
        case Scalar::sub:
        case Scalar::max:
        case Scalar::min: give(0, fate), give(1, fate); break;
        case Scalar::where: give(1, fate), give(2, fate); break;
        case Scalar::cast:
        case Scalar::neg:
        case Scalar::abs:
        case Scalar::relu: give(0, fate); break;
        default: break;
      }
    }
    const size_t skip = is_product(node.op) ? 1 : 0, first = first_input(node, *program);
    for (size_t i = skip; i < size_t(program->inputs); ++i) reaches(node.inputs[first + i - skip], fates[i]);
    // Behind a product with a constant a small value is still small next to a root's or logarithm's others.
    if (skip)
      for (size_t i : {0, 1})
        if (constant(node.inputs[1 - i])) reaches(node.inputs[i], {fates[0].sensitive, fates[0].logarithm, false});
  }
};

}  // namespace

Squares find_squares(const Graph& graph) { return Finder(graph).run(); }

}  // namespace temper
