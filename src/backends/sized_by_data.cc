// SPDX-License-Identifier: Apache-2.0
#include "backends/sized_by_data.h"

#include <algorithm>

#include "base/checked.h"
#include "graph/infer.h"
#include "graph/ops/nms.h"
#include "graph/ops/nonzero.h"
#include "graph/ops/unique.h"

namespace temper {

namespace {

// Without the contents of constants, which would say what the result is.
std::vector<TensorType> open_types(const Op& op, const std::vector<Port>& inputs) {
  std::vector<Operand> operands(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].present) operands[i].type = &inputs[i].type;
  return infer(op, InferContext(operands, "n"));
}

// Whatever is open in them is one size.
std::vector<TensorType> closed(std::vector<TensorType> types, int64_t size) {
  for (TensorType& type : types)
    for (Dim& dim : type.shape)
      if (!dim.is_constant()) dim = Dim(size);
  return types;
}

int64_t most_of(const Op& op, const std::vector<Port>& inputs) {
  const Dims x = inputs[0].dims();
  if (op.is<ops::Unique>()) {
    const int64_t axis = op.get<ops::Unique>().axis;
    return axis < 0 ? element_count(x) : x[size_t(axis)];
  }
  if (op.is<ops::NonZero>()) return element_count(x);
  int64_t each = 0;  // boxes of a class
  if (inputs.size() > 2 && inputs[2].present) {
    each = x[1];
    if (const Tensor* most = inputs[2].constant) each = std::clamp<int64_t>(most->to_ints().at(0), 0, each);
  }
  return checked_mul(checked_mul(x[0], inputs[1].dims()[1]), each);
}

}  // namespace

std::optional<Problem> largest_problem(const Op& op, std::vector<Port> inputs, int threads) {
  if (!op.is<ops::NonZero, ops::Nms, ops::Unique>()) return std::nullopt;
  Problem problem{op, std::move(inputs), {}, threads};
  const int64_t most = most_of(op, problem.inputs);
  for (TensorType& type : closed(open_types(op, problem.inputs), most)) problem.outputs.push_back({std::move(type)});
  problem.outputs.push_back({type_of(DType::i64, {1})});
  return problem;
}

int64_t largest_size(const Problem& problem) {
  const std::vector<TensorType> open = open_types(problem.op, problem.inputs);
  for (size_t o = 0; o < open.size(); ++o)
    for (size_t axis = 0; axis < open[o].shape.size(); ++axis)
      if (!open[o].shape[axis].is_constant()) return problem.outputs[o].dims()[axis];
  fail(ErrorKind::bad_file, "the result of ", problem.text(), " has one size");
}

std::vector<TensorType> types_for(const Problem& problem, int64_t size) {
  return closed(open_types(problem.op, problem.inputs), size);
}

}  // namespace temper
