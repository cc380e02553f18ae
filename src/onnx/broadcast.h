// SPDX-License-Identifier: Apache-2.0
// Broadcasting as the opset of a node defines it.
#pragma once
#include "onnx/node.h"

namespace temper {

// The two inputs of a binary op, ready for numpy's broadcasting. Before opset 7 the second input was aligned with the
// first by the attributes `broadcast` and `axis`; it is reshaped here.
std::pair<ValueId, ValueId> binary_inputs(OnnxNode& node);

// A vector [C] as [C,1,...,1], so that it broadcasts along axis `axis` of a tensor of rank `rank`.
ValueId along_axis(OnnxNode& node, ValueId vector, int64_t axis, int64_t rank);

}  // namespace temper
