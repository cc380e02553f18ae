// SPDX-License-Identifier: Apache-2.0
// Shape arithmetic: the elements of small integer tensors as dimensions. It is what lets a chain such as
// shape -> gather -> concat -> reshape disappear at import, with symbols as well as with numbers.
#include <algorithm>

#include "graph/graph.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/reduce.h"
#include "graph/ops/shape.h"

namespace temper {

namespace {

using Result = std::shared_ptr<const Contents>;

Result make(Contents contents) { return std::make_shared<const Contents>(std::move(contents)); }

bool fits(const Dim& dim, DType dtype) {
  if (!dim.is_constant() || dtype == DType::i64) return true;
  if (dtype == DType::boolean) return dim.value() == 0 || dim.value() == 1;
  return dtype == DType::i32 && dim.value() == int32_t(dim.value());
}

std::optional<bool> is_less(const Dim& a, const Dim& b) {  // where the difference has a known sign
  if ((b - a - Dim(1)).is_non_negative()) return true;
  if ((a - b).is_non_negative()) return false;
  return std::nullopt;
}

// The value of one step, nothing where it is not exact on symbols. `args` are its arguments.
std::optional<Dim> run_step(const Step& step, const std::array<Dim, 3>& args) {
  const Dim &a = args[0], &b = args[1];
  auto known = [](std::optional<bool> value) { return value ? std::optional<Dim>(*value ? 1 : 0) : std::nullopt; };
  auto truth = [](const Dim& dim) { return dim.is_constant() ? std::optional(dim.value() != 0) : std::nullopt; };
  switch (step.op) {
    case Scalar::constant: return Dim(step.integer);
    case Scalar::cast:
      if (step.dtype != DType::boolean) return a;
      if (a.is_constant()) return Dim(a.value() != 0);
      return known((a - Dim(1)).is_non_negative() ? std::optional(true) : std::nullopt);
    case Scalar::add: return a + b;
    case Scalar::sub: return a - b;
    case Scalar::mul: return a * b;
    case Scalar::min: return dim_min(a, b);
    case Scalar::max: return dim_max(a, b);
    case Scalar::neg: return Dim(0) - a;
    case Scalar::abs:
    case Scalar::relu: return a.is_non_negative() ? std::optional(a) : std::nullopt;
    case Scalar::div:
      // Truncation and floor agree on non-negative numbers only. A symbolic difference counts as one: it is a size.
      if (!b.is_constant() || b.value() <= 0 || (a.is_constant() && a.value() < 0)) return std::nullopt;
      return floor_div(a, b);
    case Scalar::mod:
      if (!b.is_constant() || b.value() <= 0) return std::nullopt;
      return a - floor_div(a, b) * b;
    case Scalar::equal:
      if (a == b) return Dim(1);
      return is_less(a, b).value_or(false) || is_less(b, a).value_or(false) ? std::optional<Dim>(0) : std::nullopt;
    case Scalar::less: return known(is_less(a, b));
    case Scalar::less_equal: return known(is_less(a, b + Dim(1)));
    case Scalar::logical_not: return truth(a) ? known(!*truth(a)) : std::nullopt;
    case Scalar::logical_and: return truth(a) && truth(b) ? known(*truth(a) && *truth(b)) : std::nullopt;
    case Scalar::logical_or: return truth(a) && truth(b) ? known(*truth(a) || *truth(b)) : std::nullopt;
    case Scalar::where: return truth(a) ? std::optional(*truth(a) ? b : args[2]) : std::nullopt;
    default: return std::nullopt;
  }
}

// One program over dims; null as soon as a step is not exact on symbols.
Result run_on_dims(const Program& program, std::span<const Operand> inputs, const Dims& dims) {
  std::vector<Dims> strides;
  for (const Operand& input : inputs) strides.push_back(broadcast_strides(input.type->dims(), dims));
  for (const Step& step : program.steps)
    if (!has_contents(step.dtype)) return nullptr;
  Contents out;
  bool exact = true;
  for_each_index(dims, [&](const Dims& index, int64_t) {
    if (!exact) return;
    std::vector<Dim> values;
    for (size_t i = 0; i < inputs.size(); ++i) {
      int64_t offset = 0;
      for (size_t axis = 0; axis < index.size(); ++axis) offset += index[axis] * strides[i][axis];
      values.push_back((*inputs[i].contents)[size_t(offset)]);
    }
    for (const Step& step : program.steps) {
      std::array<Dim, 3> args;
      for (size_t i = 0; i < 3; ++i)
        if (step.args[i] >= 0) args[i] = values[size_t(step.args[i])];
      std::optional<Dim> value = run_step(step, args);
      exact &= value && fits(*value, step.dtype);
      values.push_back(value.value_or(0));
    }
    out.push_back(values[size_t(program.result())]);
  });
  return exact ? make(std::move(out)) : nullptr;
}

// Runs the reference of an op that only moves elements on the numbers of the elements instead of the elements: what
// comes out says where each came from.
Result run_on_numbers(const Op& op, std::span<const Operand> inputs, const Dims& dims) {
  Contents all;
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Tensor& tensor = tensors.emplace_back(DType::i64, inputs[i].type->dims());
    for (int64_t k = 0; k < tensor.count(); ++k) {
      const Dim& dim = (*inputs[i].contents)[size_t(k)];
      const bool moved = flow_of(op, i) == Flow::moved;  // otherwise it is a position
      if (!moved && !dim.is_constant()) return nullptr;
      tensor.data<int64_t>()[k] = moved ? int64_t(all.size()) : dim.value();
      if (moved) all.push_back(dim);
    }
  }
  const std::vector<TensorType> types{type_of(DType::i64, dims)};
  const std::vector<Tensor> result = reference(op, tensors, types);
  Contents out;
  for (int64_t k : result[0].to_ints()) out.push_back(all.at(size_t(k)));
  return make(std::move(out));
}

}  // namespace

Result infer_contents(const Op& op, std::span<const Operand> inputs, const TensorType& output) {
  if (!has_contents(output.dtype) || !output.is_concrete() || element_count(output.dims()) > kMaxContents)
    return nullptr;
  const Dims dims = output.dims();
  if (const auto* shape = op.get_if<ops::ShapeOf>()) {
    const Shape& s = inputs[0].type->shape;
    return make(Contents(s.begin() + shape->start, s.begin() + shape->end));
  }
  if (element_count(dims) == 0) return make({});
  bool numbers = true;
  if (!is_concrete(op)) return nullptr;
  for (const Operand& input : inputs) {
    if (!input.type || !input.contents) return nullptr;
    for (const Dim& dim : *input.contents) numbers &= dim.is_constant();
  }
  if (numbers) {
    // Nothing symbolic: the reference itself answers.
    std::vector<Tensor> tensors;
    for (const Operand& input : inputs) {
      std::vector<int64_t> values;
      for (const Dim& dim : *input.contents) values.push_back(dim.value());
      tensors.push_back(Tensor::of<int64_t>(input.type->dims(), values).converted(input.type->dtype));
    }
    const auto ints = reference(op, tensors, std::span(&output, 1))[0].to_ints();
    return make(Contents(ints.begin(), ints.end()));
  }
  if (flow_of(op, 0) == Flow::moved) return run_on_numbers(op, inputs, dims);
  if (const auto* pointwise = op.get_if<ops::Pointwise>()) return run_on_dims(pointwise->program, inputs, dims);
  if (const auto* reduce = op.get_if<ops::Reduce>()) {
    if (inputs[0].type->rank() != 1 || reduce->axes.size() != 1) return nullptr;
    Dim total = reduce->kind == ops::ReduceKind::prod ? 1 : 0;
    for (const Dim& dim : *inputs[0].contents) {
      if (reduce->kind == ops::ReduceKind::prod) total = total * dim;
      else if (reduce->kind == ops::ReduceKind::sum) total = total + dim;
      else return nullptr;
    }
    return fits(total, output.dtype) ? make({total}) : nullptr;
  }
  return nullptr;
}

}  // namespace temper
