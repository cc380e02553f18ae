// SPDX-License-Identifier: Apache-2.0
// Which values carry the batch as their first axis, and which nodes can run on a slice of it.
#pragma once
#include <vector>

#include "graph/graph.h"

namespace temper {

struct BatchInfo {
  int64_t batch = 1;                 // 1: there is nothing to slice
  std::vector<char> value_batched;   // by value id: axis 0 is the batch
  std::vector<char> node_sliceable;  // by node id: each slice of its batched inputs gives that slice of its outputs
};

// For a graph with concrete shapes. The batch is the first axis of the first input, if every input has it.
BatchInfo analyze_batch(const Graph& graph);

// The op for `slice` of `batch` samples: fields that name the batch are adapted.
Op slice_op(const Op& op, int64_t slice);
TensorType slice_type(const TensorType& type, int64_t slice);

}  // namespace temper
