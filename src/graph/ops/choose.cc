// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/choose.h"

namespace temper::ops {

void fail_left_out() {
  fail(ErrorKind::unsupported, "the side that its condition chooses was left out: it does not fit the shapes, or not ",
       "what reads its results");
}

bool is_open(const std::vector<int64_t>& open, size_t value, size_t axis) {
  for (size_t i = 0; i + 1 < open.size(); i += 2)
    if (open[i] == int64_t(value) && open[i + 1] == int64_t(axis)) return true;
  return false;
}

std::vector<TensorType> Choose::infer(const InferContext& context) const {
  if (context.size() % 2 == 0) fail(ErrorKind::bad_file, "its two sides do not have as many values");
  const TensorType& condition = context.type(0);
  if (condition.dtype != DType::boolean) fail(ErrorKind::bad_file, "the condition is ", condition);
  for (const Dim& dim : condition.shape)
    if (dim != Dim(1))
      fail(ErrorKind::unsupported, "the condition is ", condition, "; one of a single element is supported");
  const size_t count = context.size() / 2;
  std::vector<TensorType> types;
  for (size_t i = 0; i < count; ++i) {
    const size_t a = 1 + i, b = 1 + count + i;
    if (!context.has(a) && !context.has(b))
      fail(ErrorKind::unsupported, "neither side of it can be computed for these shapes");
    TensorType& type = types.emplace_back(context.type(context.has(a) ? a : b));
    const TensorType& other = context.type(context.has(b) ? b : a);
    if (type.dtype != other.dtype)
      fail(ErrorKind::bad_file, "its sides give ", type, " and ", other, ": they must be of one dtype");
    if (type.rank() != other.rank())
      fail(ErrorKind::unsupported, "its sides give ", type, " and ", other, ": results of different ranks are not ",
           "supported");
    for (size_t axis = 0; axis < type.shape.size(); ++axis) {
      const Dim &here = type.shape[axis], &there = other.shape[axis];
      const bool known = here == there && (here.is_constant() || !is_open(open, i, axis));
      if (!known) type.shape[axis] = context.unknown(int(i), int64_t(axis));
    }
  }
  return types;
}

std::vector<Tensor> Choose::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  const size_t first = first_of_side(inputs[0].to_ints()[0] != 0, outputs.size());
  const std::span<const Tensor> side = inputs.subspan(first, outputs.size());
  for (const Tensor& value : side)
    if (!value.defined()) fail_left_out();
  return {side.begin(), side.end()};
}

}  // namespace temper::ops
