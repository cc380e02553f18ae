// SPDX-License-Identifier: Apache-2.0
// sample(logits f32 [B,V], tokens i64 [B,C,1], lengths i64 [B], settings f64 [B,4], draws f64 [B,C])
// -> token, flaw: i64 [B,1]. The token of each row that its logits, and the numbers drawn for it, choose.
//
// A row of settings is temperature, top_k, top_p, repetition_penalty; zeros take the largest logit. The first
// lengths[b] of its tokens (0 to C of them) were seen: a logit of theirs above 0 is divided by the penalty, another
// multiplied, where the penalty is above 0; a token outside of the vocabulary has none. Of the largest logit (of
// several the first; NaN counts as the largest) flaw says 1: it is NaN, 2: it is infinite; the token is that of it
// then, and where the temperature is not above 0 or top_k is 1. Otherwise a token weighs exp((logit - largest) /
// temperature), and one is drawn of those that top_k leaves (not at least 1: all) and top_p of these: the fewest of the
// largest whose weights sum to top_p of all (not below 1: all). Of equal logits the first counts as larger. They stand
// in the order of their logits, or of the vocabulary where neither leaves any out; that one is drawn at which the sum
// of weights exceeds draws[b, lengths[b] - 1], 0 <= it < 1, of the whole.
//
// Weights are integers, so that their sums are exact in any order: all kernels give the same token.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>

#include "graph/batched_node.h"
#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/onnx_form.h"
#include "graph/op_kind.h"

namespace temper::ops {

struct Sample {
  static constexpr std::string_view name = "sample";
  static constexpr OpKind op_kind = OpKind::other;

  template <class Self, class F>
  static void fields(Self&, F&&) {}
  bool operator==(const Sample&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  bool sliceable(const BatchedNode& node) const;
  OnnxForm onnx_form() const {
    return OnnxForm::none("ONNX has no op that draws tokens; write the model before it keeps caches");
  }
};

// What the reference and kernels compute alike.
namespace sampling {

enum Flaw : int64_t { kNone = 0, kNan = 1, kInfinite = 2 };
constexpr int64_t kSettings = 4;
constexpr int64_t kMostTokens = int64_t(1) << 24;  // of a vocabulary

// 2^(i/16), and ln(2)^i/i!, with 62 bits behind the point.
constexpr uint64_t kPowers[] = {0x4000000000000000, 0x42d561b3e6243d8a, 0x45cae0f1f545eb73, 0x48e1e9b9d588e19b,
                                0x4c1bf828c6dc54b8, 0x4f7a993048d088d7, 0x52ff6b54d8a89c75, 0x56ac1f752150a563,
                                0x5a827999fcef3242, 0x5e8451cfac061b5f, 0x62b39508aa836d6f, 0x6712460a8fc24072,
                                0x6ba27e656b4eb57a, 0x70666f76154a7089, 0x75606373ee921c97, 0x7a92be8a92436616};
constexpr uint64_t kTerms[] = {0x4000000000000000, 0x2c5c85fdf473de6b, 0x0f5fdeffc162c754, 0x038d611ae09417f1,
                               0x009d955b7dd273b9, 0x0015d87fe78a6731, 0x0002861225f0d8f1, 0x00003ff97f8b1162};

inline uint64_t high_bits(uint64_t a, uint64_t b) { return uint64_t((static_cast<unsigned __int128>(a) * b) >> 64); }

// The weight of the largest logit is 2^this; the sum of all stays below 2^62.
inline int weight_bits(int64_t vocabulary) { return 61 - std::bit_width(uint64_t(vocabulary)); }
// 2^power for power <= 0, rounded down. Powers have 48 bits behind the point.
inline uint64_t weight_of(double power, int bits) {
  if (!(power > -63)) return 0;
  const auto fixed = int64_t(power * 0x1p48);
  const uint64_t fraction = uint64_t(fixed) << 16, rest = fraction & ((uint64_t(1) << 60) - 1);
  uint64_t sum = kTerms[7];
  for (int i = 6; i >= 0; --i) sum = kTerms[i] + high_bits(sum, rest);
  const int64_t down = 60 - bits - (fixed >> 48);
  return down > 63 ? 0 : high_bits(kPowers[fraction >> 60], sum) >> down;
}
// By which logits are multiplied for powers of 2.
inline double scale_of(double temperature) { return std::min(1.4426950408889634 / temperature, 1e300); }

// As an integer of the same order; NaN is the largest, and both zeros are equal.
inline uint32_t order_of(float logit) {
  if (logit != logit) return ~uint32_t(0);
  const auto bits = std::bit_cast<uint32_t>(logit + 0.0f);
  return bits >> 31 ? ~bits : bits | uint32_t(1) << 31;
}
// Of two tokens the larger is larger.
inline uint64_t rank_of(float logit, int64_t token) { return uint64_t(order_of(logit)) << 32 | uint32_t(~token); }
inline int64_t token_of(uint64_t rank) { return uint32_t(~uint32_t(rank)); }

inline bool penalises(double penalty) { return penalty > 0 && penalty != 1; }
inline float penalised(float logit, double penalty) {
  return float(logit > 0 ? double(logit) / penalty : double(logit) * penalty);
}
// How many tokens top_k leaves.
inline int64_t kept_of(double top_k, int64_t vocabulary) {
  return !(top_k >= 1) || top_k >= double(vocabulary) ? vocabulary : int64_t(top_k);
}
inline double draw_of(double draw) { return draw > 0 ? draw : 0; }
inline int64_t draw_at(int64_t length, int64_t positions) { return std::clamp<int64_t>(length - 1, 0, positions - 1); }

}  // namespace sampling

}  // namespace temper::ops
