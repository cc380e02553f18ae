// SPDX-License-Identifier: Apache-2.0
// Steps of a program whose results only need the digits of fp16, bf16 or 8 bits: support/half_functions.cuh computes
// them in few instructions.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/half.h"
#include "graph/program.h"

namespace temper::cuda {

// The step that made value `value`, if it is one of f32 and of this kind; else null.
const Step* step_of(const Program& program, int value, Scalar op);

// By value of the program: f16 or bf16 where it is of f32 and reaches nothing but casts to that dtype, as it is or
// through steps that make no relative error larger (factors, quotients, signs, the choice of one of several numbers),
// or is such a dtype itself; else f32. A sum is no such step: what it cancels would leave the error of a summand.
// f16 for f8e4m3fn, too, whose steps are 128 times as large.
// i8 where it is of f32 and reaches nothing but a rounding to 8 bits, signed or not, through factors that leave an
// error of f32 below 1/1000 of a step.
std::vector<DType> wanted_digits(const Program& program, std::span<const DType> inputs);

// The text of step `step` (an index) by those functions, on the values v0, v1, ...; nothing where there is none. It
// knows gelu in the form that passes leave (passes/support/simplify.h) as one function.
std::optional<std::string> half_text(const Program& program, size_t step, std::span<const DType> digits);

}  // namespace temper::cuda
