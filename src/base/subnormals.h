// SPDX-License-Identifier: Apache-2.0
// Sets whether a thread computes with subnormal floats (below 2^-126 in f32, 2^-1022 in f64) or flushes them to zero.
#pragma once
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace temper {

// The bits of the calling thread's control register that say so; 0: it computes with subnormals. x86-64: FTZ (results)
// and DAZ (operands) of MXCSR. aarch64: FZ of FPCR, which stands for both.
using SubnormalMode = uint64_t;

#if defined(__x86_64__)
inline constexpr SubnormalMode kSubnormalsAreZero = 0x8040;
inline uint64_t float_control() { return _mm_getcsr(); }
inline void set_float_control(uint64_t control) { _mm_setcsr(uint32_t(control)); }
#elif defined(__aarch64__)
inline constexpr SubnormalMode kSubnormalsAreZero = uint64_t(1) << 24;
inline uint64_t float_control() {
  uint64_t control;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  return control;
}
inline void set_float_control(uint64_t control) { asm volatile("msr fpcr, %0" : : "r"(control) : "memory"); }
#else
#error "which bits make this CPU take subnormal numbers for zero?"
#endif

inline SubnormalMode subnormal_mode() { return float_control() & kSubnormalsAreZero; }
// Leaves the register's other bits as they are: rounding, masks of exceptions, and what exceptions there were.
inline void set_subnormal_mode(SubnormalMode mode) {
  const uint64_t control = float_control();
  if ((control & kSubnormalsAreZero) != mode) set_float_control((control & ~kSubnormalsAreZero) | mode);
}

// While it lives, the calling thread takes subnormals for zero, and so do the threads that help it (base/team.h).
// Afterwards it computes as before. A CPU may take more than a hundred cycles for each operation on a subnormal number,
// and models have them: weights that decayed in training, what softmax gives where an attention mask adds -100, states
// that fade away.
class SubnormalsAsZero {
 public:
  explicit SubnormalsAsZero(bool wanted = true) : before_(subnormal_mode()) {
    if (wanted) set_subnormal_mode(kSubnormalsAreZero);
  }
  ~SubnormalsAsZero() { set_subnormal_mode(before_); }
  SubnormalsAsZero(const SubnormalsAsZero&) = delete;

 private:
  SubnormalMode before_;
};

}  // namespace temper
