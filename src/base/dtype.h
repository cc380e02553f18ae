// SPDX-License-Identifier: Apache-2.0
// Element types, their names (the same in text, files and messages) and the two 16-bit floats. What the codes of the
// types below 16 bits mean that nothing computes with is in base/small_types.h.
#pragma once
#include <bit>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>

#include "base/error.h"

namespace temper {

// Ops compute with the first ones. Those behind boolean are stored only: they are moved, and converted by programs over
// their codes, one in a byte; but for the last one, whose codes are numbers in a table (base/string_table.h). An i4 or
// i2 is its number as a signed byte; of the others a byte has the code in its low bits and 0 above. Of these, f8e4m3fn
// is multiplied, too: products read it, and programs cast to it and from it.
enum class DType : uint8_t {
  f32,
  f16,
  bf16,
  f64,
  i8,
  u8,
  i16,
  u16,
  i32,
  u32,
  i64,
  u64,
  boolean,
  f8e4m3fn,
  f8e4m3fnuz,
  f8e5m2,
  f8e5m2fnuz,
  f8e8m0,
  f4e2m1,
  i4,
  u4,
  i2,
  u2,
  string
};
constexpr int kDTypeCount = 13;  // that ops compute with
constexpr int kAllDTypeCount = 24;

// Conversions round to nearest, ties to even; overflow gives infinity (IEEE 754).
inline uint16_t float_to_half_bits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return uint16_t(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) return uint16_t(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {  // subnormal half: let float addition do the rounding
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return uint16_t(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  return uint16_t(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}
inline float half_bits_to_float(uint16_t half) {
  const uint32_t sign = uint32_t(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu, mantissa = half & 0x3ffu;
  if (exponent == 0x1fu) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    const float value = float(mantissa) * 0x1p-24f;
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}
inline uint16_t float_to_bfloat_bits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return uint16_t((bits >> 16) | 0x40u);
  return uint16_t((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

struct Half {
  uint16_t bits = 0;
  Half() = default;
  template <class T>
    requires std::is_arithmetic_v<T>
  explicit Half(T value) : bits(float_to_half_bits(float(value))) {}
  operator float() const { return half_bits_to_float(bits); }
};
struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  template <class T>
    requires std::is_arithmetic_v<T>
  explicit BFloat16(T value) : bits(float_to_bfloat_bits(float(value))) {}
  operator float() const { return std::bit_cast<float>(uint32_t(bits) << 16); }
};

template <class T>
struct DTypeOf;
#define TEMPER_DTYPE(type, tag)                \
  template <>                                  \
  struct DTypeOf<type> {                       \
    static constexpr DType value = DType::tag; \
  };
TEMPER_DTYPE(float, f32)
TEMPER_DTYPE(Half, f16)
TEMPER_DTYPE(BFloat16, bf16)
TEMPER_DTYPE(double, f64)
TEMPER_DTYPE(int8_t, i8)
TEMPER_DTYPE(uint8_t, u8)
TEMPER_DTYPE(int16_t, i16)
TEMPER_DTYPE(uint16_t, u16)
TEMPER_DTYPE(int32_t, i32)
TEMPER_DTYPE(uint32_t, u32)
TEMPER_DTYPE(int64_t, i64)
TEMPER_DTYPE(uint64_t, u64)
TEMPER_DTYPE(bool, boolean)
#undef TEMPER_DTYPE

template <class T>
constexpr DType dtype_of = DTypeOf<T>::value;

constexpr std::string_view dtype_names[kAllDTypeCount] = {
    "f32",  "f16",      "bf16",       "f64",    "i8",         "u8",     "i16",    "u16", "i32", "u32", "i64", "u64",
    "bool", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f8e8m0", "f4e2m1", "i4",  "u4",  "i2",  "u2",  "string"};
constexpr std::string_view name_of(DType dtype) { return dtype_names[int(dtype)]; }
inline std::optional<DType> dtype_from_name(std::string_view name) {
  for (int i = 0; i < kAllDTypeCount; ++i)
    if (dtype_names[i] == name) return DType(i);
  return std::nullopt;
}
inline void append(std::string& out, DType dtype) { out += name_of(dtype); }

constexpr int64_t size_of(DType dtype) {
  constexpr int64_t sizes[kDTypeCount] = {4, 2, 2, 8, 1, 1, 2, 2, 4, 4, 8, 8, 1};
  if (dtype == DType::string) return 8;
  return int(dtype) < kDTypeCount ? sizes[int(dtype)] : 1;
}
constexpr bool is_stored_only(DType dtype) { return int(dtype) >= kDTypeCount; }
// The type that holds the codes of one that is stored only; any other type itself.
constexpr DType carrier_of(DType dtype) {
  if (!is_stored_only(dtype)) return dtype;
  if (dtype == DType::string) return DType::u64;
  return dtype == DType::i4 || dtype == DType::i2 ? DType::i8 : DType::u8;
}
constexpr bool is_float(DType dtype) { return dtype <= DType::f64; }
constexpr bool is_signed_int(DType dtype) {
  return dtype == DType::i8 || dtype == DType::i16 || dtype == DType::i32 || dtype == DType::i64;
}
constexpr bool is_int(DType dtype) { return dtype >= DType::i8 && dtype <= DType::u64; }

// Calls f.template operator()<T>() with the C++ type that holds `dtype`. Throws Error{unsupported} for a type that is
// stored only.
template <class F>
decltype(auto) visit_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32: return f.template operator()<float>();
    case DType::f16: return f.template operator()<Half>();
    case DType::bf16: return f.template operator()<BFloat16>();
    case DType::f64: return f.template operator()<double>();
    case DType::i8: return f.template operator()<int8_t>();
    case DType::u8: return f.template operator()<uint8_t>();
    case DType::i16: return f.template operator()<int16_t>();
    case DType::u16: return f.template operator()<uint16_t>();
    case DType::i32: return f.template operator()<int32_t>();
    case DType::u32: return f.template operator()<uint32_t>();
    case DType::i64: return f.template operator()<int64_t>();
    case DType::u64: return f.template operator()<uint64_t>();
    case DType::boolean: return f.template operator()<bool>();
    default: fail(ErrorKind::unsupported, name_of(dtype), " is only stored; cast it to a type that is computed with");
  }
}

// The type in which a reference computes values of T: double for floats, 64-bit integers for the rest.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, uint64_t>, uint64_t,
                                std::conditional_t<std::is_integral_v<T>, int64_t, double>>;

}  // namespace temper
