// SPDX-License-Identifier: Apache-2.0
// Reads quantize and dequantize nodes for passes, and writes them as programs.
#pragma once
#include <optional>

#include "passes/support/simplify.h"

namespace temper {

// A quantize or dequantize node whose scales and zero points are constants, all scales positive and finite.
struct Quantization {
  ValueId value;               // what the node reads: the integers of a dequantize, the floats of a quantize
  ValueId scale, zero;         // its other inputs; zero may be absent
  DType dtype = DType::i8;     // of the integers, or f8e4m3fn
  std::vector<double> scales;  // one, or one for each element of `axis`
  std::vector<int64_t> zeros;  // as many
  int64_t axis = 0;

  bool per_tensor() const { return scales.size() == 1; }
  bool is_narrow() const { return dtype == DType::i8 || dtype == DType::u8; }
  bool is_float8() const { return dtype == DType::f8e4m3fn; }
  bool is_symmetric() const {
    for (int64_t z : zeros)
      if (z != 0) return false;
    return true;
  }
  bool same_numbers(const Quantization& other) const {
    return dtype == other.dtype && scales == other.scales && zeros == other.zeros &&
           (per_tensor() || axis == other.axis);
  }
};

// Of the dequantize node to f32 that gives `value`, of the quantize node from f32 `node`; nothing for any other.
std::optional<Quantization> dequantization_of(const Graph& graph, ValueId value);
std::optional<Quantization> quantization_of(const Graph& graph, NodeId node);

// The one user of `value`, which is no graph output, if that quantizes it per tensor to 8 bits.
std::optional<Quantization> only_quantized(const Graph& graph, ValueId value);

// A quantize or dequantize node as a program that gives the same bits. Scales along an axis become inputs that
// broadcast: constants are reshaped here, other values by a new node.
BoundProgram program_of_quantization(Graph& graph, NodeId node);

// The elements of a constant that has one element, or one for each of the `size` elements of `axis` in a tensor of
// `rank`; nothing for any other value.
std::optional<std::vector<double>> channel_constants(const Graph& graph, ValueId value, int64_t rank, int64_t axis,
                                                     int64_t size);

}  // namespace temper
