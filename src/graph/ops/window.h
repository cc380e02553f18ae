// SPDX-License-Identifier: Apache-2.0
// The sliding window that conv, conv_transpose and pool share. Vectors have one entry per spatial axis; pads has all
// beginnings, then all ends, as in ONNX.
#pragma once
#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/onnx_form.h"

namespace temper::ops {

enum class PadMode {
  explicit_pads,
  same_upper,
  same_lower
};  // "same": output = ceil(input / stride), whatever the shape
constexpr std::array<std::string_view, 3> enum_names(PadMode) { return {"explicit_pads", "same_upper", "same_lower"}; }

struct Window {
  std::vector<int64_t> kernel, strides, dilations, pads;
  PadMode pad_mode = PadMode::explicit_pads;
  bool ceil_mode = false;  // the last, partial window counts; one that starts in the right padding does not
};

// Sizes and signs agree with `spatial_rank`; throws Error{bad_file}.
void check_window(const Window& window, int64_t spatial_rank);
// The output size along spatial axis `axis`.
Dim window_output(const Window& window, int64_t axis, const Dim& input);
// {begin, end} padding along `axis` for a concrete input size; resolves the "same" modes.
std::pair<int64_t, int64_t> window_pads(const Window& window, int64_t axis, int64_t input);
// The attributes that ONNX's convolutions and pools have of it.
std::vector<OnnxAttribute> onnx_attributes(const Window& window);

}  // namespace temper::ops
