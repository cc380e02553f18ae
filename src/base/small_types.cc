// SPDX-License-Identifier: Apache-2.0
#include "base/small_types.h"

#include <cmath>

namespace temper {

std::optional<SmallFloat> small_float_of(DType dtype) {
  switch (dtype) {
    case DType::f8e4m3fn: return SmallFloat{3, 7, 0x80, 0x7e, 0x7f, 0x7f, false};
    case DType::f8e4m3fnuz: return SmallFloat{3, 8, 0x80, 0x7f, 0x80, 0x80, true};
    case DType::f8e5m2: return SmallFloat{2, 15, 0x80, 0x7b, 0x7c, 0x7e, false};
    case DType::f8e5m2fnuz: return SmallFloat{2, 16, 0x80, 0x7f, 0x80, 0x80, true};
    case DType::f4e2m1: return SmallFloat{1, 1, 8, 7, 7, 8, false};
    default: return std::nullopt;
  }
}

float value_of_code(DType dtype, uint8_t code) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  if (dtype == DType::f8e8m0) return code == 0xff ? nan : std::ldexp(1.0f, int(code) - 127);
  if (is_small_int(dtype)) {
    const int count = 1 << bits_of_code(dtype), low = code & (count - 1);
    return float(low > range_of_small_int(dtype).most ? low - count : low);
  }
  const auto format = small_float_of(dtype);
  if (!format) fail(ErrorKind::usage, "the type ", dtype, " has no codes");
  const int magnitude = code & (format->sign_bit - 1), mantissa_count = 1 << format->mantissa_bits;
  const bool negative = code & format->sign_bit;
  if (format->one_zero && negative && magnitude == 0) return nan;
  float value = 0;
  if (magnitude > format->most)
    value = magnitude == format->overflow && format->overflow != format->nan ? INFINITY : nan;
  else if (magnitude < mantissa_count) value = std::ldexp(float(magnitude), 1 - format->bias - format->mantissa_bits);
  else
    value = std::ldexp(float(mantissa_count + magnitude % mantissa_count),
                       magnitude / mantissa_count - format->bias - format->mantissa_bits);
  return negative ? -value : value;
}

uint8_t plausible_code(DType dtype, uint8_t bits) {
  if (dtype == DType::f8e8m0) return uint8_t(120 + bits % 8);
  if (is_small_int(dtype)) return uint8_t(int8_t(value_of_code(dtype, bits)));
  if (dtype == DType::f4e2m1) return bits & 0xf;
  const auto code = uint8_t(bits & 0xbf);  // a magnitude below 2
  return code == 0x80 ? 0 : code;          // which is NaN where there is one zero
}

}  // namespace temper
