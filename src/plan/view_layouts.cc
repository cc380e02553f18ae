// SPDX-License-Identifier: Apache-2.0
#include "plan/view_layouts.h"

#include <algorithm>

#include "graph/ops/bit_cast.h"
#include "graph/ops/reshape.h"
#include "graph/ops/transpose.h"

namespace temper {

namespace {

// Axes cut into pieces that a view keeps together: those of each axis, outermost first, by their number in the
// row-major order of the input. Axes of size 1 have none.
using Pieces = std::vector<std::vector<int>>;

Pieces whole_axes(const Dims& dims) {
  Pieces pieces(dims.size());
  int next = 0;
  for (size_t axis = 0; axis < dims.size(); ++axis)
    if (dims[axis] != 1) pieces[axis].push_back(next++);
  return pieces;
}

// Cuts the axes of both sides of a reshape, which have no elements of 0, so that they consist of the same pieces. False
// where sizes do not divide each other.
bool cut(const Dims& from, const Dims& to, Pieces& before, Pieces& after) {
  before.assign(from.size(), {});
  after.assign(to.size(), {});
  size_t i = 0, j = 0;
  int next = 0;
  int64_t left = 1, right = 1;  // what is not cut of axes i - 1 and j - 1
  while (true) {
    while (left == 1 && i < from.size()) left = from[i++];
    while (right == 1 && j < to.size()) right = to[j++];
    if (left == 1 || right == 1) return left == right;
    const int64_t piece = std::min(left, right);
    if (left % piece || right % piece) return false;
    before[i - 1].push_back(next);
    after[j - 1].push_back(next++);
    left /= piece;
    right /= piece;
  }
}

std::vector<int> in_memory(const Pieces& pieces, Layout layout) {
  std::vector<int> order;
  const auto add = [&](size_t axis) { order.insert(order.end(), pieces[axis].begin(), pieces[axis].end()); };
  const bool last = layout == Layout::channels_last;
  for (size_t axis = 0; axis < pieces.size(); ++axis)
    if (!last || axis != 1) add(axis);
  if (last) add(1);
  return order;
}

}  // namespace

bool is_always_view(const Node& node) {
  return (node.op.is<ops::Reshape>() && node.inputs.size() == 1) || node.op.is<ops::BitCast>();
}

std::vector<Config> view_configs(const Problem& problem) {
  if (problem.inputs.size() != 1) return {};
  const Dims from = problem.inputs[0].dims(), to = problem.outputs[0].dims();
  const auto* transpose = problem.op.get_if<ops::Transpose>();
  if (!transpose && !problem.op.is<ops::Reshape, ops::BitCast>()) return {};
  std::vector<Config> configs;
  if (!transpose) configs.push_back({"", {Layout::plain}, {Layout::plain}});
  if (element_count(from) == 0) return configs;
  Pieces before, after;
  if (transpose) {
    before = whole_axes(from);
    for (int64_t axis : transpose->perm) after.push_back(before[size_t(axis)]);
  } else if (!cut(from, to, before, after)) {
    return configs;
  }
  constexpr Layout kLayouts[] = {Layout::plain, Layout::channels_last};
  for (Layout in : kLayouts)
    for (Layout out : kLayouts) {
      Config config{"", {in}, {out}};
      if (layout_fits(from, in) && layout_fits(to, out) && in_memory(before, in) == in_memory(after, out) &&
          std::find(configs.begin(), configs.end(), config) == configs.end())
        configs.push_back(std::move(config));
    }
  return configs;
}

}  // namespace temper
