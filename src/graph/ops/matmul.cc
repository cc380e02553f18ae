// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/matmul.h"

#include "graph/ops/pointwise.h"

namespace temper::ops {

std::vector<TensorType> MatMul::infer(const InferContext& context) const {
  context.expect_inputs(2, 1026);
  context.expect_rank(0, 2);
  context.expect_rank(1, 2);
  const TensorType &a = context.type(0), &b = context.type(1);
  const size_t ra = a.shape.size(), rb = b.shape.size();
  const Dim &m = a.shape[ra - (transpose_a ? 1 : 2)], &ka = a.shape[ra - (transpose_a ? 2 : 1)];
  const Dim &kb = b.shape[rb - (transpose_b ? 1 : 2)], &n = b.shape[rb - (transpose_b ? 2 : 1)];
  if (ka.is_constant() && kb.is_constant() && ka != kb)
    fail(ErrorKind::bad_file, "matrices ", a, transpose_a ? " (transposed)" : "", " and ", b,
         transpose_b ? " (transposed)" : "", " do not fit together");
  Shape shape = broadcast_shapes(Shape(a.shape.begin(), a.shape.end() - 2), Shape(b.shape.begin(), b.shape.end() - 2));
  shape.push_back(m);
  shape.push_back(n);
  return {{infer_epilogue(epilogue, accumulator_of(a.dtype, b.dtype), shape, context, 2), shape}};
}

std::vector<Tensor> MatMul::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  if (inputs[0].dtype() == DType::f8e4m3fn) {  // its numbers are exact as f32
    std::vector<Tensor> wide(inputs.begin(), inputs.end());
    for (Tensor* operand : {&wide[0], &wide[1]}) *operand = operand->converted(DType::f32);
    return reference(wide, outputs);
  }
  const Tensor &a = inputs[0], &b = inputs[1];
  const Dims out = outputs[0].dims();
  const size_t batch_rank = out.size() - 2;
  const int64_t m = out[batch_rank], n = out[batch_rank + 1];
  const int64_t k = a.dims()[a.dims().size() - (transpose_a ? 2 : 1)];
  const Dims batch(out.begin(), out.begin() + int64_t(batch_rank));
  auto batch_strides = [&](const Tensor& t) {
    Dims strides = broadcast_strides(Dims(t.dims().begin(), t.dims().end() - 2), batch);
    for (int64_t& s : strides) s *= t.dims()[t.dims().size() - 1] * t.dims()[t.dims().size() - 2];
    return strides;
  };
  const Dims as = batch_strides(a), bs = batch_strides(b);
  const int64_t a_row = transpose_a ? 1 : k, a_col = transpose_a ? m : 1, b_row = transpose_b ? 1 : n,
                b_col = transpose_b ? k : 1;
  Tensor acc(accumulator_of(a.dtype(), b.dtype()), out);
  visit_dtype(a.dtype(), [&]<class T>() {
    // Sums of 8-bit operands are exact and kept as i32, those of fp16 and bf16 as f32.
    constexpr bool narrow = std::is_same_v<T, int8_t> || std::is_same_v<T, uint8_t>;
    using B = std::conditional_t<narrow, int8_t, T>;
    using A = std::conditional_t<narrow, int32_t,
                                 std::conditional_t<std::is_same_v<T, BFloat16> || std::is_same_v<T, Half>, float, T>>;
    for_each_index(batch, [&](const Dims& index, int64_t at) {
      const T* pa = a.data<T>();
      const B* pb = b.data<B>();
      for (size_t i = 0; i < batch_rank; ++i) pa += index[i] * as[i], pb += index[i] * bs[i];
      A* po = acc.data<A>() + at * m * n;
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          Wide<T> sum = 0;
          for (int64_t l = 0; l < k; ++l)
            sum += static_cast<Wide<T>>(pa[i * a_row + l * a_col]) * static_cast<Wide<B>>(pb[l * b_row + j * b_col]);
          po[i * n + j] = static_cast<A>(sum);
        }
    });
  });
  std::vector<Tensor> operands{acc};
  operands.insert(operands.end(), inputs.begin() + 2, inputs.end());
  return {run_program(epilogue, operands, out)};
}

bool MatMul::sliceable(const BatchedNode& node) const {
  if (!node.is_batched(0) || !node.broadcasts(2)) return false;
  const size_t rank = node.shape(0).size();
  if (rank == 2) return !transpose_a && !node.is_batched(1) && node.shape(1).size() == 2;
  if (rank != node.out().size()) return false;
  return node.is_batched(1) ? node.shape(1).size() == rank : node.shape(1).size() < rank || node.shape(1)[0] == Dim(1);
}

Operations MatMul::operations(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const {
  const Dims a = inputs[0].dims();
  const int64_t inner = a.empty() ? 1 : a.size() == 1 || !transpose_a ? a.back() : a[a.size() - 2];
  const int64_t out = element_count(outputs[0]);
  return {2 * out * inner, computing_steps(epilogue) * out};
}

double MatMul::reference_cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const {
  return contraction_cost(inputs[1], outputs[0]);
}

}  // namespace temper::ops
