// SPDX-License-Identifier: Apache-2.0
// Where the timing cache is kept unless the user names a file.
#pragma once
#include <string>

namespace temper {

// The timing cache in the cache folder. Empty, with a warning, where no folder for it can be made or trusted: nobody's
// work needs it.
std::string default_timing_cache();

}  // namespace temper
