// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/fused_decode.h"

namespace temper::ops {

namespace {

Operand operand(const InferContext& context, size_t i) {
  return {context.has(i) ? &context.type(i) : nullptr, context.constant(i), context.contents(i)};
}

}  // namespace

std::vector<TensorType> NormalizedMatMul::infer(const InferContext& context) const {
  const size_t own = normalize_inputs();
  context.expect_inputs(own + 1, own + 1025);
  if (own < 1) fail(ErrorKind::bad_file, "a program of no inputs between a normalisation and a product");
  if (row_dtype(context.type(0).dtype) == context.type(0).dtype)
    fail(ErrorKind::bad_file, "rows ", context.type(0), " before a product, not of 16 bits");
  const std::vector<TensorType> rows = before().infer(context.first(own));
  std::vector<Operand> operands{{&rows[0]}};
  for (size_t i = own; i < context.size(); ++i) operands.push_back(operand(context, i));
  if (in_blocks()) {
    if (product.transpose_a || product.tf32)
      fail(ErrorKind::bad_file, "a product by weights in blocks of transposed rows, or in TF32");
    return blocked_product().infer(InferContext(operands, BlockedMatMul::name));
  }
  const InferContext behind(operands, MatMul::name);
  behind.expect_same_dtype(0, 1);
  return product.infer(behind);
}

std::vector<Tensor> NormalizedMatMul::reference(std::span<const Tensor> inputs,
                                                std::span<const TensorType> outputs) const {
  const std::span<const Tensor> own = inputs.first(normalize_inputs());
  const TensorOperands operands(own);
  std::vector<Tensor> behind = before().reference(own, before().infer(InferContext(operands, FusedNormalize::name)));
  behind.insert(behind.end(), inputs.begin() + int64_t(own.size()), inputs.end());
  return in_blocks() ? blocked_product().reference(behind, outputs) : product.reference(behind, outputs);
}

// What is between has its programs counted, as in fused_normalize.
Operations NormalizedMatMul::operations(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const {
  std::vector<TensorType> behind{inputs[0]};
  behind.insert(behind.end(), inputs.begin() + int64_t(normalize_inputs()), inputs.end());
  Operations all = in_blocks() ? blocked_product().operations(behind, outputs) : product.operations(behind, outputs);
  all.others += computing_steps(between) * element_count(inputs[0]);
  return all;
}

double NormalizedMatMul::reference_cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const {
  return contraction_cost(inputs[normalize_inputs()], outputs[0]);
}

std::vector<TensorType> ComputedGather::infer(const InferContext& context) const {
  context.expect_inputs(2, 2);
  const TensorType& from = context.type(1);
  if (from.dtype != DType::i64 || index.inputs != 1 || index.infer(std::span(&from.dtype, 1)) != DType::i64)
    fail(ErrorKind::bad_file, name, " of indices made of ", from);
  return gather.infer(context);
}

std::vector<Tensor> ComputedGather::reference(std::span<const Tensor> inputs,
                                              std::span<const TensorType> outputs) const {
  const std::vector<Tensor> operands{inputs[0], run_program(index, inputs.subspan(1, 1), inputs[1].dims())};
  return gather.reference(operands, outputs);
}

Shape GatheredNormalize::row_shape(const Shape& index, const Shape& table) {
  Shape out = index;
  out.push_back(table[1]);
  return out;
}

std::vector<TensorType> GatheredNormalize::infer(const InferContext& context) const {
  const size_t picked = size_t(tables), all = context.size();
  if (tables < 1 || tables > fused.prologue.inputs || all <= 2 * picked - 1)
    fail(ErrorKind::bad_file, name, " of ", tables, " tables and ", all, " inputs");
  std::vector<TensorType> rows;
  for (size_t i = 0; i < picked; ++i) {
    const TensorType &table = context.type(i), &index = context.type(all - picked + i);
    if (table.rank() != 2 || index.dtype != DType::i64 || index.shape != context.type(all - 1).shape)
      fail(ErrorKind::bad_file, name, " of a table ", table, " and indices ", index);
    rows.push_back({table.dtype, row_shape(index.shape, table.shape)});
  }
  std::vector<Operand> operands;
  for (size_t i = 0; i + picked < all; ++i) operands.push_back(operand(context, i));
  for (size_t i = 0; i < picked; ++i) operands[i] = {&rows[i]};
  return fused.infer(InferContext(operands, FusedNormalize::name));
}

std::vector<Tensor> GatheredNormalize::reference(std::span<const Tensor> inputs,
                                                 std::span<const TensorType> outputs) const {
  const size_t picked = size_t(tables), all = inputs.size();
  std::vector<Tensor> own(inputs.begin(), inputs.end() - int64_t(picked));
  for (size_t i = 0; i < picked; ++i) {
    const std::vector<Tensor> operands{inputs[i], inputs[all - picked + i]};
    const TensorType row{inputs[i].dtype(), outputs[0].shape};
    own[i] = Gather().reference(operands, std::span(&row, 1))[0];
  }
  return fused.reference(own, outputs);
}

Operations GatheredNormalize::operations(std::span<const TensorType> inputs,
                                         std::span<const TensorType> outputs) const {
  return fused.operations(inputs, outputs);
}

std::vector<TensorType> AppendingAttention::infer(const InferContext& context) const {
  context.expect_inputs(kOwnInputs, kOwnInputs + (behind_new ? 1 : 2));
  std::vector<TensorType> caches;
  for (const size_t cache : {1, 3}) {
    const std::vector<Operand> operands{operand(context, cache), operand(context, cache + 1), operand(context, 5)};
    caches.push_back(Append().infer(InferContext(operands, Append::name))[0]);
  }
  std::vector<Operand> operands;
  for (size_t i = 0; i < context.size(); ++i) operands.push_back(operand(context, i));
  const std::vector<Operand> own = attention_inputs(std::span<const Operand>(operands));
  return {attention.infer(InferContext(own, Attention::name))[0], caches[0], caches[1]};
}

std::vector<Tensor> AppendingAttention::reference(std::span<const Tensor> inputs,
                                                  std::span<const TensorType> outputs) const {
  std::vector<Tensor> own = attention_inputs(inputs);
  for (const size_t cache : {1, 3}) {
    const std::vector<Tensor> operands{inputs[cache], inputs[cache + 1], inputs[5]};
    own[cache == 1 ? 1 : 2] = Append().reference(operands, outputs.subspan(cache == 1 ? 1 : 2, 1))[0];
  }
  if (behind_new) {
    own.resize(4);
    Tensor lengths(DType::i64, inputs[5].dims());
    for (int64_t i = 0; i < lengths.count(); ++i) lengths.data<int64_t>()[i] = inputs[5].data<int64_t>()[i] + 1;
    own.push_back(std::move(lengths));
  }
  return {attention.reference(own, outputs.first(1))[0], own[1], own[2]};
}

Operations AppendingAttention::operations(std::span<const TensorType> inputs,
                                          std::span<const TensorType> outputs) const {
  return attention.operations(attention_inputs(inputs), outputs.first(1));
}

double AppendingAttention::reference_cost(std::span<const TensorType> inputs,
                                          std::span<const TensorType> outputs) const {
  return attention.reference_cost(attention_inputs(inputs), outputs.first(1)) + double(element_count(outputs[1])) +
         double(element_count(outputs[2]));
}

}  // namespace temper::ops
