// SPDX-License-Identifier: Apache-2.0
// Half floats as f32 and back, without branches, so that loops over them vectorise: bit for bit the conversions of
// base/dtype.h, also where subnormal floats are taken for zero (base/subnormals.h). No half is a subnormal float.
#pragma once
#include "backends/cpu/vmath.h"
#include "base/dtype.h"

namespace temper {

inline float half_to_float(Half half) {
  const uint32_t sign = uint32_t(half.bits & 0x8000u) << 16, magnitude = half.bits & 0x7fffu, moved = magnitude << 13;
  // A subnormal half is so many times 2^-24; its bits moved up would be a subnormal float, which must not be computed
  // with.
  const uint32_t small = vmath::as_bits(float(int32_t(magnitude)) * 0x1p-24f);
  const uint32_t large = magnitude >= 0x7c00u ? moved | 0x7f800000u : moved + 0x38000000u;
  return vmath::as_float((magnitude < 0x400u ? small : large) | sign);
}

inline Half float_to_half(float value) {
  const uint32_t bits = vmath::as_bits(value), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
  const uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  const uint32_t small = vmath::as_bits(vmath::as_float(magnitude) + 0.5f) - 0x3f000000u;
  const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  uint32_t result = magnitude < 0x38800000u ? small : normal;
  result = magnitude >= 0x477ff000u ? 0x7c00u : result;
  result = magnitude > 0x7f800000u ? nan : result;
  Half half;
  half.bits = uint16_t(sign | result);
  return half;
}

// Any element of a tensor as a float of the type that a kernel sums in.
template <class Sum, class T>
inline Sum widened(T value) {
  if constexpr (std::is_same_v<T, Half>) return static_cast<Sum>(half_to_float(value));
  else return static_cast<Sum>(value);
}

}  // namespace temper
