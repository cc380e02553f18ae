// SPDX-License-Identifier: Apache-2.0
// The pause of a loop that waits awake.
#pragma once

namespace temper {

// In a loop that waits awake: lets the core's other thread go first, and saves power.
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace temper
