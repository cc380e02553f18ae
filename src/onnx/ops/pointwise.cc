// SPDX-License-Identifier: Apache-2.0
// Imports the ops that are one step of a pointwise program.
#include "onnx/broadcast.h"
#include "onnx/small_types.h"

namespace temper {

namespace {

void unary(OnnxNode& node, Scalar op) {
  node.ignore_attribute("consumed_inputs");  // a memory hint of opset 1
  node.set_output(0, node.pointwise(op, {node.input(0)}));
}

void binary(OnnxNode& node, Scalar op) {
  const auto [a, b] = binary_inputs(node);
  node.set_output(0, node.pointwise(op, {a, b}));
}

// a > b is b < a.
void binary_swapped(OnnxNode& node, Scalar op) {
  const auto [a, b] = binary_inputs(node);
  node.set_output(0, node.pointwise(op, {b, a}));
}

}  // namespace

#define TEMPER_IMPORT(name, how, op) \
  void import_##name(OnnxNode& node) { how(node, Scalar::op); }

TEMPER_IMPORT(Abs, unary, abs)
TEMPER_IMPORT(Acos, unary, acos)
TEMPER_IMPORT(Acosh, unary, acosh)
TEMPER_IMPORT(Asin, unary, asin)
TEMPER_IMPORT(Asinh, unary, asinh)
TEMPER_IMPORT(Atan, unary, atan)
TEMPER_IMPORT(Atanh, unary, atanh)
TEMPER_IMPORT(BitwiseNot, unary, bit_not)
TEMPER_IMPORT(Ceil, unary, ceil)
TEMPER_IMPORT(Cos, unary, cos)
TEMPER_IMPORT(Cosh, unary, cosh)
TEMPER_IMPORT(Exp, unary, exp)
TEMPER_IMPORT(Floor, unary, floor)
TEMPER_IMPORT(IsNaN, unary, is_nan)
TEMPER_IMPORT(Log, unary, log)
TEMPER_IMPORT(Neg, unary, neg)
TEMPER_IMPORT(Not, unary, logical_not)
TEMPER_IMPORT(Reciprocal, unary, reciprocal)
TEMPER_IMPORT(Relu, unary, relu)
TEMPER_IMPORT(Round, unary, round)
TEMPER_IMPORT(Sigmoid, unary, sigmoid)
TEMPER_IMPORT(Sign, unary, sign)
TEMPER_IMPORT(Sin, unary, sin)
TEMPER_IMPORT(Sinh, unary, sinh)
TEMPER_IMPORT(Sqrt, unary, sqrt)
TEMPER_IMPORT(Tan, unary, tan)
TEMPER_IMPORT(Tanh, unary, tanh)

TEMPER_IMPORT(Add, binary, add)
TEMPER_IMPORT(And, binary, logical_and)
TEMPER_IMPORT(BitwiseAnd, binary, bit_and)
TEMPER_IMPORT(BitwiseOr, binary, bit_or)
TEMPER_IMPORT(BitwiseXor, binary, bit_xor)
TEMPER_IMPORT(Div, binary, div)
TEMPER_IMPORT(Greater, binary_swapped, less)
TEMPER_IMPORT(GreaterOrEqual, binary_swapped, less_equal)
TEMPER_IMPORT(Less, binary, less)
TEMPER_IMPORT(LessOrEqual, binary, less_equal)
TEMPER_IMPORT(Mul, binary, mul)
TEMPER_IMPORT(Or, binary, logical_or)
TEMPER_IMPORT(Sub, binary, sub)
TEMPER_IMPORT(Xor, binary, logical_xor)

#undef TEMPER_IMPORT

// Of integers, which ONNX allows before opset 13, rounded towards zero.
void import_Erf(OnnxNode& node) {
  const DType dtype = node.type(0).dtype;
  const ValueId x = is_int(dtype) ? node.cast(node.input(0), DType::f64) : node.input(0);
  node.set_output(0, node.cast(node.pointwise(Scalar::erf, {x}), dtype));
}

void import_BitShift(OnnxNode& node) {
  const std::string direction = node.string_attribute("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") node.bad("direction = '", direction, "'");
  node.set_output(0, node.pointwise(direction == "LEFT" ? Scalar::shift_left : Scalar::shift_right,
                                    {node.input(0), node.input(1)}));
}

void import_Identity(OnnxNode& node) { node.set_output(0, node.value(0)); }

void import_Mod(OnnxNode& node) {
  const bool fmod = node.int_attribute("fmod", 0) != 0;
  if (!fmod && is_float(node.type(0).dtype)) node.bad("Mod of ", node.type(0), " needs fmod = 1");
  node.set_output(0, node.pointwise(fmod ? Scalar::fmod : Scalar::mod, {node.input(0), node.input(1)}));
}

// The result has the dtype of the base, whatever that of the exponent.
void import_Pow(OnnxNode& node) {
  const auto [a, b] = binary_inputs(node);
  const DType base = node.graph().type(a).dtype, exponent = node.graph().type(b).dtype;
  if (base == exponent) {
    node.set_output(0, node.pointwise(Scalar::pow, {a, b}));
    return;
  }
  // Wide enough for both: an exponent that is no integer needs floats, two integers stay integers.
  DType common = DType::i64;
  if (is_float(base)) common = base == DType::f64 || exponent == DType::f64 ? DType::f64 : DType::f32;
  else if (is_float(exponent)) common = DType::f64;
  ProgramBuilder b2({base, exponent});
  node.set_output(
      0, node.program(b2.result(b2.cast(b2.op(Scalar::pow, b2.cast(0, common), b2.cast(1, common)), base)), {a, b}));
}

void import_IsInf(OnnxNode& node) {
  const bool positive = node.int_attribute("detect_positive", 1) != 0,
             negative = node.int_attribute("detect_negative", 1) != 0;
  const DType dtype = node.type(0).dtype;
  ProgramBuilder b({dtype});
  int result = b.op(Scalar::is_inf, 0);
  if (!positive && !negative) result = b.op(Scalar::logical_and, result, b.op(Scalar::is_nan, 0));  // never true
  else if (!positive || !negative) {
    const int zero = b.constant(dtype, 0);
    result = b.op(Scalar::logical_and, result, positive ? b.op(Scalar::less, zero, 0) : b.op(Scalar::less, 0, zero));
  }
  node.set_output(0, node.program(b.result(result), {node.input(0)}));
}

// Equal strings have equal codes (base/string_table.h).
void import_Equal(OnnxNode& node) {
  const auto [a, b] = binary_inputs(node);
  node.set_output(0, node.pointwise(Scalar::equal, {movable(node, a), movable(node, b)}));
}

void import_Where(OnnxNode& node) {
  const ValueId a = movable(node, node.input(1)), b = movable(node, node.input(2));
  const ValueId chosen = node.pointwise(Scalar::where, {node.input(0), a, b});
  node.set_output(0, moved(node, chosen, node.type(1).dtype));
}

}  // namespace temper
