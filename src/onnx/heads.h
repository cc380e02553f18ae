// SPDX-License-Identifier: Apache-2.0
// The two ways in which ONNX's attentions hold heads: side by side in the last axis, and on an axis of their own.
#pragma once
#include "onnx/node.h"

namespace temper {

// [B,H,S,D] -> [B,S,H*D]
ValueId merge_heads(OnnxNode& node, ValueId x);
// [B,S,H*D] -> [B,H,S,D]
ValueId split_heads(OnnxNode& node, ValueId x, int64_t heads);

}  // namespace temper
