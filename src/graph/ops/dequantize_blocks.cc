// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/dequantize_blocks.h"

#include <algorithm>

#include "base/checked.h"
#include "base/threads.h"

namespace temper::ops {

std::vector<TensorType> DequantizeBlocks::infer(const InferContext& context) const {
  context.expect_inputs(2, 3);
  context.expect_rank(0, 2, 2);
  context.expect_rank(1, 2, 2);
  const TensorType &x = context.type(0), &scale = context.type(1);
  if (x.dtype != DType::i8 && x.dtype != DType::u8) fail(ErrorKind::bad_file, "dequantization in blocks of ", x);
  if (block_rows < 1 || block_columns < 1) fail(ErrorKind::bad_file, "blocks of ", block_rows, " x ", block_columns);
  const int64_t blocks[] = {block_rows, block_columns};
  for (size_t i = 0; i < 2; ++i)
    if (x.shape[i].is_constant() && scale.shape[i].is_constant() &&
        scale.shape[i].value() != x.shape[i].value() / blocks[i] + (x.shape[i].value() % blocks[i] != 0))
      fail(ErrorKind::bad_file, "scales ", scale, " for blocks of ", block_rows, " x ", block_columns, " of ", x);
  if (scale.dtype != DType::f32) fail(ErrorKind::bad_file, "the scales of blocks are ", scale);
  if (context.has(2) && context.type(2) != scale)
    fail(ErrorKind::bad_file, "zero points ", context.type(2), " beside scales ", scale);
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16)
    fail(ErrorKind::bad_file, "weights in blocks as ", dtype);
  return {{dtype, x.shape}};
}

std::vector<Tensor> DequantizeBlocks::reference(std::span<const Tensor> inputs, std::span<const TensorType>) const {
  const Tensor floats =
      floats_of({inputs[0], inputs[1], inputs.size() > 2 ? inputs[2] : Tensor(), block_rows, block_columns});
  return {dtype == DType::f32 ? floats : floats.converted(dtype)};
}

Tensor floats_of(const BlockedMatrix& matrix) {
  Tensor out(DType::f32, matrix.integers.dims());
  const int64_t columns = matrix.columns(), step = std::min(std::max<int64_t>(columns, 1), matrix.block_columns);
  float* const to = out.data<float>();
  visit_dtype(matrix.integers.dtype(), [&]<class T>() {
    if constexpr (std::is_same_v<T, int8_t> || std::is_same_v<T, uint8_t>) {
      const T* const from = matrix.integers.data<T>();
      parallel_for(matrix.rows(), std::max<int64_t>(1, (1 << 16) / std::max<int64_t>(columns, 1)),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t r = begin; r < end; ++r)
                       for (int64_t c = 0; c < columns; c += step) {
                         const float scale = matrix.scale_of(r, c), zero = matrix.zero_of(r, c);
                         for (int64_t i = r * columns + c; i < r * columns + std::min(c + step, columns); ++i)
                           to[i] = (float(from[i]) - zero) * scale;
                       }
                   });
    }
  });
  return out;
}

}  // namespace temper::ops
