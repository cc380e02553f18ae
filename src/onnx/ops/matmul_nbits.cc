// SPDX-License-Identifier: Apache-2.0
// Imports MatMulNBits of com.microsoft, the product with weights of few bits in blocks that quantizers of language
// models write: weights in blocks, and a product. In other floats than f32 a program makes the weights.
#include <algorithm>

#include "base/checked.h"
#include "graph/ops/dequantize_blocks.h"
#include "graph/ops/matmul.h"
#include "onnx/node.h"

namespace temper::microsoft {

namespace {

// `count` numbers of `bits` bits from each row of `bytes`, lowest first, as u8 [rows, count]. A row fills whole bytes.
Tensor unpacked(OnnxNode& node, size_t input, int64_t rows, int64_t count, int64_t bits) {
  const Tensor* packed = node.constant(input);
  if (!packed) node.refuse("input ", input, " is not a constant");
  const int64_t per_byte = 8 / bits, row_bytes = (count + per_byte - 1) / per_byte;
  if (packed->dtype() != DType::u8 || packed->count() != checked_mul(rows, row_bytes))
    node.bad("input ", input, " is ", packed->type(), " for ", rows, " x ", count, " numbers of ", bits, " bits");
  Tensor out(DType::u8, {rows, count});
  const auto* from = packed->data<uint8_t>();
  auto* to = out.data<uint8_t>();
  const int mask = (1 << bits) - 1;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < count; ++i)
      to[row * count + i] = uint8_t(from[row * row_bytes + i / per_byte] >> (i % per_byte * bits) & mask);
  return out;
}

}  // namespace

// Inputs: a [..., K], b [N, blocks, bytes], scales [N, blocks], zero points (packed as b, or of a's type), g_idx, bias.
void import_MatMulNBits(OnnxNode& node) {
  const int64_t k = node.int_attribute("K"), n = node.int_attribute("N"), size = node.int_attribute("block_size");
  const int64_t bits = node.int_attribute("bits", 4);
  node.ignore_attribute("accuracy_level");  // it allows a less exact product
  if (bits != 2 && bits != 4 && bits != 8) node.unsupported(bits, " bits");
  if (k < 1 || n < 1 || size < 16 || size > (int64_t(1) << 20) || (size & (size - 1)) != 0)
    node.bad("K is ", k, ", N is ", n, ", block_size is ", size);
  const TensorType a = node.type(0);
  if (a.rank() < 1 || a.shape.back() != Dim(k)) node.bad("a is ", a, ", and K is ", k);
  const int64_t blocks = (k - 1) / size + 1;
  const Tensor whole = unpacked(node, 1, n, checked_mul(blocks, size), bits);
  // The last block of a row may reach behind its end.
  Tensor weights(DType::u8, {n, k});
  for (int64_t row = 0; row < n; ++row)
    std::copy_n(whole.data<uint8_t>() + row * blocks * size, k, weights.data<uint8_t>() + row * k);
  if (element_count(node.type(2).dims()) != checked_mul(n, blocks))
    node.bad("the scales are ", node.type(2), " for ", n, " x ", blocks, " blocks");
  const ValueId scales = node.reshape(node.input(2), {Dim(n), Dim(blocks)});
  // Quantizers write scales below zero, which DequantizeLinear does not allow; zero points may be fractions of a step.
  ValueId zero;
  if (!node.has(3)) {
    zero = node.scalar(DType::f32, double(1 << (bits - 1)));
  } else if (node.type(3).dtype == DType::u8) {
    zero = node.constant(unpacked(node, 3, n, blocks, bits).converted(DType::f32));
  } else {
    zero = node.cast(node.reshape(node.input(3), {Dim(n), Dim(blocks)}), DType::f32);
  }
  const auto with_bias = [&](ValueId y) {
    node.set_output(0, node.has(5) ? node.pointwise(Scalar::add, {y, node.input(5)}) : y);
  };
  // Which block each of the K belongs to: g_idx, or those that lie side by side.
  Tensor block_of(DType::i64, {k});
  for (int64_t i = 0; i < k; ++i) block_of.data<int64_t>()[i] = i / size;
  bool in_order = true;
  if (node.has(4)) {
    const auto given = node.constant_ints(4, "g_idx");
    if (int64_t(given.size()) != k) node.bad("g_idx is ", node.type(4), ", and K is ", k);
    for (int64_t i = 0; i < k; ++i) {
      if (given[size_t(i)] < 0 || given[size_t(i)] >= blocks)
        node.bad("g_idx has ", given[size_t(i)], " where there are ", blocks, " blocks");
      in_order = in_order && given[size_t(i)] == i / size;
      block_of.data<int64_t>()[i] = given[size_t(i)];
    }
  }
  if (in_order && a.dtype == DType::f32 && a.rank() > 1 && node.type(2).dtype == DType::f32 && node.constant(2) &&
      (node.constant(3) || !node.has(3))) {
    ops::DequantizeBlocks op;
    op.block_columns = size;
    if (!node.has(3)) {
      Tensor middle(DType::f32, {n, blocks});
      std::fill_n(middle.data<float>(), middle.count(), float(1 << (bits - 1)));
      zero = node.constant(std::move(middle));
    }
    const ValueId floats = node.add(op, {node.constant(weights), scales, zero});
    return with_bias(node.product(ops::MatMul{.transpose_b = true}, {node.input(0), floats}));
  }
  const std::string zeros = node.has(3) ? "Gather <axis = 1> (zero, block)" : "Identity(zero)";
  const ValueId y = node.body(
      concat("(a, b, scales, zero, block) => (y) { steps = CastLike(b, scales) factors = Gather <axis = 1> "
             "(scales, block) zeros = ",
             zeros,
             " off = Sub(steps, zeros) scaled = Mul(off, factors) w = CastLike(scaled, a) "
             "t = Transpose <perm = [1, 0]> (w) y = MatMul(a, t) }"),
      {node.input(0), node.constant(weights), node.cast(scales, DType::f32), zero, node.constant(block_of)})[0];
  with_bias(y);
}

}  // namespace temper::microsoft
