// SPDX-License-Identifier: Apache-2.0
// Imports Col2Im: every column's elements are added up where they come from, in a padded picture that is cut
// afterwards.
#include "base/checked.h"
#include "graph/ops/broadcast.h"
#include "graph/ops/scatter.h"
#include "graph/ops/slice.h"
#include "onnx/node.h"

namespace temper {

void import_Col2Im(OnnxNode& node) {
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
