// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/loop.h"

#include <algorithm>
#include <stdexcept>

#include "graph/ops/choose.h"

namespace temper::ops {

namespace {

// `first`: the number of the output that is carried value 0.
TensorType carried_type(const InferContext& context, TensorType type, const std::vector<int64_t>& open, size_t value,
                        size_t first) {
  for (size_t axis = 0; axis < type.shape.size(); ++axis)
    if (is_open(open, value, axis)) type.shape[axis] = context.unknown(int(first + value), int64_t(axis));
  return type;
}

void expect_scalar(const InferContext& context, size_t input, DType dtype) {
  if (!context.has(input)) return;
  const TensorType& type = context.type(input);
  bool one = type.dtype == dtype && type.rank() <= 1;
  for (const Dim& dim : type.shape) one &= dim == Dim(1);
  if (!one) fail(ErrorKind::bad_file, "input ", input, " is ", type, "; one number of ", dtype, " is needed");
}

// Dimensions that only data decide may differ from iteration to iteration.
bool depends_on_data(const Dim& dim) {
  std::vector<std::string> symbols;
  dim.collect_symbols(symbols);
  for (const std::string& symbol : symbols)
    if (symbol.starts_with('$')) return true;
  return false;
}

OnnxForm not_written() { return OnnxForm::none("a loop is not written as ONNX; use the model that it is from"); }

}  // namespace

std::vector<TensorType> LoopBegin::infer(const InferContext& context) const {
  const size_t after = nested ? 1 : 0;
  if (context.size() < 2 + after) fail(ErrorKind::bad_file, context.size(), " inputs were given");
  expect_scalar(context, 0, DType::i64);
  expect_scalar(context, 1, DType::boolean);
  std::vector<TensorType> types{{DType::i64, {}}, {DType::boolean, {}}};
  for (size_t i = 2; i + after < context.size(); ++i)
    types.push_back(carried_type(context, context.type(i), open, i - 2, 2));
  return types;
}

std::vector<Tensor> LoopBegin::reference(std::span<const Tensor>, std::span<const TensorType>) const {
  throw std::logic_error("a loop was run as a single node");
}
OnnxForm LoopBegin::onnx_form() const { return not_written(); }

bool LoopEnd::joins(size_t scan) const {
  return std::find(joined.begin(), joined.end(), int64_t(scan)) != joined.end();
}

std::vector<TensorType> LoopEnd::infer(const InferContext& context) const {
  if (carried < 0 || context.size() < 3 || size_t(carried) > (context.size() - 3) / 2)
    fail(ErrorKind::bad_file, context.size(), " inputs were given for ", carried, " carried values");
  if (limit < 1) fail(ErrorKind::bad_file, "a limit of ", limit, " iterations");
  const auto count = size_t(carried);
  expect_scalar(context, 0, DType::i64);
  expect_scalar(context, 1, DType::i64);
  expect_scalar(context, 2, DType::boolean);
  std::vector<TensorType> types;
  for (size_t i = 0; i < count; ++i) {
    const TensorType &begins = context.type(3 + i), &next = context.type(3 + count + i);
    if (begins.dtype != next.dtype || begins.rank() != next.rank())
      fail(ErrorKind::unsupported, "carried value ", i, " is ", begins, " first and ", next,
           " after an iteration; values that change their dtype or rank are not supported");
    types.push_back(carried_type(context, begins, open, i, 0));
  }
  for (size_t i = 3 + 2 * count; i < context.size(); ++i) {
    const int output = int(types.size());
    const Contents* trip = context.contents(1);
    const TensorType& each = context.type(i);
    const bool joins_it = joins(i - 3 - 2 * count);
    if (joins_it && each.rank() == 0) fail(ErrorKind::bad_file, "scans of ", each, " have no axis to join them along");
    const bool counted = trip && trip->size() == 1;
    Shape shape;
    if (!counted || (joins_it && depends_on_data(each.shape[0]))) shape.push_back(context.unknown(output, 0));
    else shape.push_back(dim_max((*trip)[0], 0) * (joins_it ? each.shape[0] : Dim(1)));
    for (size_t axis = joins_it ? 1 : 0; axis < each.shape.size(); ++axis)
      shape.push_back(depends_on_data(each.shape[axis]) ? context.unknown(output, int64_t(shape.size()))
                                                        : each.shape[axis]);
    types.push_back({each.dtype, std::move(shape)});
  }
  return types;
}

std::vector<Tensor> LoopEnd::reference(std::span<const Tensor>, std::span<const TensorType>) const {
  throw std::logic_error("a loop was run as a single node");
}
OnnxForm LoopEnd::onnx_form() const { return not_written(); }

}  // namespace temper::ops
