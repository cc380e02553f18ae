// SPDX-License-Identifier: Apache-2.0
// Weight-only quantization: the constant matrices of products become integers of 8 or 4 bits with a scale for each
// block along the sums; activations stay f32, so it needs no data.
#pragma once
#include <string>
#include <vector>

#include "graph/graph.h"

namespace temper {

struct WeightFormat {
  int bits = 8;        // 8 or 4
  int64_t block = 32;  // weights along the sums that share a scale, a multiple of 8; 0: all of a column
};

struct WeightReport {
  int64_t products = 0, quantized = 0;  // matrix products, and how many of them have such weights now
  int64_t floats = 0, integers = 0;     // bytes of the weights of those, before and after
  std::vector<std::string> left;        // "name: why" of the others
};

// A product of f32 is quantized where its second operand is a constant matrix, or the transpose of one. Integers are
// symmetric, -127 to 127 or -7 to 7 times a scale; that of a block is its largest magnitude over 127, or for 4 bits,
// of 16 smaller ones down to 0.7 of that over 7, the one with the least squared error. A block of zeros has scale 1.
// Throws Error{usage} for another format and where `keep` names no product.
WeightReport quantize_weights(Graph& graph, const WeightFormat& format, const std::vector<std::string>& keep = {});

}  // namespace temper
