// SPDX-License-Identifier: Apache-2.0
// Imports DeformConv: each element of the kernel samples the picture at a place of its own, by GridSample with places
// in f64, and a convolution with a kernel of one element sums the samples.
#include "onnx/node.h"

namespace temper {

void import_DeformConv(OnnxNode& node) {
  const TensorType x = node.type(0), w = node.type(1);
  if (x.rank() != 4 || w.rank() != 4) node.unsupported("DeformConv on ", x, " with a kernel ", w);
  for (size_t i = 1; i < 4; ++i)
    if (!w.shape[i].is_constant()) node.refuse("a kernel ", w, "; give a fixed shape with --shapes");
  const int64_t inner = w.shape[1].value(), kh = w.shape[2].value(), kw = w.shape[3].value(), k = kh * kw;
  const int64_t group = node.int_attribute("group", 1), offsets = node.int_attribute("offset_group", 1);
  const auto kernel = node.ints_attribute("kernel_shape", {kh, kw}), strides = node.ints_attribute("strides", {1, 1}),
             dilations = node.ints_attribute("dilations", {1, 1}), pads = node.ints_attribute("pads", {0, 0, 0, 0});
  if (kernel != std::vector<int64_t>{kh, kw} || strides.size() != 2 || dilations.size() != 2 || pads.size() != 4 ||
      group < 1 || offsets < 1 || k < 1)
    node.bad("kernel_shape ", kernel, ", strides ", strides, ", dilations ", dilations, ", pads ", pads, ", groups ",
             group, " and ", offsets, " for a kernel ", w);
  const Dim channels = x.shape[1];
  if (channels.is_constant() && (channels.value() != inner * group || channels.value() % offsets != 0))
    node.bad("an input ", x, " for a kernel ", w, ", ", group, " groups and ", offsets, " groups of offsets");
  if (node.type(2).rank() != 4 || node.type(2).shape[1] != Dim(2 * offsets * k)) node.bad("offsets ", node.type(2));
  if (node.has(4) && (node.type(4).rank() != 4 || node.type(4).shape[1] != Dim(offsets * k)))
    node.bad("a mask ", node.type(4));
  auto places = [&](bool rows) {
    Tensor tensor(DType::f64, rows ? Dims{k, 1, 1} : Dims{k, 1, 1});
    for (int64_t i = 0; i < k; ++i)
      tensor.data<double>()[i] = double(rows ? i / kw * dilations[0] : i % kw * dilations[1]);
    return node.constant(tensor);
  };
  auto f64 = [&](int64_t value) { return node.scalar(DType::f64, double(value)); };
  const std::string masked =
      node.has(4)
          ? concat(
                "mask_shape = Concat <axis = 0> (n, groups, one_, kernel, hw) mask_ = Reshape(mask, mask_shape) "
                "weighed = Mul(parts, mask_)\n")
          : "weighed = Identity(parts)\n";
  const std::string text = concat(
      R"((x, w, offset, bias, mask, ky, kx, sy, sx, ty, tx, half, two) => (y) {
    zero = Constant <value_int = 0> () one = Constant <value_int = 1> () last = Constant <value_ints = [-1]> ()
    one_ = Constant <value_ints = [1]> () two_ = Constant <value_ints = [2]> ()
    groups = Constant <value_ints = [)",
      offsets, "]> () kernel = Constant <value_ints = [", k, "]> () kernels = Constant <value_ints = [", offsets * k,
      "]> ()", R"(
    n = Shape <end = 1> (x) c = Shape <start = 1, end = 2> (x) ih_ = Shape <start = 2, end = 3> (x)
    iw_ = Shape <start = 3> (x)
    hw = Shape <start = 2> (offset) oh_ = Shape <start = 2, end = 3> (offset) ow_ = Shape <start = 3> (offset)
    oh = Squeeze(oh_) ow = Squeeze(ow_) ih = CastLike(ih_, two) iw = CastLike(iw_, two)
    offset_shape = Concat <axis = 0> (n, groups, kernel, two_, hw) offset_ = Reshape(offset, offset_shape)
    dy_ = Gather <axis = 3> (offset_, zero) dx_ = Gather <axis = 3> (offset_, one)
    dy = CastLike(dy_, two) dx = CastLike(dx_, two)
    row = Range(zero, oh, one) column = Range(zero, ow, one)
    row_ = CastLike(row, two) column_ = CastLike(column, two) rows_ = Unsqueeze(row_, last)
    rows = Mul(rows_, sy) columns = Mul(column_, sx)
    ry = Sub(rows, ty) rx = Sub(columns, tx) by = Add(ry, ky) bx = Add(rx, kx) py = Add(dy, by) px = Add(dx, bx)
    cy = Add(py, half) cx = Add(px, half) fy = Mul(cy, two) fx = Mul(cx, two) qy = Div(fy, ih) qx = Div(fx, iw)
    unit = Div(two, two) ny = Sub(qy, unit) nx = Sub(qx, unit)
    ny_ = Unsqueeze(ny, last) nx_ = Unsqueeze(nx, last) grid_ = Concat <axis = -1> (nx_, ny_)
    pictures = Mul(n, groups) height = Mul(kernel, oh_) grid_shape = Concat <axis = 0> (pictures, height, ow_, two_)
    grid = Reshape(grid_, grid_shape)
    deep = Div(c, groups) x_shape = Concat <axis = 0> (pictures, deep, ih_, iw_) x_ = Reshape(x, x_shape)
    samples = GridSample <mode = "linear", padding_mode = "zeros", align_corners = 0> (x_, grid)
    parts_shape = Concat <axis = 0> (n, groups, deep, kernel, hw) parts = Reshape(samples, parts_shape)
    )",
      masked, R"(wide = Mul(c, kernel) all_shape = Concat <axis = 0> (n, wide, hw) all = Reshape(weighed, all_shape)
    w_shape = Constant <value_ints = [0, -1, 1, 1]> () w_ = Reshape(w, w_shape)
    y = Conv <group = )",
      group, "> (all, w_, bias) }");
  const auto y = node.body(text, {node.input(0), node.input(1), node.input(2), node.optional_input(3),
                                  node.optional_input(4), places(true), places(false), f64(strides[0]), f64(strides[1]),
                                  f64(pads[0]), f64(pads[1]), node.scalar(DType::f64, 0.5), f64(2)});
  node.set_output(0, y[0]);
}

}  // namespace temper
