// SPDX-License-Identifier: Apache-2.0
// Functions that the CPU's kernels of attention share: sizes, places of heads in memory, the mask, ranges of keys.
#pragma once
#include <algorithm>
#include <limits>

#include "backends/tactic.h"
#include "graph/ops/attention.h"

namespace temper {

constexpr float kNone = -std::numeric_limits<float>::infinity();  // the score of a key that does not take part

// One mask and how it is read; `data` begins at the row of the batch and head.
struct AttentionMask {
  const void* data = nullptr;
  DType dtype = DType::f32;
  int64_t query = 0, key = 0;  // strides in elements
  template <class T>
  static float value(T element) {
    if constexpr (std::is_same_v<T, bool>) return element ? 0.f : kNone;
    else return static_cast<float>(element);
  }
  // to[j] for `keys` keys from `key` on, of one query.
  void row(int64_t at_query, int64_t at_key, int64_t keys, float* to) const;
};

// From one row to the next, in elements.
struct AttentionPorts : ops::AttentionSizes {
  int64_t q_pitch, k_pitch, v_pitch, y_pitch;
  int64_t group() const { return heads / kv_heads; }
};

// Addresses and settings of one head of one row of the batch.
template <class T>
struct AttentionHead {
  const T *q, *k, *v;
  T* y;
  AttentionMask mask;
  int64_t length;
};

class AttentionOnCpu : public Kernel {
 protected:
  explicit AttentionOnCpu(const Problem& problem);

  template <class T>
  AttentionHead<T> head_of(const Buffers& buffers, int64_t index) const {
    const int64_t b = index / s_.heads, h = index % s_.heads, g = h / s_.group();
    auto at = [&](size_t input, int64_t rows, int64_t pitch, int64_t column) {
      return static_cast<const T*>(buffers.inputs[input]) + b * rows * pitch + column;
    };
    AttentionHead<T> head{at(0, s_.queries, s_.q_pitch, h * s_.key_size),
                          at(1, s_.keys, s_.k_pitch, g * s_.key_size),
                          at(2, s_.keys, s_.v_pitch, g * s_.value_size),
                          static_cast<T*>(buffers.outputs[0]) + b * s_.queries * s_.y_pitch + h * s_.value_size,
                          {},
                          s_.keys};
    if (bounded_) head.length = static_cast<const int64_t*>(buffers.inputs[4])[b];
    if (masked_) {
      const int64_t offset = b % strides_.batches * strides_.batch + h * strides_.head;
      head.mask = {static_cast<const std::byte*>(buffers.inputs[3]) + offset * size_of(mask_dtype_), mask_dtype_,
                   strides_.query, strides_.key};
    }
    return head;
  }

  ops::KeyRange range_of(int64_t query, int64_t length) const {
    ops::KeyRange range = ops::keys_of_query(op_, query, s_.queries, s_.keys, length);
    range.first = std::clamp<int64_t>(range.first, 0, s_.keys), range.end = std::clamp<int64_t>(range.end, 0, s_.keys);
    return range;
  }

  // The factor of sums at the end: NaN without keys that take part, as ONNX says.
  float scale_of(float peak, float sum) const {
    if (s_.keys == 0) return 0;
    return peak == kNone ? std::numeric_limits<float>::quiet_NaN() : 1.f / sum;
  }

  ops::Attention op_;
  AttentionPorts s_{};
  DType dtype_, mask_dtype_ = DType::f32;
  bool masked_, bounded_;
  ops::MaskStrides strides_;
  int threads_;
};

// Rows of q, k, v and y may be apart; a mask is read as one piece.
bool attention_takes_parts(const Problem& problem, const Config& config);

}  // namespace temper
