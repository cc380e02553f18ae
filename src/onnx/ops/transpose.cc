// SPDX-License-Identifier: Apache-2.0
// Imports Transpose, DepthToSpace and SpaceToDepth.
#include "graph/ops/transpose.h"

#include "onnx/node.h"

namespace temper {

void import_Transpose(OnnxNode& node) {
  ops::Transpose op;
  for (int64_t i = node.type(0).rank(); i-- > 0;) op.perm.push_back(i);
  op.perm = node.ints_attribute("perm", op.perm);
  node.set_output(0, node.add(op, {node.input(0)}));
}

namespace {
int64_t block_size(OnnxNode& node) {
  const int64_t block = node.int_attribute("blocksize");
  if (block < 1 || block > (1 << 20)) node.bad("blocksize is ", block);
  if (node.type(0).rank() != 4) node.bad("the input ", node.type(0), " does not have rank 4");
  return block;
}
void expect_divisible(OnnxNode& node, const Dim& dim, int64_t by) {
  if (dim.is_constant() && dim.value() % by != 0)
    node.bad("a dimension of ", node.type(0), " is not a multiple of ", by);
}
ValueId transpose(OnnxNode& node, ValueId x, std::vector<int64_t> perm) {
  ops::Transpose op;
  op.perm = std::move(perm);
  return node.add(op, {x});
}
}  // namespace

void import_DepthToSpace(OnnxNode& node) {
  const int64_t block = block_size(node);
  const std::string mode = node.string_attribute("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") node.bad("mode is '", mode, "'");
  const Shape s = node.type(0).shape;
  expect_divisible(node, s[1], block * block);
  const Dim depth = floor_div(s[1], Dim(block * block)), b(block);
  ValueId y = mode == "DCR"
                  ? transpose(node, node.reshape(node.input(0), {s[0], b, b, depth, s[2], s[3]}), {0, 3, 4, 1, 5, 2})
                  : transpose(node, node.reshape(node.input(0), {s[0], depth, b, b, s[2], s[3]}), {0, 1, 4, 2, 5, 3});
  node.set_output(0, node.reshape(y, {s[0], depth, s[2] * b, s[3] * b}));
}

void import_SpaceToDepth(OnnxNode& node) {
  const int64_t block = block_size(node);
  const Shape s = node.type(0).shape;
  expect_divisible(node, s[2], block);
  expect_divisible(node, s[3], block);
  const Dim b(block), h = floor_div(s[2], b), w = floor_div(s[3], b);
  const ValueId y = transpose(node, node.reshape(node.input(0), {s[0], s[1], h, b, w, b}), {0, 3, 5, 1, 2, 4});
  node.set_output(0, node.reshape(y, {s[0], s[1] * b * b, h, w}));
}

}  // namespace temper
