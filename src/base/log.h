// SPDX-License-Identifier: Apache-2.0
// The library never prints: messages go to one callback, which the program sets (the CLI hands them to spdlog).
#pragma once
#include <cstddef>
#include <string_view>

#include "base/concat.h"

namespace temper {

// Messages are cleaned (base/quote.h), since names in them come out of files, and longer words lose their middle.
constexpr size_t kLongestWord = 320;

enum class LogLevel { debug, info, warning };
using LogCallback = void (*)(LogLevel, std::string_view message);

void set_log_callback(LogCallback callback);  // null: silence, the default. Set it before other threads start.
void log_text(LogLevel level, std::string_view message);
bool log_enabled();

template <class... Parts>
void log(LogLevel level, const Parts&... parts) {
  if (log_enabled()) log_text(level, concat(parts...));
}

}  // namespace temper
