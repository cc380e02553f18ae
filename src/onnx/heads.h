// SPDX-License-Identifier: Apache-2.0
// Functions that the attentions of ONNX and of com.microsoft share. They are for heads, which lie side by side in the
// last axis or on an axis of their own, and their rotation.
#pragma once
#include "onnx/node.h"

namespace temper {

// [B,H,S,D] -> [B,S,H*D]
ValueId merge_heads(OnnxNode& node, ValueId x);
// [B,S,H*D] -> [B,H,S,D]
ValueId split_heads(OnnxNode& node, ValueId x, int64_t heads);

namespace microsoft {

// The attribute that says how many heads there are.
int64_t heads_of(OnnxNode& node, const char* name);
// The size of one head of x [...,heads*D], which must be known.
int64_t head_size(OnnxNode& node, ValueId x, int64_t heads);
// The attribute `scale`; 0 stands for the usual one of heads of this size.
double scale_of(OnnxNode& node, int64_t size);
// `size` elements of the axis from `start` on.
ValueId part(OnnxNode& node, ValueId x, size_t axis, const Dim& start, const Dim& size);
// x [B,S,heads*D] with pairs of elements of each head turned: element i with i + R/2, or 2i with 2i + 1 where
// interleaved, of the first R. `cosine` and `sine` broadcast to [B,S,1,R/2].
ValueId rotated(OnnxNode& node, ValueId x, int64_t heads, ValueId cosine, ValueId sine, bool interleaved);

}  // namespace microsoft
}  // namespace temper
