// SPDX-License-Identifier: Apache-2.0
// attention(q [B,Sq,H*D], k [B,Sk,G*D], v [B,Sk,G*E], mask?, lengths? i64 [B]) -> [B,Sq,H*E]: for each of H heads the
// softmax of the scores of a query with the keys, times their values. Heads lie side by side in the last axis, G of
// keys and values, each shared by H/G neighbouring heads of queries (grouped heads).
//   score(i, j) = c * tanh(scale * q_i k_j / c) + mask(i, j), with softcap c; without one scale * q_i k_j + mask(i, j)
// A mask has up to four axes that broadcast to [B,H,Sq,Sk], as numpy does; B may also be a multiple of its first axis,
// whose rows are then read over and over, as for windows of pictures. One of bool says which keys take part, one of
// floats is added. Further a key j takes part in query i only where
//   j < lengths[b]  and  p - left <= j <= p + right,
// p being the position of the query: i, or counted from the end i + n - Sq, with n = lengths[b] where there are
// lengths, else Sk. -1 leaves a side open; a causal attention has right = 0. ONNX's causal Attention counts from the
// start without and from the end with past keys.
// A key that does not take part has the score -inf. A query without keys gives NaN, as ONNX says, or zeros where
// `zero_nan` says that a softmax that is NaN is zeros (as PyTorch guards it); where Sk = 0, y is zeros. v must be
// finite at keys that do not take part: otherwise it may be that y is NaN. q, k and v have one dtype, in which y is
// rounded; scores, softmax and sums are of f32 at least.
#pragma once
#include "graph/batched_node.h"
#include "graph/fields.h"
#include "graph/flow.h"
#include "graph/infer.h"
#include "graph/narrow.h"
#include "graph/op_kind.h"
#include "graph/operations.h"

namespace temper::ops {

struct Attention {
  static constexpr std::string_view name = "attention";
  static constexpr OpKind op_kind = OpKind::attention;
  int64_t heads = 1, kv_heads = 1;  // H, G
  double scale = 1;
  int64_t left = -1, right = -1;
  bool from_end = false;
  double softcap = 0;  // 0: none
  bool zero_nan = false;

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("heads", op.heads);
    f("kv_heads", op.kv_heads);
    f("scale", op.scale);
    f("left", op.left);
    f("right", op.right);
    f("from_end", op.from_end);
    f("softcap", op.softcap);
    f("zero_nan", op.zero_nan);
  }
  bool operator==(const Attention&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  bool sliceable(const BatchedNode& node) const;
  NarrowForm narrow_form(const NarrowNode&) const { return NarrowForm::carries(3); }  // q, k and v; it sums in f32
  Flow flow(size_t input) const { return input == 2 ? Flow::averaged : Flow::computed; }
  double reference_cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const;
  Operations operations(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const;
};

// The sizes of a problem, from concrete shapes.
struct AttentionSizes {
  int64_t batch, queries, keys, heads, kv_heads, key_size, value_size;  // B, Sq, Sk, H, G, D, E
};
AttentionSizes sizes_of(const Attention& op, const Dims& q, const Dims& k, const Dims& v);

// The keys that a query may see by lengths and window: first <= j < end; none where end <= first. `length` is
// lengths[b], or Sk without lengths.
struct KeyRange {
  int64_t first, end;
};
inline KeyRange keys_of_query(const Attention& op, int64_t query, int64_t queries, int64_t keys, int64_t length) {
  const int64_t position = op.from_end ? query + length - queries : query;
  KeyRange range{0, length < keys ? length : keys};
  if (op.left >= 0 && position - op.left > 0) range.first = position - op.left;
  if (op.right >= 0 && position + op.right + 1 < range.end) range.end = position + op.right + 1;
  return range;
}

// Strides in elements along the mask's rows of [B,H,Sq,Sk], 0 where it broadcasts; its own first axis, which B is a
// multiple of.
struct MaskStrides {
  int64_t batch = 0, head = 0, query = 0, key = 0, batches = 1;
};
MaskStrides mask_strides(const Dims& mask);

}  // namespace temper::ops
