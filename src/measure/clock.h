// SPDX-License-Identifier: Apache-2.0
// The clock that the timer reads. Tests pass a clock of their own; a device whose work is asynchronous overrides
// `elapsed_ms` with its events.
#pragma once
#include <chrono>
#include <functional>

namespace temper {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual double now_ms() = 0;  // never goes back; only differences mean anything
  // Milliseconds that `calls` calls of body take together.
  virtual double elapsed_ms(const std::function<void()>& body, int calls) {
    const double start = now_ms();
    for (int i = 0; i < calls; ++i) body();
    return now_ms() - start;
  }
};

class HostClock final : public Clock {
 public:
  double now_ms() override {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
};

inline Clock& host_clock() {
  static HostClock clock;
  return clock;
}

}  // namespace temper
