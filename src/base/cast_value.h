// SPDX-License-Identifier: Apache-2.0
// Casts one number as tensors are cast: from a float to an integer it truncates and saturates, and NaN becomes 0.
#pragma once
#include <cmath>
#include <limits>
#include <type_traits>

namespace temper {

template <class To, class W>
To cast_value(W x) {
  if constexpr (std::is_same_v<To, bool>) return x != 0;
  else if constexpr (std::is_floating_point_v<W> && std::is_integral_v<To>) {
    if (std::isnan(x)) return 0;
    if (x <= W(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    if (x >= W(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    return static_cast<To>(x);
  } else return static_cast<To>(x);
}

}  // namespace temper
