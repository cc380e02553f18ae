// SPDX-License-Identifier: Apache-2.0
// Shape arithmetic: the elements of small integer tensors as dimensions. It is what lets a chain such as
// shape -> gather -> concat -> reshape disappear at import, with symbols as well as with numbers.
#include "graph/graph.h"

namespace temper {

namespace {

using Result = std::shared_ptr<const Contents>;

Result make(Contents contents) { return std::make_shared<const Contents>(std::move(contents)); }

// One integer program over dims; null as soon as a step is not exact on symbols.
Result run_on_dims(const Program& program, std::span<const Operand> inputs, size_t count) {
  for (const Operand& input : inputs)
    if (!input.contents || (input.contents->size() != count && input.contents->size() != 1)) return nullptr;
  Contents out;
  for (size_t i = 0; i < count; ++i) {
    std::vector<Dim> values;
    for (const Operand& input : inputs) values.push_back((*input.contents)[input.contents->size() == 1 ? 0 : i]);
    for (const Step& step : program.steps) {
      auto arg = [&](size_t a) -> const Dim& { return values[size_t(step.args[a])]; };
      if (!is_int(step.dtype)) return nullptr;
      switch (step.op) {
        case Scalar::constant: values.push_back(step.integer); break;
        case Scalar::cast: values.push_back(arg(0)); break;
        case Scalar::add: values.push_back(arg(0) + arg(1)); break;
        case Scalar::sub: values.push_back(arg(0) - arg(1)); break;
        case Scalar::mul: values.push_back(arg(0) * arg(1)); break;
        case Scalar::min: values.push_back(dim_min(arg(0), arg(1))); break;
        case Scalar::max: values.push_back(dim_max(arg(0), arg(1))); break;
        case Scalar::neg: values.push_back(Dim(0) - arg(0)); break;
        case Scalar::div:
          // Truncation and floor agree only on non-negative numbers; a symbolic size is one, a difference may not be.
          if (!arg(1).is_constant() || arg(1).value() <= 0) return nullptr;
          if (arg(0).is_constant() && arg(0).value() < 0) return nullptr;
          values.push_back(floor_div(arg(0), arg(1)));
          break;
        default: return nullptr;
      }
    }
    out.push_back(values[size_t(program.result())]);
  }
  return make(std::move(out));
}

}  // namespace

Result infer_contents(const Op& op, std::span<const Operand> inputs, const TensorType& output) {
  if (output.dtype != DType::i64 && output.dtype != DType::i32) return nullptr;
  if (output.rank() > 1 || !output.is_concrete() || element_count(output.dims()) > kMaxContents) return nullptr;
  const size_t count = size_t(element_count(output.dims()));
  if (const auto* shape = std::get_if<ops::ShapeOf>(&op)) {
    const Shape& s = inputs[0].type->shape;
    return make(Contents(s.begin() + shape->start, s.begin() + shape->end));
  }
  if (std::get_if<ops::Reshape>(&op)) {
    if (!inputs[0].contents || inputs[0].contents->size() != count) return nullptr;
    return make(*inputs[0].contents);
  }
  if (const auto* pointwise = std::get_if<ops::Pointwise>(&op)) {
    for (size_t i = 0; i < inputs.size(); ++i)
      if (!is_int(inputs[i].type->dtype)) return nullptr;
    return run_on_dims(pointwise->program, inputs, count);
  }
  if (const auto* reduce = std::get_if<ops::Reduce>(&op)) {
    if (!inputs[0].contents || inputs[0].type->rank() != 1 || reduce->axes.size() != 1) return nullptr;
    Dim total = reduce->kind == ops::ReduceKind::prod ? 1 : 0;
    for (const Dim& dim : *inputs[0].contents) {
      if (reduce->kind == ops::ReduceKind::prod) total = total * dim;
      else if (reduce->kind == ops::ReduceKind::sum) total = total + dim;
      else return nullptr;
    }
    return make({total});
  }
  return nullptr;
}

}  // namespace temper
