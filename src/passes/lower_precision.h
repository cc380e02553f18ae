// SPDX-License-Identifier: Apache-2.0
// Turns an optimised f32 graph into one that multiplies in a narrower float and keeps it between products.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/build_time.h"
#include "graph/graph.h"

namespace temper {

struct LoweredNode {
  std::string node, op;
  std::string reason;  // why it computes on f32 as before; empty: it does not
};

struct LoweringReport {
  std::vector<LoweredNode> nodes;              // one for each node of the given graph, in its order
  int64_t products = 0, lowered_products = 0;  // f32 convolutions and matrix products; those that are narrower now
};

struct Lowering : LoweringReport {
  Graph graph;
  bool changed = false;  // something is narrower
};

struct LoweringOptions {
  // The products that are lowered; all where nothing is said.
  std::optional<std::set<std::string>> only;
  // Products that stay in f32, and values that are stored in f32, with the reason, which stands behind "its operand".
  std::map<std::string, std::string> kept, wide;
  // Values that are stored in f32 as asked; a product that reads one takes it in the narrower dtype.
  std::set<std::string> in_f32;
  // Values that are scales of rows (quantize/row_scales.h): they stay in f32, and what they are made of counts as read
  // by a product.
  std::set<std::string> row_scales;
  // Constants that a product's epilogue reads (biases) are stored in the narrower dtype, too, where none becomes
  // infinite: libraries for GPUs take them in no other dtype.
  bool narrow_biases = false;
  // The input of normalize behind a product, and of softmax in f16 (bf16 has too few digits for exponents), is stored
  // in the narrower dtype, too: for devices whose kernels widen it themselves.
  bool narrow_rows = false;
};

// The rules, for `dtype` bf16 (f16 alike); throws Error{usage} for any other, and where options.only names what is no
// product.
//
// Products: a convolution with constant weights, or a matrix product, takes both operands in bf16 and sums in f32. Its
// epilogue starts at the f32 accumulator, computes in f32 as before (biases stay f32), and rounds once, at its end,
// where a bf16 value is wanted. Constants are rounded to nearest, ties to even; weights in blocks (dequantize_blocks)
// stay in blocks, and become floats of bf16.
//
// Values: a value between products is bf16. That is what a product reads, through any ops that move elements, take the
// largest or an average (pool, reduce), or compute element by element behind a product. What lies before the first
// product or behind the last one, or is graph input or output, stays f32, and so does a residual that no product reads.
//
// Products of 8-bit integers stay as they are, and count as products for what lies between them and others: what they
// read behind their accumulator, what they give, and what is quantized for them is bf16 where it was f32 (not with
// options.only). One that is kept stays as it is, too, and around it is f32.
//
// Pointwise nodes compute in f32; bf16 inputs are cast where they are read, the result where it is stored.
//
// Squares and their sums, on the way to a root, a quotient or a logarithm, are stored in f32
// (passes/support/squares.h), and so is what the options name. A product with such an operand stays in f32; one with
// such a result sums in f32 anyway and stores that.
//
// Everything else (softmax, normalize, sums of squares or exponentials, what has no bf16 kernel) stays in f32 on both
// sides; casts stand where a value is wanted in both dtypes, and kernels may take them in (passes/fuse_neighbours.h).
Lowering lower_precision(const Graph& graph, DType dtype, const LoweringOptions& options = {},
                         const BuildTime& time = {});

// Convolutions and matrix products of f32 may take their operands in TF32 (ops::Conv::tf32): 10 bits of mantissa,
// summed in f32. Values stay f32 wherever they are stored. `kept`: products that take them in f32, with the reason.
Lowering allow_tf32(const Graph& graph, const std::map<std::string, std::string>& kept = {},
                    const BuildTime& time = {});

}  // namespace temper
