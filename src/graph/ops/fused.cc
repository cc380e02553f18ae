// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/fused.h"

#include <algorithm>

#include "base/half.h"
#include "graph/ops/pointwise.h"

namespace temper::ops {

namespace {

TensorType after(const Program& program, const TensorType& x) {
  if (program.inputs != 1) fail(ErrorKind::bad_file, "a program of ", program.inputs, " inputs, not 1");
  return {program.infer(std::span(&x.dtype, 1)), x.shape};
}

Tensor after(const Program& program, const Tensor& x) { return run_program(program, std::span(&x, 1), x.dims()); }

// Inputs begin to end - 1.
std::vector<Operand> operands_of(const InferContext& context, size_t begin, size_t end) {
  std::vector<Operand> operands;
  for (size_t i = begin; i < end; ++i)
    operands.push_back({context.has(i) ? &context.type(i) : nullptr, context.constant(i), context.contents(i)});
  return operands;
}

// The types that `op` infers when its input 0 has type x.
template <class T>
std::vector<TensorType> infer_behind(const T& op, const TensorType& x, const InferContext& context) {
  std::vector<Operand> operands = operands_of(context, 1, context.size());
  operands.insert(operands.begin(), {&x});
  return op.infer(InferContext(operands, T::name));
}

// The types of what `conv` gives of `inputs`.
std::vector<TensorType> inferred(const Conv& conv, std::span<const Tensor> inputs) {
  std::vector<TensorType> types;
  std::vector<Operand> operands;
  types.reserve(inputs.size());
  operands.reserve(inputs.size());
  for (const Tensor& x : inputs) types.push_back(x.type());
  for (const TensorType& type : types) operands.push_back({&type});
  return conv.infer(InferContext(operands, Conv::name));
}

}  // namespace

Pool FusedConv::pool() const {
  Pool pool;
  pool.kernel = pool_kernel;
  pool.strides = pool_strides;
  pool.dilations.assign(pool_kernel.size(), 1);
  pool.pads = pool_pads;
  return pool;
}

size_t FusedConv::own_inputs(size_t inputs) const {
  const size_t others = size_t(std::max(prologue.inputs, 1) - 1);
  if (others + 2 > inputs) fail(ErrorKind::bad_file, "of ", inputs, " inputs ", others, " cannot be the prologue's");
  return inputs - others;
}

std::vector<TensorType> FusedConv::infer(const InferContext& context) const {
  const size_t own = own_inputs(context.size());
  const Shape shape = context.type(0).shape;
  std::vector<DType> dtypes{context.type(0).dtype};
  for (size_t i = own; i < context.size(); ++i) {
    dtypes.push_back(context.type(i).dtype);
    if (broadcast_shapes(shape, context.type(i).shape) != shape)
      fail(ErrorKind::bad_file, "a prologue input ", context.type(i), " does not broadcast to ", shape);
  }
  auto convolved = infer_behind(conv, {prologue.infer(dtypes), shape}, context.first(own));
  if (!pools()) return convolved;
  const std::vector<Operand> operand{{&convolved[0]}};
  return pool().infer(InferContext(operand, Pool::name));
}

std::vector<Tensor> FusedConv::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  std::vector<Tensor> own(inputs.begin(), inputs.begin() + int64_t(own_inputs(inputs.size())));
  std::vector<Tensor> read{inputs[0]};
  read.insert(read.end(), inputs.begin() + int64_t(own.size()), inputs.end());
  own[0] = run_program(prologue, read, inputs[0].dims());
  if (!pools()) return conv.reference(own, outputs);
  return pool().reference(conv.reference(own, inferred(conv, own)), outputs);
}

Conv ConvChain::behind(const Program& epilogue) const {
  const std::vector<int64_t> ones(first.strides.size(), 1);
  Conv conv;
  conv.strides = conv.dilations = ones;
  conv.pads.assign(2 * ones.size(), 0);
  conv.tf32 = first.tf32;
  conv.epilogue = epilogue;
  return conv;
}

std::vector<TensorType> ConvChain::infer(const InferContext& context) const {
  const size_t count = context.size();
  if (first_inputs < 2 || size_t(first_inputs) >= count)
    fail(ErrorKind::bad_file, first_inputs, " of ", count, " inputs are the first convolution's");
  if (shortcut_inputs < 0 || size_t(shortcut_inputs) >= count - size_t(first_inputs))
    fail(ErrorKind::bad_file, shortcut_inputs, " of ", count - size_t(first_inputs), " inputs are the shortcut's");
  const size_t second = size_t(first_inputs), chained = count - size_t(shortcut_inputs);
  if (then_inputs < 0 || size_t(then_inputs) >= chained - second)
    fail(ErrorKind::bad_file, then_inputs, " of ", chained - second, " inputs are the second convolution's");
  // The type of `conv` of x, or of input 0 for the first, and of inputs begin to end - 1, among which a `joined`
  // shortcut.
  auto inferred = [&](const Conv& conv, const TensorType* x, size_t begin, size_t end,
                      const TensorType* joined = nullptr) {
    std::vector<Operand> operands = operands_of(context, begin, end);
    if (x) operands.insert(operands.begin(), {x});
    if (x && context.has(begin)) {
      const Shape& weights = context.type(begin).shape;
      for (size_t axis = 2; axis < weights.size(); ++axis)
        if (weights[axis] != Dim(1))
          fail(ErrorKind::bad_file, "a convolution of ", weights, " behind another one, not of one tap");
    }
    if (joined) operands.insert(operands.begin() + shortcut_at, {joined});
    return conv.infer(InferContext(operands, Conv::name))[0];
  };
  const size_t third_at = has_third() ? second + size_t(then_inputs) : chained;
  const TensorType between = inferred(first, nullptr, 0, second);
  std::optional<TensorType> joined;
  if (has_shortcut()) {
    if (shortcut_at < 2 || size_t(shortcut_at) > third_at - second + 1)
      fail(ErrorKind::bad_file, "a shortcut before input ", shortcut_at, " of ", third_at - second + 1);
    joined = inferred(shortcut, nullptr, chained, count);
  }
  std::vector<TensorType> types{inferred(behind(then), &between, second, third_at, joined ? &*joined : nullptr)};
  if (joined && joined->shape != types[0].shape)
    fail(ErrorKind::bad_file, "a shortcut ", *joined, " of a convolution that gives ", types[0]);
  if (has_third()) types.push_back(inferred(behind(third), &types[0], third_at, chained));
  return types;
}

std::vector<Tensor> ConvChain::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  const std::span<const Tensor> own = inputs.first(size_t(first_inputs));
  const std::span<const Tensor> theirs = inputs.last(size_t(shortcut_inputs));
  const auto second = inputs.begin() + first_inputs, chained = inputs.end() - shortcut_inputs,
             third_at = has_third() ? second + then_inputs : chained;
  std::vector<Tensor> read = first.reference(own, inferred(first, own));
  read.insert(read.end(), second, third_at);
  if (has_shortcut())
    read.insert(read.begin() + shortcut_at, shortcut.reference(theirs, inferred(shortcut, theirs))[0]);
  std::vector<Tensor> results = behind(then).reference(read, outputs.first(1));
  if (!has_third()) return results;
  read = results;
  read.insert(read.end(), third_at, chained);
  results.push_back(behind(third).reference(read, outputs.last(1))[0]);
  return results;
}

std::vector<TensorType> ShortcutConv::infer(const InferContext& context) const {
  const size_t count = context.size(), own = size_t(conv_inputs);
  if (conv_inputs < 2 || own + 2 > count)
    fail(ErrorKind::bad_file, conv_inputs, " of ", count, " inputs are the convolution's, which a shortcut joins");
  if (shortcut_at < 2 || shortcut_at > conv_inputs)
    fail(ErrorKind::bad_file, "a shortcut before input ", shortcut_at, " of ", conv_inputs);
  const std::vector<Operand> theirs = operands_of(context, own, count);
  const TensorType joined = shortcut.infer(InferContext(theirs, Conv::name))[0];
  std::vector<Operand> operands = operands_of(context, 0, own);
  operands.insert(operands.begin() + shortcut_at, {&joined});
  std::vector<TensorType> types = conv.infer(InferContext(operands, Conv::name));
  if (types[0].shape != joined.shape)
    fail(ErrorKind::bad_file, "a shortcut ", joined, " of a convolution that gives ", types[0]);
  return types;
}

std::vector<Tensor> ShortcutConv::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  const std::span<const Tensor> theirs = inputs.subspan(size_t(conv_inputs));
  std::vector<Tensor> own(inputs.begin(), inputs.begin() + conv_inputs);
  const Tensor joined = shortcut.reference(theirs, inferred(shortcut, theirs))[0];
  own.insert(own.begin() + shortcut_at, joined);
  return conv.reference(own, outputs);
}

Operations ShortcutConv::operations(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const {
  Operations both = conv.operations(inputs, outputs);
  const Operations other = shortcut.operations(inputs.subspan(size_t(conv_inputs)), outputs);
  return {both.products + other.products, both.others + other.others};
}

std::vector<TensorType> FusedReduce::infer(const InferContext& context) const {
  context.expect_inputs(1, 1);
  return {after(epilogue, infer_behind(reduce, after(prologue, context.type(0)), context)[0])};
}

std::vector<Tensor> FusedReduce::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  const Tensor x = after(prologue, inputs[0]);
  const TensorType between{x.dtype(), outputs[0].shape};
  return {after(epilogue, reduce.reference(std::span(&x, 1), std::span(&between, 1))[0])};
}

Operations FusedConv::operations(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const {
  // The convolution gives more than the pool leaves; its epilogue is counted on what is left.
  const TensorType all =
      type_of(inputs[0].dtype, pools() ? conv.output_dims(inputs[0].dims(), inputs[1].dims()) : outputs[0].dims());
  return {conv.operations(inputs, std::span(&all, 1)).products,
          computing_steps(conv.epilogue) * element_count(outputs[0])};
}

Operations ConvChain::operations(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const {
  const Dims first_weights = inputs[1].dims(), weights = inputs[size_t(first_inputs)].dims();
  const int64_t pixels = element_count(outputs[0]) / std::max<int64_t>(1, weights[0]);
  Operations all{2 * pixels * (element_count(first_weights) + element_count(weights)),
                 pixels * (weights[0] * computing_steps(then) + weights[1] * computing_steps(first.epilogue))};
  if (has_third()) {
    all.products += 2 * pixels * element_count(inputs[size_t(first_inputs + then_inputs)].dims());
    all.others += element_count(outputs[1]) * computing_steps(third);
  }
  if (has_shortcut()) {
    const Operations theirs = shortcut.operations(inputs.last(size_t(shortcut_inputs)), outputs.first(1));
    all.products += theirs.products;
    all.others += theirs.others;
  }
  return all;
}

Operations FusedReduce::operations(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const {
  return reduce.operations(inputs, outputs);
}

DType row_dtype(DType x) { return is_half(x) ? DType::f32 : x; }

// What the prologue gives, then what the epilogue gives.
template <class Op>
static std::vector<TensorType> infer_rows(const Op& op, const Program& prologue, const Program& epilogue,
                                          const InferContext& context) {
  const size_t own = size_t(prologue.inputs);
  context.expect_inputs(own + size_t(epilogue.inputs - 1), own + size_t(epilogue.inputs - 1));
  const Shape shape = context.type(0).shape;
  std::vector<DType> dtypes;
  for (size_t i = 0; i < own; ++i) {
    dtypes.push_back(context.type(i).dtype);
    if (broadcast_shapes(shape, context.type(i).shape) != shape)
      fail(ErrorKind::bad_file, "a prologue input ", context.type(i), " does not broadcast to ", shape);
  }
  const TensorType given{prologue.infer(dtypes), shape}, rows{row_dtype(given.dtype), shape};
  const std::vector<Operand> operand{{&rows}};
  op.infer(InferContext(operand, Op::name));
  return {given, {infer_epilogue(epilogue, rows.dtype, shape, context, own), shape}};
}

// The tensors of those types.
template <class Op>
static std::vector<Tensor> reference_rows(const Op& op, const Program& prologue, const Program& epilogue,
                                          std::span<const Tensor> inputs) {
  const size_t own = size_t(prologue.inputs);
  const Tensor given = run_program(prologue, inputs.first(own), inputs[0].dims());
  const Tensor rows = given.converted(row_dtype(given.dtype()));
  const TensorType type = rows.type();
  std::vector<Tensor> operands = op.reference(std::span(&rows, 1), std::span(&type, 1));
  operands.insert(operands.end(), inputs.begin() + int64_t(own), inputs.end());
  return {given, run_program(epilogue, operands, rows.dims())};
}

// The programs'; what is between them has no count of its own.
static Operations operations_of_rows(const Program& prologue, const Program& epilogue,
                                     std::span<const TensorType> outputs) {
  return {0, (computing_steps(prologue) + computing_steps(epilogue)) * element_count(outputs[0])};
}

std::vector<TensorType> FusedNormalize::infer(const InferContext& context) const {
  const auto types = infer_rows(normalize, prologue, epilogue, context);
  return gives_input ? std::vector{types[1], types[0]} : std::vector{types[1]};
}

std::vector<Tensor> FusedNormalize::reference(std::span<const Tensor> inputs, std::span<const TensorType>) const {
  const auto tensors = reference_rows(normalize, prologue, epilogue, inputs);
  return gives_input ? std::vector{tensors[1], tensors[0]} : std::vector{tensors[1]};
}

Operations FusedNormalize::operations(std::span<const TensorType>, std::span<const TensorType> outputs) const {
  return operations_of_rows(prologue, epilogue, outputs);
}

Operations FusedSoftmax::operations(std::span<const TensorType>, std::span<const TensorType> outputs) const {
  return operations_of_rows(prologue, epilogue, outputs);
}

std::vector<TensorType> FusedSoftmax::infer(const InferContext& context) const {
  return {infer_rows(softmax, prologue, epilogue, context)[1]};
}

std::vector<Tensor> FusedSoftmax::reference(std::span<const Tensor> inputs, std::span<const TensorType>) const {
  return {reference_rows(softmax, prologue, epilogue, inputs)[1]};
}

TensorType GatedMatMul::product_type(std::span<const TensorType> inputs, const TensorType& out) const {
  std::vector<DType> dtypes{accumulator_of(inputs[0].dtype, inputs[1].dtype)};
  for (const TensorType& type : inputs.subspan(2)) dtypes.push_back(type.dtype);
  TensorType type{product.epilogue.infer(dtypes), out.shape};
  type.shape.back() = type.shape.back() * Dim(2);
  return type;
}

std::vector<TensorType> GatedMatMul::infer(const InferContext& context) const {
  TensorType type = product.infer(context)[0];
  const Dim columns = type.shape.back();
  if (!columns.is_constant() || columns.value() % 2)
    fail(ErrorKind::bad_file, "a product of ", columns, " columns has no two halves");
  type.shape.back() = columns.value() / 2;
  if (gate.inputs != 2) fail(ErrorKind::bad_file, "a gate of ", gate.inputs, " inputs, not 2");
  const DType both[] = {type.dtype, type.dtype};
  type.dtype = gate.infer(both);
  return {type};
}

std::vector<Tensor> GatedMatMul::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  std::vector<TensorType> types;
  for (const Tensor& x : inputs) types.push_back(x.type());
  const TensorType whole = product_type(types, outputs[0]);
  const Tensor columns = product.reference(inputs, std::span(&whole, 1))[0];
  const Dims dims = outputs[0].dims();
  Tensor halves[] = {Tensor(whole.dtype, dims), Tensor(whole.dtype, dims)};
  const int64_t row = dims.back() * size_of(whole.dtype);
  const std::byte* from = columns.raw().data();
  for (int64_t at = 0; at < halves[0].bytes(); at += row)
    for (Tensor& half : halves) {
      std::copy_n(from, row, half.raw_mutable() + at);
      from += row;
    }
  return {run_program(gate, halves, dims)};
}

Operations GatedMatMul::operations(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const {
  const TensorType whole = product_type(inputs, outputs[0]);
  Operations all = product.operations(inputs, std::span(&whole, 1));
  all.others += computing_steps(gate) * element_count(outputs[0]);
  return all;
}

double GatedMatMul::reference_cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const {
  return 2 * product.reference_cost(inputs, outputs);
}

double FusedConv::reference_cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const {
  double window = 1;
  for (int64_t size : pool_kernel) window *= double(size);
  return window * conv.reference_cost(inputs, outputs);
}

}  // namespace temper::ops
