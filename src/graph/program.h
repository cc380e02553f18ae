// SPDX-License-Identifier: Apache-2.0
// A pointwise program: straight-line scalar code over inputs that are broadcast to the output's shape. It is the body
// of the pointwise op and the epilogue of conv and matmul. Fusing two pointwise ops is concatenating two programs.
#pragma once
#include <array>
#include <span>
#include <string>
#include <vector>

#include "graph/tensor.h"

namespace temper {

enum class Scalar : uint8_t {
  constant,
  cast,
  // arithmetic: both arguments and the result have one dtype
  add,
  sub,
  mul,
  div,
  pow,
  min,
  max,
  mod,
  fmod,
  bit_and,
  bit_or,
  bit_xor,
  shift_left,
  shift_right,
  // one argument
  neg,
  abs,
  sign,
  floor,
  ceil,
  round,
  sqrt,
  reciprocal,
  exp,
  log,
  erf,
  sigmoid,
  tanh,
  relu,
  sin,
  cos,
  tan,
  asin,
  acos,
  atan,
  sinh,
  cosh,
  asinh,
  acosh,
  atanh,
  bit_not,
  // to bool
  equal,
  less,
  less_equal,
  logical_and,
  logical_or,
  logical_xor,
  logical_not,
  is_nan,
  is_inf,
  // three arguments
  where,
  fma,
};
constexpr std::array<std::string_view, 53> enum_names(Scalar) {
  return {"constant",    "cast",    "add",    "sub",     "mul",        "div",         "pow",        "min",
          "max",         "mod",     "fmod",   "bit_and", "bit_or",     "bit_xor",     "shift_left", "shift_right",
          "neg",         "abs",     "sign",   "floor",   "ceil",       "round",       "sqrt",       "reciprocal",
          "exp",         "log",     "erf",    "sigmoid", "tanh",       "relu",        "sin",        "cos",
          "tan",         "asin",    "acos",   "atan",    "sinh",       "cosh",        "asinh",      "acosh",
          "atanh",       "bit_not", "equal",  "less",    "less_equal", "logical_and", "logical_or", "logical_xor",
          "logical_not", "is_nan",  "is_inf", "where",   "fma"};
}
std::string_view name_of(Scalar op);
int arity_of(Scalar op);  // 0 for constant

// Arguments name a value: 0..inputs-1 are the program's inputs, inputs+k is the result of step k.
// Semantics: integers wrap; integer div truncates towards zero (as ONNX's reference does) and division by zero gives 0;
// mod takes the sign of the divisor, fmod that of the dividend; min, max and relu pass NaN on, and which zero they give
// where zeros of both signs meet is left open (relu(x) and max(x,0) are the same); round is half to even;
// shifts by the width or more give 0; casts from float to integer truncate and saturate, NaN becomes 0;
// fma(a, b, c) is a * b + c with one rounding, on f32 only. f8e4m3fn has casts alone, from and to f32, f16 and bf16; to
// it they take the nearest number, half to even, at most 448 either way.
struct Step {
  Scalar op;
  DType dtype;  // of the result
  std::array<int, 3> args{-1, -1, -1};
  double number = 0;    // the constant, for float dtypes
  int64_t integer = 0;  // the constant, for integer dtypes and bool
  bool operator==(const Step&) const = default;
};

struct Program {
  int inputs = 1;
  std::vector<Step> steps;  // the result is the last step; input 0 when there is none

  bool is_identity() const { return steps.empty(); }
  bool operator==(const Program&) const = default;

  int push(Step step) {
    steps.push_back(step);
    return inputs + int(steps.size()) - 1;
  }
  int result() const { return steps.empty() ? 0 : inputs + int(steps.size()) - 1; }
  DType dtype_of_value(int value, std::span<const DType> input_dtypes) const;

  // "(2) 2=add.f32(0,1) 3=relu.f32(2) 4=constant.f32[0.5]": the number of inputs, then the steps.
  std::string text() const;
  static Program parse(std::string_view text);  // throws Error{bad_file}; the result is verified
  void verify() const;                          // arities and argument order; throws Error{bad_file}
  // Dtypes of arguments agree with what each step needs; returns the result's dtype. Throws Error{bad_file}.
  DType infer(std::span<const DType> input_dtypes) const;
};

Step constant_step(DType dtype, double value);  // rounds to the dtype

// `consumer` with its input `slot` replaced by the result of `producer`. Inputs of the new program: the consumer's
// without `slot`, in order, then the producer's. The caller drops duplicates with merge_inputs.
Program splice(const Program& producer, const Program& consumer, int slot);
// The program with input `slot` taken as a number; the inputs behind it move up.
Program with_constant(const Program& program, int slot, DType dtype, double number);
// Renames inputs: input i becomes mapping[i]; `inputs` is the new number of inputs.
Program remap_inputs(const Program& program, std::span<const int> mapping, int inputs);

// Evaluates with each step in Wide<T>, rounded to its dtype. Inputs are broadcast to `dims`.
Tensor run_program(const Program& program, std::span<const Tensor> inputs, const Dims& dims);

}  // namespace temper
