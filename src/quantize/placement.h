// SPDX-License-Identifier: Apache-2.0
// Places quantization: an optimised f32 graph and its ranges become a graph with quantize and dequantize nodes. The
// canonical form: activations s8 symmetric with one scale a tensor, weights s8 symmetric with one scale an output
// channel; or both in f8e4m3fn, with scales alike.
#pragma once
#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/build_time.h"
#include "graph/graph.h"
#include "quantize/ranges.h"

namespace temper {

// Nodes that are not quantized, by name, and what they compute in: f32, bf16 or f16. In the placed graph they are f32
// all the same; lower_precision takes the others on from there.
using KeptNodes = std::map<std::string, DType>;
std::string kept_word(DType dtype);  // "fp32", "fp16" or "bf16", as in --keep-fp32

// Of the activations that matrix products with constant weights read: one scale for all of a value, by its range, or
// one for each row (quantize/row_scales.h), which needs no range.
enum class ActivationScales { tensor, token };
constexpr std::array<std::string_view, 2> enum_names(ActivationScales) { return {"tensor", "token"}; }
ActivationScales parse_activation_scales(std::string_view name);  // throws Error{usage}

struct PlacementOptions {
  ActivationScales activation_scales = ActivationScales::tensor;
  DType dtype = DType::i8;  // or f8e4m3fn
  bool keep_first = false;  // convolutions and products that no other one stands before stay in f32
  bool keep_last = false;   // ... that no other one follows
  KeptNodes keep_nodes;
  std::set<std::string>
      keep_values;  // stored in f32 where 16 bits are asked for, too; of no effect where they are not there
};

struct PlacedNode {
  std::string node, op;
  bool integer = false;  // computes on, or moves, what has 8 bits
  std::string reason;    // why not, where it does not
};

struct Placement {
  Graph graph;
  std::vector<PlacedNode> nodes;               // one for each node of the given graph, in its order
  std::vector<std::string> warnings;           // what the user should read: a tensor without a usable range, ...
  int64_t products = 0, integer_products = 0;  // convolutions and matrix products, and how many of them are integer
  std::set<std::string> row_scales;            // values of the graph: scales of rows, which stay in f32
};

// The rules. A convolution or matrix product of f32 is quantized where its weights are constant (a product's: the
// second operand, a matrix) and its input has a usable range; so is the residual that its epilogue adds. Each quantized
// value has one quantize and one dequantize node, which all its users share; graph outputs stay as computed. Max and
// average pools, concat, reshape, transpose, slice, pad and nearest resize in front of a quantized value are in 8 bits
// too; where an op leaves values as they are, its inputs and output share one scale, that of the widest range. Weights:
// scale = max |w| / 127 in f32 for each output channel, 1/127 for a channel of zeros. A value without a range that was
// only reshaped or transposed has that of what it was made from. Any other missing or unusable range keeps what needs
// it in f32, with a warning that names the value. Throws Error{usage} where keep_nodes names no node of the graph, or
// the ranges name no value of it at all.
//
// In f8e4m3fn: matrix products alone, and what only moves elements in front of them; residuals stay as they are. The
// scale is that of the largest magnitude that was seen, which becomes 448, the largest number.
//
// With scales for each token a matrix product reads its input as it was computed, quantized by rows, once for all such
// products that read it, and is folded already; its residual stays f32. Without any ranges what needs one stays in f32,
// and a graph with no product for such scales is Error{usage}.
Placement place_quantization(const Graph& graph, const Ranges& ranges, const PlacementOptions& options = {},
                             const BuildTime& time = {});

// Throws Error{usage} where one of the names is no node's of the graph.
void check_kept(const Graph& graph, const KeptNodes& keep);

}  // namespace temper
