// SPDX-License-Identifier: Apache-2.0
// The loops that pointwise programs are made of: one step over a tile of elements.
#pragma once
#include "base/half.h"
#include "graph/program.h"

namespace temper {

struct StepArgs {
  void* out;
  const void *a, *b, *c;
  int64_t n;
  bool a_uniform, b_uniform, c_uniform;  // the argument is one element for the whole tile
};
using StepFn = void (*)(const StepArgs&);

// In tiles f16, bf16 and f8e4m3fn are held as f32, everything else as itself.
constexpr DType held_as(DType dtype) { return is_half(dtype) || dtype == DType::f8e4m3fn ? DType::f32 : dtype; }

// `from`: dtype of the first argument (of the second for where); both dtypes as held. Null: there is no such step.
// Casts between equal dtypes copy.
StepFn find_step(Scalar op, DType from, DType to);
StepFn find_step_f32(Scalar op);  // f32 -> f32
StepFn find_cast(DType from, DType to);
// Of several steps (spelled_out.h): f32 -> f32, and f32 -> i8 or u8 with arguments x, scale and zero point, the last
// two one element each.
StepFn find_gelu();
StepFn find_quantize(bool divides, DType to);
StepFn find_pow(DType dtype, double exponent);  // with a constant exponent; null: use the general step

// f16, bf16 and f8e4m3fn in memory to and from f32 in tiles; rounding in place.
StepFn find_load(DType dtype);
StepFn find_store(DType dtype);
StepFn find_rounding(DType dtype);

}  // namespace temper
