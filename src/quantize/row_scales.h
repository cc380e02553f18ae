// SPDX-License-Identifier: Apache-2.0
// Rows in 8 bits by scales of their own, which are computed as the values come: what a matrix product reads with one
// scale for each token.
#pragma once
#include <map>

#include "graph/graph.h"

namespace temper {

struct QuantizedRows {
  ValueId integers, scales;  // i8 of the value's shape, f32 of its shape with a last axis of 1
};

// The scale of an f32 value, symmetric: scale = max |x| / 127 over the last axis, but no less than the smallest normal
// f32, so that a row of zeros is one of zeros; integers = round(x * (1 / scale)), half to even. A row with NaN has the
// scale NaN, one with an infinity the scale infinity, and the integers of both are zeros: what a product makes of such
// a row is NaN.
QuantizedRows quantize_rows(Graph& graph, ValueId x, const std::string& name);

// Steps that make the parts of a row's quantization, by the ends of their names behind that of the value.
inline constexpr std::string_view kRowSteps[] = {"/largest", "/least", "/row_scales", "/quantize_rows"};

// The matrix product of f32 with constant weights as one of such rows and of weights in i8, [K,N] or transposed, which
// have one scale for each column: its epilogue begins with cast(sum) * weight scale * row scale, all in f32. `inputs`:
// those of the product that its epilogue reads, in the new graph. Gives the op's results.
std::vector<ValueId> add_row_product(Graph& graph, const Node& product, const QuantizedRows& rows, ValueId weights,
                                     ValueId weight_scales, const std::vector<ValueId>& inputs,
                                     const std::vector<std::string>& names);

}  // namespace temper
