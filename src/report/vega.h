// SPDX-License-Identifier: Apache-2.0
// Vega-Lite's JavaScript, which the program holds compressed.
#pragma once
#include <string>

namespace temper {

// Unpacked at the first call; empty where the build had no Vega-Lite. Any thread may call it.
const std::string& vega_bundle();

}  // namespace temper
