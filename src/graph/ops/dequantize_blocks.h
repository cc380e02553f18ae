// SPDX-License-Identifier: Apache-2.0
// dequantize_blocks(x i8|u8 [R,C], scale f32, zero f32?) -> [R,C]: (x - zero) * scale, each rounded to f32, and the
// result to `dtype` (f32, f16, bf16). Blocks of block_rows x block_columns share a scale and a zero point, which have a
// row and a column for each of them; the last ones may reach behind the matrix. So weights of few bits are stored that
// a matmul reads.
#pragma once
#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/op_kind.h"

namespace temper::ops {

struct DequantizeBlocks {
  static constexpr std::string_view name = "dequantize_blocks";
  static constexpr OpKind op_kind = OpKind::dequantize;
  int64_t block_rows = 1, block_columns = 1;
  DType dtype = DType::f32;

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("block_rows", op.block_rows);
    f("block_columns", op.block_columns);
    f("dtype", op.dtype);
  }
  bool operator==(const DequantizeBlocks&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
};

// The inputs of the op as one walks over them; zero may be an undefined tensor.
struct BlockedMatrix {
  Tensor integers, scale, zero;
  int64_t block_rows = 1, block_columns = 1;

  int64_t rows() const { return integers.dims()[0]; }
  int64_t columns() const { return integers.dims()[1]; }
  int64_t integer(int64_t row, int64_t column) const {
    const int64_t at = row * columns() + column;
    return integers.dtype() == DType::i8 ? int64_t(integers.data<int8_t>()[at]) : integers.data<uint8_t>()[at];
  }
  float scale_of(int64_t row, int64_t column) const { return scale.data<float>()[block(row, column)]; }
  float zero_of(int64_t row, int64_t column) const {
    return zero.defined() ? zero.data<float>()[block(row, column)] : 0.f;
  }

 private:
  int64_t block(int64_t row, int64_t column) const {
    return row / block_rows * scale.dims()[1] + column / block_columns;
  }
};
// f32 [R,C].
Tensor floats_of(const BlockedMatrix& matrix);

}  // namespace temper::ops
