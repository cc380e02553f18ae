// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/blocked_matmul.h"

namespace temper::ops {

namespace {

// The types of the product's inputs: those of `types` with f32 in the place of the rows' and of the weights' three.
std::vector<TensorType> product_types(std::span<const TensorType> types) {
  std::vector<TensorType> out{{DType::f32, types[0].shape}, {DType::f32, types[1].shape}};
  out.insert(out.end(), types.begin() + BlockedMatMul::kOwnInputs, types.end());
  return out;
}

}  // namespace

std::vector<TensorType> BlockedMatMul::infer(const InferContext& context) const {
  context.expect_inputs(kOwnInputs, 1028);
  const TensorType& rows = context.type(0);
  if (rows.dtype != DType::f32 && rows.dtype != DType::f16 && rows.dtype != DType::bf16)
    fail(ErrorKind::bad_file, "rows ", rows, " of a blocked_matmul");
  std::vector<Operand> operands;
  for (size_t i = 0; i < context.size(); ++i)
    operands.push_back({context.has(i) ? &context.type(i) : nullptr, context.constant(i), context.contents(i)});
  const std::vector<TensorType> floats =
      weights().infer(InferContext(std::span(operands).subspan(1, kOwnInputs - 1), DequantizeBlocks::name));
  operands.erase(operands.begin() + 2, operands.begin() + kOwnInputs);
  const TensorType wide{DType::f32, rows.shape};
  operands[0] = {&wide};
  operands[1] = {&floats[0]};
  return product().infer(InferContext(operands, MatMul::name));
}

std::vector<Tensor> BlockedMatMul::reference(std::span<const Tensor> inputs,
                                             std::span<const TensorType> outputs) const {
  std::vector<Tensor> own{inputs[0].converted(DType::f32),
                          floats_of({inputs[1], inputs[2], inputs[3], block_rows, block_columns})};
  own.insert(own.end(), inputs.begin() + kOwnInputs, inputs.end());
  return product().reference(own, outputs);
}

// Its rows are those of the product, of which the weights are no batch.
bool BlockedMatMul::sliceable(const BatchedNode& node) const {
  for (size_t i = 1; i < kOwnInputs; ++i)
    if (node.has(i) && node.is_batched(i)) return false;
  return node.is_batched(0) && node.broadcasts(kOwnInputs);
}

Operations BlockedMatMul::operations(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const {
  return product().operations(product_types(inputs), outputs);
}

double BlockedMatMul::reference_cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const {
  return product().reference_cost(product_types(inputs), outputs);
}

}  // namespace temper::ops
