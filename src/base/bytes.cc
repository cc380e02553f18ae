// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace temper {

std::string format_bytes(double bytes) {
  static constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (std::abs(bytes) >= 1024 && unit < 4) bytes /= 1024, ++unit;
  const int digits = bytes == 0 ? 0 : 2 - std::min(2, int(std::log10(std::abs(bytes))));
  char text[64];
  std::snprintf(text, sizeof text, "%.*f %s", unit ? digits : 0, bytes, units[unit]);
  return text;
}

}  // namespace temper
