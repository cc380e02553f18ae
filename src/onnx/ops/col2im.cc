// SPDX-License-Identifier: Apache-2.0
// Imports Col2Im: every column's elements are added up where they come from, in a padded picture that is cut
// afterwards.
#include <string>

#include "base/checked.h"
#include "graph/ops/broadcast.h"
#include "graph/ops/scatter.h"
#include "graph/ops/slice.h"
#include "onnx/body_text.h"
#include "onnx/node.h"

namespace temper {

namespace {

// The same with sizes that are data.
void add_up(OnnxNode& node) {
  const TensorType x = node.type(0), image = node.type(1), block = node.type(2);
  if (x.rank() != 3 || image.rank() != 1 || image.shape != block.shape || !image.shape[0].is_constant())
    node.bad("image_shape ", image, ", block_shape ", block, " for ", x);
  const size_t n = size_t(image.shape[0].value());
  const Dims dilations = node.ints_attribute("dilations", Dims(n, 1)),
             strides = node.ints_attribute("strides", Dims(n, 1)), pads = node.ints_attribute("pads", Dims(2 * n, 0));
  if (n == 0 || n > 8 || dilations.size() != n || strides.size() != n || pads.size() != 2 * n)
    node.bad("dilations ", dilations, ", strides ", strides, ", pads ", pads, " for ", n, " axes");
  for (size_t i = 0; i < n; ++i)
    if (dilations[i] < 1 || strides[i] < 1 || pads[i] < 0 || pads[i + n] < 0)
      node.bad("dilations ", dilations, ", strides ", strides, ", pads ", pads);
  auto number = [](const std::string& name, int64_t value) {
    return concat(name, " = Constant <value_int = ", value, "> ()\n");
  };
  // The place of element k of the block at position c along axis i: k * dilation + c * stride. All of them together are
  // counted as in base `padded`.
  std::string text = concat(
      "(x, image, block, nothing) => (y) {\n", number("zero", 0), number("one", 1), number("place_0", 0),
      number("area_0", 1), number("all_0", 1),
      "first = Constant <value_ints = [0]> () rest = Constant <value_ints = [-1]> () samples = Shape <end = 1> (x)\n");
  std::string padded, begins, axes;
  for (size_t i = 0; i < n; ++i) {
    const std::string k = std::to_string(i), next = std::to_string(i + 1);
    std::string of_block, of_position;  // the other axes of [block..., positions...]
    for (size_t other = 0; other < 2 * n; ++other) {
      if (other != i) of_block += concat(of_block.empty() ? "" : ", ", other);
      if (other != n + i) of_position += concat(of_position.empty() ? "" : ", ", other);
    }
    text += number("i" + k, int64_t(i)) + number("pad" + k, pads[i] + pads[i + n]) +
            number("dilation" + k, dilations[i]) + number("stride" + k, strides[i]) +
            body_text(R"(
image$k = Gather(image, i$k) block$k = Gather(block, i$k) padded$k = Add(image$k, pad$k) less$k = Sub(block$k, one)
reach$k = Mul(less$k, dilation$k) room_$k = Sub(padded$k, reach$k) room$k = Sub(room_$k, one)
steps$k = Div(room$k, stride$k) columns$k = Add(steps$k, one)
in_block_$k = Range(zero, block$k, one) in_block$k = Mul(in_block_$k, dilation$k)
position_$k = Range(zero, columns$k, one) position$k = Mul(position_$k, stride$k)
block_axes$k = Constant <value_ints = [$of_block]> () position_axes$k = Constant <value_ints = [$of_position]> ()
a$k = Unsqueeze(in_block$k, block_axes$k) b$k = Unsqueeze(position$k, position_axes$k) sum$k = Add(a$k, b$k)
larger$k = Mul(place_$k, padded$k) place_$next = Add(larger$k, sum$k)
area_$next = Mul(area_$k, block$k) all_$next = Mul(all_$k, padded$k) padded_$k = Unsqueeze(padded$k, first)
)",
                      {{"$k", k}, {"$next", next}, {"$of_block", of_block}, {"$of_position", of_position}});
    padded += concat(", padded_", k);
    begins += concat(i ? ", " : "", pads[i]);
    axes += concat(i ? ", " : "", i + 2);
  }
  const std::string end = std::to_string(n);
  text += concat(
      "places = Reshape(place_", end,
      ", rest) length = Shape(places) wide = Shape <start = 1, end = 2> (x) channels = Div(wide, area_", end,
      ") all_ = Unsqueeze(all_", end,
      ", first)\n"
      "shape = Concat <axis = 0> (samples, channels, length) index = Expand(places, shape) data = Reshape(x, shape)\n"
      "flat = Concat <axis = 0> (samples, channels, all_) empty = Expand(nothing, flat)\n"
      "added = ScatterElements <axis = 2, reduction = \"add\"> (empty, index, data)\n"
      "whole = Concat <axis = 0> (samples, channels",
      padded, ") picture = Reshape(added, whole) begins = Constant <value_ints = [", begins,
      "]> () ends = Add(begins, image) axes = Constant <value_ints = [", axes,
      "]> () y = Slice(picture, begins, ends, axes) }");
  node.set_output(0, node.body(text, {node.input(0), node.cast(node.input(1), DType::i64),
                                      node.cast(node.input(2), DType::i64), node.scalar(x.dtype, 0)})[0]);
}

}  // namespace

void import_Col2Im(OnnxNode& node) {
  for (size_t i : {size_t(1), size_t(2)})
    if (!node.constant(i) && !node.contents(i)) return add_up(node);
  const Dims image = node.constant_ints(1, "image_shape"), block = node.constant_ints(2, "block_shape");
  const size_t n = image.size();
  const Dims dilations = node.ints_attribute("dilations", Dims(n, 1)),
             strides = node.ints_attribute("strides", Dims(n, 1)), pads = node.ints_attribute("pads", Dims(2 * n, 0));
  const TensorType x = node.type(0);
  if (n == 0 || block.size() != n || dilations.size() != n || strides.size() != n || pads.size() != 2 * n ||
      x.rank() != 3)
    node.bad("image_shape ", image, ", block_shape ", block, ", dilations ", dilations, ", strides ", strides,
             ", pads ", pads, " for ", x);
  Dims padded, columns;
  int64_t area = 1, positions = 1, all = 1;
  constexpr int64_t most = int64_t(1) << 31;
  for (size_t i = 0; i < n; ++i) {
    for (int64_t v : {image[i], block[i], dilations[i], strides[i]})
      if (v < 1 || v > most) node.bad("a size of ", v);
    if (pads[i] < 0 || pads[i + n] < 0 || pads[i] > most || pads[i + n] > most) node.bad("pads ", pads);
    padded.push_back(image[i] + pads[i] + pads[i + n]);
    const int64_t room = padded[i] - checked_mul(dilations[i], block[i] - 1) - 1;
    if (room < 0) node.bad("a block ", block, " does not fit into ", padded);
    columns.push_back(room / strides[i] + 1);
    area = checked_mul(area, block[i]);
    positions = checked_mul(positions, columns[i]);
    all = checked_mul(all, padded[i]);
  }
  if ((x.shape[1].is_constant() && x.shape[1].value() % area != 0) ||
      (x.shape[2].is_constant() && x.shape[2].value() != positions))
    node.bad("an input ", x, " for blocks of ", area, " at ", positions, " positions");
  if (checked_mul(area, positions) > (int64_t(1) << 26))
    node.unsupported("blocks ", block, " at ", positions, " positions");
  // Where in the padded picture each element of each block lies.
  Tensor index(DType::i64, {1, 1, area * positions});
  const Dims at = row_major_strides(padded);
  for_each_index(block, [&](const Dims& k, int64_t b) {
    for_each_index(columns, [&](const Dims& c, int64_t p) {
      int64_t offset = 0;
      for (size_t i = 0; i < n; ++i) offset += (c[i] * strides[i] + k[i] * dilations[i]) * at[i];
      index.data<int64_t>()[b * positions + p] = offset;
    });
  });
  const Dim channels = floor_div(x.shape[1], Dim(area));
  const Shape flat{x.shape[0], channels, Dim(area * positions)};
  const ValueId zeros = node.add(ops::Broadcast{{x.shape[0], channels, Dim(all)}}, {node.scalar(x.dtype, 0)});
  ops::Scatter add;
  add.axis = 2;
  add.reduction = ops::ScatterReduction::add;
  const ValueId sum =
      node.add(add, {zeros, node.add(ops::Broadcast{flat}, {node.constant(index)}), node.reshape(node.input(0), flat)});
  Shape shape{x.shape[0], channels};
  shape.insert(shape.end(), padded.begin(), padded.end());
  ops::Slice cut = ops::slice_all(shape);
  for (size_t i = 0; i < n; ++i) {
    cut.starts[i + 2] = pads[i];
    cut.sizes[i + 2] = image[i];
  }
  node.set_output(0, node.add(cut, {node.reshape(sum, shape)}));
}

}  // namespace temper
