// SPDX-License-Identifier: Apache-2.0
// The version and revision of this build.
#pragma once
#include <string_view>

namespace temper {
std::string_view version();   // "0.1.0"
std::string_view revision();  // git revision of the build, "unknown" outside a checkout
}  // namespace temper
