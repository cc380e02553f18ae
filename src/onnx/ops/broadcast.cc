// SPDX-License-Identifier: Apache-2.0
// Imports Expand and Tile.
#include "graph/ops/broadcast.h"

#include <cmath>

#include "graph/ops/concat.h"
#include "graph/ops/reshape.h"
#include "graph/ops/shape.h"
#include "onnx/node.h"

namespace temper {

void import_Expand(OnnxNode& node) { node.set_output(0, node.add(ops::Broadcast{}, {node.input(0), node.input(1)})); }

// [a, b] tiled (r, s) times is [1, a, 1, b] broadcast to [r, a, s, b] and read as [r*a, s*b]. The shapes are computed
// in the graph, where they fold away unless the repeats are data.
void import_Tile(OnnxNode& node) {
  const Shape shape = node.type(0).shape;
  const int64_t rank = int64_t(shape.size());
  ValueId repeats;
  if (node.opset() < 6) {  // tiles and axis are inputs
    // Numbers of the type of what is tiled.
    const auto whole = [&](size_t i, std::string_view what) {
      const auto values = node.constant_doubles(i, what);
      if (values.size() != 1 || !(std::abs(values[0]) < 1e9) || values[0] != std::floor(values[0]))
        node.bad(what, " is no whole number");
      return int64_t(values[0]);
    };
    const int64_t tiles = whole(1, "tiles"), axis = whole(2, "axis");
    std::vector<int64_t> all(size_t(rank), 1);
    all[size_t(normalize_axis(axis, rank))] = tiles;
    repeats = node.ints(all);
  } else {
    repeats = node.input(1);
  }
  if (node.graph().type(repeats).shape != Shape{Dim(rank)})
    node.bad("repeats are ", node.graph().type(repeats), " for an input ", node.type(0));
  if (rank == 0) return node.set_output(0, node.input(0));
  ops::ShapeOf shape_of;
  shape_of.end = rank;
  const ValueId sizes = node.add(shape_of, {node.input(0)});
  ops::Concat side_by_side;
  side_by_side.axis = 1;
  const ValueId pairs =
      node.add(side_by_side, {node.reshape(repeats, {Dim(rank), Dim(1)}), node.reshape(sizes, {Dim(rank), Dim(1)})});
  Shape apart;
  for (const Dim& dim : shape) apart.insert(apart.end(), {Dim(1), dim});
  const ValueId wide =
      node.add(ops::Broadcast{}, {node.reshape(node.input(0), apart), node.reshape(pairs, {Dim(2 * rank)})});
  ops::Reshape merge;
  merge.allow_zero = true;
  node.set_output(0, node.add(merge, {wide, node.pointwise(Scalar::mul, {repeats, sizes})}));
}

}  // namespace temper
