// SPDX-License-Identifier: Apache-2.0
// Sequences of tensors, as the ops that make and read them need them.
#pragma once
#include "onnx/node.h"

namespace temper {

// All elements of a sequence as one value [n, element's axes...]; they must be of one shape. Throws Error{unsupported}
// where a loop's body is to know what is in front of what it appends.
ValueId stacked(OnnxNode& node, const OnnxSequence& sequence);

// The values behind each other along the first axis.
ValueId joined(OnnxNode& node, const std::vector<ValueId>& parts, int64_t axis = 0);

}  // namespace temper
