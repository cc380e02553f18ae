// SPDX-License-Identifier: Apache-2.0
#include "base/version.h"

namespace temper {
std::string_view version() { return TEMPER_VERSION; }
std::string_view revision() {
  constexpr std::string_view text = TEMPER_REVISION;
  return text.empty() ? "unknown" : text;
}
}  // namespace temper
