// SPDX-License-Identifier: Apache-2.0
// What programs spell out in several steps: activations, as exporters write them, and rounding to 8 bits.
#pragma once
#include <cstdint>
#include <optional>

#include "graph/program.h"

namespace temper {

struct SpelledOut {
  // x * clip(x / 6 + 1/2, 0, 1); x < 0 ? x * slope : x; x / 2 * (erf(x / sqrt(2)) + 1)
  enum class Kind : uint8_t { hard_swish, leaky_relu, gelu } kind;
  float slope;
  size_t end;  // the step behind it, whose predecessor is the result
};

// What the steps from `at` on are, if they take value `x` and constants to one of them; all on f32.
std::optional<SpelledOut> spelled_out(const Program& program, size_t at, int x);

// cast(round(x / scale) + zero), or of x * scale
struct Quantization {
  bool divides;
  float scale;
  int32_t zero;  // -255 to 255
  DType to;      // i8 or u8
  size_t end;
};
// The same for what quantizes value `x`, which is f32.
std::optional<Quantization> spelled_out_quantization(const Program& program, size_t at, int x);

}  // namespace temper
