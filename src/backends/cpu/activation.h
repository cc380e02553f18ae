// SPDX-License-Identifier: Apache-2.0
// Activations that Temper's own convolutions of f32 apply while a sum is in a register or in L1.
#pragma once
#include "backends/cpu/onednn.h"
#include "backends/cpu/vectors.h"
#include "backends/cpu/vmath.h"

namespace temper {

struct Activation {
  enum class Kind : uint8_t { none, relu, clip, hard_swish, swish } kind = Kind::none;
  float low = 0, high = 0;  // relu: the slope below zero is `low`
};

// The epilogue of a convolution of f32 with as much of it in the kernel as that can take: a bias, where the kernel adds
// it a residual of the output's shape, and an activation. The rest runs behind it.
struct ActivatedEpilogue {
  AbsorbedEpilogue absorbed;
  Activation activation;
  int residual = -1;  // which extra input; -1: none
};
ActivatedEpilogue activated_epilogue(const Problem& problem, Layout layout, bool adds_residual = false);

// Activates n floats, after adding `residual` unless that is null.
void activate_row(const Activation& activation, const float* residual, float* y, int64_t n);

// Applies it to a vector of floats; inside vectorised(). A NaN compares as false and stays.

// All but swish, a few instructions each.
template <int64_t w>
inline void activate_quickly(const Activation& activation, typename VectorOf<w>::Type& value) {
  using Vector = typename VectorOf<w>::Type;
  const Vector zero = {}, one = zero + 1.f;
  switch (activation.kind) {
    case Activation::Kind::relu: {
      const Vector below = value * activation.low;
      value = value < zero ? below : value;
      break;
    }
    case Activation::Kind::clip: {
      const Vector low = zero + activation.low, high = zero + activation.high;
      value = value < low ? low : value;
      value = value > high ? high : value;
      break;
    }
    case Activation::Kind::hard_swish: {
      Vector share = value * (1.f / 6) + 0.5f;
      share = share < zero ? zero : share;
      share = share > one ? one : share;
      value *= share;
      break;
    }
    default: break;
  }
}

// x / (1 + e^-x), as vmath::exp() has it.
template <int64_t w>
inline void swish(typename VectorOf<w>::Type& value) {
  using Vector = typename VectorOf<w>::Type;
  using Bits = decltype(value < value);
  const Vector zero = {}, one = zero + 1.f, least = zero - 104.f, most = zero + 89.f, round = zero + vmath::kRound;
  Vector x = zero - value;
  x = x < least ? least : x;
  x = x > most ? most : x;
  const Vector shifted = x * vmath::kLog2e + round, n = shifted - round;
  const Vector r = (x - n * vmath::kLn2High) - n * vmath::kLn2Low;
  Vector p = r * (1.f / 5040) + 1.f / 720;
  p = p * r + 1.f / 120;
  p = p * r + 1.f / 24;
  p = p * r + 1.f / 6;
  p = p * r + 0.5f;
  p = (p * r * r + r) + 1.f;
  const Bits k = reinterpret_cast<Bits>(shifted) - reinterpret_cast<Bits>(round), half = k >> 1;
  const Bits first = (half + 127) << 23, second = (k - half + 127) << 23;
  value /= one + p * reinterpret_cast<Vector>(first) * reinterpret_cast<Vector>(second);
}

template <int64_t w>
inline void activate(const Activation& activation, typename VectorOf<w>::Type& value) {
  if (activation.kind == Activation::Kind::swish) swish<w>(value);
  else activate_quickly<w>(activation, value);
}

}  // namespace temper
