// SPDX-License-Identifier: Apache-2.0
#include "tune/default_cache.h"

#include "base/file.h"
#include "base/log.h"

namespace temper {

std::string default_timing_cache() {
  try {
    return concat(cache_folder(), "/timings.json");
  } catch (const Error& error) {
    log(LogLevel::warning, std::string_view(error.what()),
        "; what is measured is not kept (--timing-cache FILE names another place)");
    return {};
  }
}

}  // namespace temper
