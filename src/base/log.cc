// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <atomic>

#include "base/quote.h"

namespace temper {

static std::atomic<LogCallback> current{nullptr};

void set_log_callback(LogCallback callback) { current = callback; }
bool log_enabled() { return current != nullptr; }
void log_text(LogLevel level, std::string_view message) {
  if (LogCallback callback = current) callback(level, with_short_words(printable(message), kLongestWord));
}

}  // namespace temper
