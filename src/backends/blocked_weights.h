// SPDX-License-Identifier: Apache-2.0
// The weights of a product in blocks as one walks over them, for the tactics that pack them.
#pragma once
#include "backends/tactic.h"
#include "graph/ops/blocked_matmul.h"

namespace temper {

// The blocked weights of `op`: integers, scales and zero points are the problem's inputs from `first` on, all constant.
inline ops::BlockedMatrix blocked_weights(const Problem& problem, const ops::BlockedMatMul& op, size_t first) {
  const Port& zero = problem.inputs[first + 2];
  return {*problem.inputs[first].constant, *problem.inputs[first + 1].constant,
          zero.present ? *zero.constant : Tensor(), op.block_rows, op.block_columns};
}

}  // namespace temper
