// SPDX-License-Identifier: Apache-2.0
#include "passes/support/images.h"

#include <algorithm>
#include <vector>

#include "graph/ops/concat.h"
#include "graph/ops/conv.h"
#include "graph/ops/normalize.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/reshape.h"
#include "graph/ops/transpose.h"

namespace temper {

bool makes_image(std::span<const int64_t> perm) {
  return perm.size() >= 3 && perm[0] == 0 && perm[1] == int64_t(perm.size()) - 1 &&
         std::is_sorted(perm.begin() + 2, perm.end());
}

bool makes_tokens(std::span<const int64_t> perm) {
  return perm.size() >= 3 && perm[0] == 0 && perm.back() == 1 && std::is_sorted(perm.begin(), perm.end() - 1);
}

bool is_image(const Graph& graph, ValueId id) {
  constexpr int kFar = 32;
  std::vector<ValueId> work{id};
  for (int nodes = 0; nodes < kFar && !work.empty(); ++nodes) {
    id = work.back();
    work.pop_back();
    const Node* node = graph.producer(id);
    if (!node || node->inputs.empty()) continue;
    if (node->op.is<ops::Conv>()) return true;
    if (const auto* op = node->op.get_if<ops::Transpose>(); op && makes_image(op->perm)) return true;
    if (const auto* op = node->op.get_if<ops::Concat>(); op && op->axis == 1) work.push_back(node->inputs[0]);
    if (node->op.is<ops::Normalize>() || node->op.is<ops::Reshape>()) work.push_back(node->inputs[0]);
    if (!node->op.is<ops::Pointwise>()) continue;
    // The sum of an image and anything else is one.
    for (ValueId input : node->inputs)
      if (graph.type(input).shape == graph.type(id).shape) work.push_back(input);
  }
  return false;
}

}  // namespace temper
