// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/window.h"

#include "base/checked.h"

namespace temper::ops {

void check_window(const Window& w, int64_t spatial_rank) {
  const size_t n = size_t(spatial_rank);
  if (w.kernel.size() != n || w.strides.size() != n || w.dilations.size() != n || w.pads.size() != 2 * n)
    fail(ErrorKind::bad_file, "a window over ", spatial_rank, " spatial axes has kernel ", w.kernel, ", strides ",
         w.strides, ", dilations ", w.dilations, ", pads ", w.pads);
  auto check = [](const std::vector<int64_t>& values, int64_t least, std::string_view what) {
    for (int64_t v : values)
      if (v < least || v > (int64_t(1) << 31)) fail(ErrorKind::bad_file, what, ' ', values, " is out of range");
  };
  check(w.kernel, 1, "kernel");
  check(w.strides, 1, "strides");
  check(w.dilations, 1, "dilations");
  check(w.pads, 0, "pads");
}

Dim window_output(const Window& w, int64_t axis, const Dim& input) {
  const size_t i = size_t(axis);
  if (w.pad_mode != PadMode::explicit_pads) return ceil_div(input, Dim(w.strides[i]));
  const int64_t begin = w.pads[i], end = w.pads[i + w.kernel.size()];
  const int64_t extent = checked_add(checked_mul(w.dilations[i], w.kernel[i] - 1), int64_t(1));
  const Dim span = input + Dim(begin + end) - Dim(extent);
  if (span.is_constant() && span.value() < 0)
    fail(ErrorKind::bad_file, "a window of ", extent, " does not fit into ", input, " with padding ", begin, "+", end);
  if (!w.ceil_mode) return floor_div(span, Dim(w.strides[i])) + Dim(1);
  const Dim out = ceil_div(span, Dim(w.strides[i])) + Dim(1);
  // ONNX and PyTorch: a window must start inside the input or its left padding.
  return dim_min(out, floor_div(input + Dim(begin) - Dim(1), Dim(w.strides[i])) + Dim(1));
}

std::pair<int64_t, int64_t> window_pads(const Window& w, int64_t axis, int64_t input) {
  const size_t i = size_t(axis);
  if (w.pad_mode == PadMode::explicit_pads) return {w.pads[i], w.pads[i + w.kernel.size()]};
  const int64_t extent = w.dilations[i] * (w.kernel[i] - 1) + 1;
  const int64_t total =
      std::max<int64_t>(0, ((input + w.strides[i] - 1) / w.strides[i] - 1) * w.strides[i] + extent - input);
  const int64_t small = total / 2;
  return w.pad_mode == PadMode::same_upper ? std::pair{small, total - small} : std::pair{total - small, small};
}

std::vector<OnnxAttribute> onnx_attributes(const Window& window) {
  std::vector<OnnxAttribute> attributes{
      {"kernel_shape", window.kernel}, {"strides", window.strides}, {"dilations", window.dilations}};
  if (window.pad_mode == PadMode::explicit_pads) attributes.push_back({"pads", window.pads});
  else attributes.push_back({"auto_pad", window.pad_mode == PadMode::same_upper ? "SAME_UPPER" : "SAME_LOWER"});
  return attributes;
}

}  // namespace temper::ops
