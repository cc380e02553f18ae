// SPDX-License-Identifier: Apache-2.0
// Names the file of the timing cache where the user names none.
#pragma once
#include <string>

namespace temper {

// The timing cache in the cache folder. Empty, with a warning, where no folder for it can be made or trusted: nobody's
// work needs it.
std::string default_timing_cache();

}  // namespace temper
