// SPDX-License-Identifier: Apache-2.0
// Decodes the element types below 16 bits that are only stored: 8-bit and 4-bit floats, scales of 8
// bits, integers of 4 and 2 bits.
#pragma once
#include <bit>
#include <cstdint>
#include <optional>

#include "base/dtype.h"

namespace temper {

// How many bits a code has, where a file packs several in a byte; the size of one element in bits for other types.
constexpr int bits_of_code(DType dtype) {
  switch (dtype) {
    case DType::f4e2m1:
    case DType::i4:
    case DType::u4: return 4;
    case DType::i2:
    case DType::u2: return 2;
    default: return int(size_of(dtype) * 8);
  }
}
constexpr bool is_small_int(DType dtype) { return dtype >= DType::i4 && dtype <= DType::u2; }
// The range of an integer of 4 or 2 bits.
struct IntRange {
  int least, most;
};
constexpr IntRange range_of_small_int(DType dtype) {
  const int count = 1 << bits_of_code(dtype);
  return carrier_of(dtype) == DType::i8 ? IntRange{-count / 2, count / 2 - 1} : IntRange{0, count - 1};
}

// A float of sign, exponent and mantissa whose codes count up with the magnitude: OCP's 8-bit and 4-bit formats (OFP8,
// MX) and those of Noune and others without a negative zero ("FNUZ").
struct SmallFloat {
  int mantissa_bits, bias;
  int sign_bit;   // its place as a number: 0x80 or 8
  int most;       // the code of the largest finite number
  int overflow;   // what rounds beyond it where that is not saturated: infinity, NaN, or the largest number
  int nan;        // the code of NaN; of f4e2m1, which has none, what is given in its place
  bool one_zero;  // no negative zero, and one NaN without a sign
};
// Nothing where `dtype` is no such type; f8e8m0 is none either.
std::optional<SmallFloat> small_float_of(DType dtype);

// The number that a code stands for, exactly; bits above the code are ignored. `dtype` is stored only.
float value_of_code(DType dtype, uint8_t code);

// f8e4m3fn, without branches, so that loops over it vectorise: the number of a code, and the code of the nearest number
// (half to even; beyond 448, infinity too, that of 448; NaN stays NaN). Neither computes with subnormal floats.
inline float e4m3_to_float(uint8_t code) {
  constexpr uint32_t kNan = 0x7f, kNormal = 8, kBiases = 127 - 7;
  const uint32_t sign = uint32_t(code & 0x80u) << 24, magnitude = code & 0x7fu;
  const uint32_t small = std::bit_cast<uint32_t>(float(int32_t(magnitude)) * 0x1p-9f);
  uint32_t bits = magnitude < kNormal ? small : (magnitude << 20) + (kBiases << 23);
  bits = magnitude == kNan ? 0x7fc00000u : bits;
  return std::bit_cast<float>(bits | sign);
}
inline uint8_t float_to_e4m3(float value) {
  constexpr uint32_t kMost = 0x7e, kNan = 0x7f, kBiases = 127 - 7;
  const uint32_t bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffffu;
  // Below 2^-6 the codes count 2^-9: those are the last bits of floats from 2^14 on.
  const uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0x1p14f) - 0x46800000u;
  const uint32_t normal = ((magnitude + 0x7ffffu + (magnitude >> 20 & 1u)) >> 20) - (kBiases << 3);
  uint32_t code = magnitude < 0x3c800000u ? small : normal;
  code = magnitude >= 0x43e80000u ? kMost : code;  // from 464 on, half way to 480
  code = magnitude > 0x7f800000u ? kNan : code;
  return uint8_t(code | (bits >> 24 & 0x80u));
}

// A code made of random bits whose number is finite and neither large nor tiny, as the other random inputs are.
uint8_t plausible_code(DType dtype, uint8_t bits);

}  // namespace temper
