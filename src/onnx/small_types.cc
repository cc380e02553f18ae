// SPDX-License-Identifier: Apache-2.0
#include "onnx/small_types.h"

#include "base/small_types.h"
#include "graph/ops/bit_cast.h"
#include "graph/ops/gather.h"
#include "graph/ops/string_cast.h"

namespace temper {

namespace {

constexpr int kBias = 127, kMantissaBits = 23;  // of f32

ValueId bits_as(OnnxNode& node, ValueId x, DType dtype) {
  ops::BitCast op;
  op.dtype = dtype;
  return node.add(op, {x});
}

// The bits of x as f32. An f64 is rounded to odd (Boldo, Melquiond 2005): a last bit that is 1 where something was cut
// off keeps a second rounding, to fewer bits, from going wrong. Large integers lose bits, but none that a small type
// tells apart.
ValueId bits_of_float(OnnxNode& node, ValueId x) {
  const ValueId narrow = node.cast(x, DType::f32), bits = bits_as(node, narrow, DType::i32);
  if (node.graph().type(x).dtype != DType::f64) return bits;
  ProgramBuilder b({DType::f64, DType::f32, DType::i32});
  const int wide = b.cast(1, DType::f64), one = b.constant(DType::i32, 1);
  const int away = b.op(Scalar::less, b.op(Scalar::abs, 0), b.op(Scalar::abs, wide));
  const int cut = b.op(Scalar::where, away, b.op(Scalar::sub, 2, one), 2);
  return node.program(b.result(b.op(Scalar::where, b.op(Scalar::equal, 0, wide), 2, b.op(Scalar::bit_or, cut, one))),
                      {x, narrow, bits});
}

// Integer arithmetic on the bits of an f32.
struct BitsBuilder : ProgramBuilder {
  int bits, magnitude;
  explicit BitsBuilder(std::vector<DType> inputs, int bits_input)
      : ProgramBuilder(std::move(inputs)), bits(bits_input), magnitude(op(Scalar::bit_and, bits, number(0x7fffffff))) {}
  int number(int64_t value) { return constant(DType::i32, double(value)); }
  int add(int a, int b) { return op(Scalar::add, a, b); }
  int shifted(int a, int by) { return op(Scalar::shift_right, a, number(by)); }
  int low(int a, int64_t mask) { return op(Scalar::bit_and, a, number(mask)); }
  int where(int condition, int a, int b) { return op(Scalar::where, condition, a, b); }
  int less(int a, int b) { return op(Scalar::less, a, b); }
  int is_nan() { return less(number(0x7f800000), magnitude); }
  ValueId done(OnnxNode& node, int code, std::vector<ValueId> inputs, DType to) {
    return bits_as(node, node.program(result(cast(code, DType::u8)), std::move(inputs)), to);
  }
};

ValueId encoded(OnnxNode& node, ValueId x, DType to, const SmallFloat& format, bool saturate) {
  const ValueId bits = bits_of_float(node, x), value = bits_as(node, bits, DType::f32);
  BitsBuilder b({DType::f32, DType::i32}, 1);
  const int cut = kMantissaBits - format.mantissa_bits;
  // Round half to even: half of what is cut off is added, and a carry goes into the exponent by itself.
  const int odd = b.low(b.shifted(b.magnitude, cut), 1);
  const int rounded = b.shifted(b.add(b.add(b.magnitude, odd), b.number((int64_t(1) << (cut - 1)) - 1)), cut);
  const int normal = b.add(rounded, b.number(-((int64_t(kBias) - format.bias) << format.mantissa_bits)));
  // Below the smallest normal number the codes are multiples of one step.
  const double steps = double(int64_t(1) << (format.bias - 1 + format.mantissa_bits));
  const int scaled = b.op(Scalar::mul, b.op(Scalar::abs, 0), b.constant(DType::f32, steps));
  const int denormal = b.cast(b.op(Scalar::round, scaled), DType::i32);
  const int is_denormal = b.less(b.magnitude, b.number(int64_t(kBias - format.bias + 1) << kMantissaBits));
  int code = b.where(is_denormal, denormal, normal);
  code = b.where(b.less(b.number(format.most), code), b.number(saturate ? format.most : format.overflow), code);
  const int sign = b.where(b.less(b.bits, b.number(0)), b.number(format.sign_bit), b.number(0));
  int with_sign = b.op(Scalar::bit_or, code, sign);
  if (format.one_zero) with_sign = b.where(b.op(Scalar::equal, code, b.number(0)), code, with_sign);
  const bool signed_nan = !format.one_zero && format.nan < format.sign_bit;
  const int nan = signed_nan ? b.op(Scalar::bit_or, b.number(format.nan), sign) : b.number(format.nan);
  return b.done(node, b.where(b.is_nan(), nan, with_sign), {value, bits}, to);
}

// The exponent of an f32 is the code. Of a denormal one, from 2^22 on the mantissa is that of a number between the
// scales 2^-127 and 2^-126.
ValueId encoded_scale(OnnxNode& node, ValueId x, const CastOptions& options) {
  BitsBuilder b({DType::i32}, 0);
  constexpr int64_t one = int64_t(1) << kMantissaBits;
  const int exponent = b.shifted(b.magnitude, kMantissaBits), mantissa = b.low(b.magnitude, one - 1);
  // The code goes up where the mantissa is more than these.
  int64_t normal_limit = one, denormal_limit = one;
  if (options.round_mode == ScaleRounding::up) normal_limit = 0, denormal_limit = one / 2;
  if (options.round_mode == ScaleRounding::nearest) normal_limit = one / 2 - 1, denormal_limit = one / 4 * 3 - 1;
  const int is_denormal = b.less(b.magnitude, b.number(one));
  const int limit = b.where(is_denormal, b.number(denormal_limit), b.number(normal_limit));
  const int up = b.cast(b.less(limit, mantissa), DType::i32);
  int code = b.add(exponent, up);
  const int over = b.less(b.number(254), code);
  code = b.where(over, b.number(options.saturate ? 254 : 255), code);
  if (!options.saturate) code = b.where(b.less(b.magnitude, b.number(one / 2)), b.number(255), code);
  return b.done(node, b.where(b.is_nan(), b.number(255), code), {bits_of_float(node, x)}, DType::f8e8m0);
}

ValueId encoded_int(OnnxNode& node, ValueId x, DType to) {
  const IntRange range = range_of_small_int(to);
  const int64_t count = range.most - range.least + 1;
  ProgramBuilder b({node.graph().type(x).dtype});
  auto number = [&](int64_t value) { return b.constant(DType::i32, double(value)); };
  int code = b.op(Scalar::bit_and, b.cast(0, DType::i32), number(count - 1));
  if (range.least < 0)  // the highest bit is the sign
    code = b.op(Scalar::add, b.op(Scalar::bit_xor, code, number(count / 2)), number(range.least));
  return as_codes(node, node.program(b.result(b.cast(code, carrier_of(to))), {x}), to);
}

}  // namespace

CastOptions cast_options(const OnnxNode& node) {
  CastOptions options;
  options.saturate = node.int_attribute("saturate", 1) != 0;
  const std::string mode = node.string_attribute("round_mode", "up");
  if (mode == "down") options.round_mode = ScaleRounding::down;
  else if (mode == "nearest") options.round_mode = ScaleRounding::nearest;
  else if (mode != "up") node.bad("round_mode is '", mode, "'; it is up, down or nearest");
  return options;
}

ValueId as_codes(OnnxNode& node, ValueId x, DType to) { return bits_as(node, x, to); }

ValueId movable(OnnxNode& node, ValueId x) {
  if (!x.valid() || node.graph().type(x).dtype != DType::string) return x;
  return as_codes(node, x, carrier_of(DType::string));
}

ValueId moved(OnnxNode& node, ValueId x, DType like) { return like == DType::string ? as_codes(node, x, like) : x; }

ValueId computable(OnnxNode& node, ValueId x) {
  const DType from = node.graph().type(x).dtype;
  if (!is_stored_only(from)) return x;
  if (from == DType::string) node.unsupported("arithmetic on strings");
  const ValueId codes = bits_as(node, x, carrier_of(from));
  if (is_small_int(from)) return codes;
  Tensor values(DType::f32, {256});
  for (int code = 0; code < 256; ++code) values.data<float>()[code] = value_of_code(from, uint8_t(code));
  return node.add(ops::Gather{}, {node.constant(values), node.cast(codes, DType::i32)});
}

ValueId converted(OnnxNode& node, ValueId x, DType to, const CastOptions& options) {
  const DType from = node.graph().type(x).dtype;
  if (from == to) return x;
  if (from == DType::string || to == DType::string) {
    ops::StringCast op;
    if (from != DType::string) return node.add(op, {computable(node, x)});
    op.dtype = is_stored_only(to) ? DType::f32 : to;
    return converted(node, node.add(op, {x}), to, options);
  }
  x = computable(node, x);
  if (!is_stored_only(to)) return node.cast(x, to);
  if (is_small_int(to)) return encoded_int(node, x, to);
  if (to == DType::f8e8m0) return encoded_scale(node, x, options);
  return encoded(node, x, to, *small_float_of(to), options.saturate);
}

}  // namespace temper
