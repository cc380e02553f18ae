// SPDX-License-Identifier: Apache-2.0
// The epilogue of an integer product (it starts at the i32 accumulator) as oneDNN's int8 primitives compute it, in
// their order and all in f32: + bias, * scale, + residual * its scale (one rounding), relu or clip, round half to even,
// + zero point; then saturate. passes/fold_quantization writes epilogues in that form, so the bits agree.
#pragma once
#include "backends/cpu/onednn.h"

namespace temper {

// The type that the primitive takes input 0 for: i8 without negative numbers is u8, which VNNI multiplies as it is; i8
// it has to shift, and to correct for that.
DType integer_input_dtype(const Problem& problem);

struct IntegerEpilogue {
  // Extra inputs (-1: none) that are constants of one element or one per channel; without one, the number.
  int bias = -1, scale = -1;
  double bias_number = 0, scale_number = 1;
  // An 8-bit extra input of the output's shape: the primitive expects it where it writes.
  int residual = -1;
  double residual_scale = 1;
  int32_t residual_zero = 0;
  DType residual_dtype = DType::i8;
  bool relu = false;
  double limit = -1;          // >= 0: the clip's upper bound
  int32_t zero_point = 0;     // of the output
  DType stored = DType::i32;  // what the primitive writes
  Program rest;               // on that; inputs: it, then every extra input of the epilogue
  bool has_bias() const { return bias >= 0 || bias_number != 0; }
};
// How far to go: all of an epilogue that ends in 8 bits; up to the scale, giving f32; nothing, giving i32.
enum class IntegerAbsorb { all, scale, nothing };
constexpr std::array<std::string_view, 3> enum_names(IntegerAbsorb) { return {"all", "scale", "nothing"}; }

// Nothing where the epilogue does not go that far. `channel_axis` is the output axis that biases and scales run along.
std::optional<IntegerEpilogue> absorb_integer_epilogue(const Problem& problem, const Program& epilogue,
                                                       size_t channel_axis, IntegerAbsorb how);

// Bias (padded to nothing: [channels]) and scales (1 or channels) from the problem's constants; throws Error{bad_file}
// where they are not there.
std::vector<float> bias_of(const Problem& problem, const IntegerEpilogue& epilogue, int64_t channels);
std::vector<float> scales_of(const Problem& problem, const IntegerEpilogue& epilogue);
// Scales, post-ops and zero point as the primitive's attributes. `scale_mask` is oneDNN's for one scale per channel.
// Without `scales` (when only existence is asked for) ones stand in.
dnnl::primitive_attr int8_attributes(const IntegerEpilogue& epilogue, int scale_mask, const std::vector<float>& scales);

// |acc| of an integer product stays below 2^24, where f32 holds it exactly: some primitives convert before they store
// i32. True where the weights are not known (any more). `channels` rows of weights, the channel axis outermost or
// innermost.
bool sums_fit_f32(const Problem& problem, int64_t channels, bool channels_outermost);

}  // namespace temper
