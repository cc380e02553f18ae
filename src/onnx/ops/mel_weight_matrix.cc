// SPDX-License-Identifier: Apache-2.0
// Imports MelWeightMatrix: triangles over the bins of a spectrum, whose corners are equally far apart on the mel scale
// (2595 log10(1 + f / 700), O'Shaughnessy 1987). Its sizes and frequencies may be data.
#include <cmath>

#include "onnx/node.h"
#include "onnx/tensor_proto.h"

namespace temper {

void import_MelWeightMatrix(OnnxNode& node) {
  DType to = DType::f32;
  if (const int64_t dtype = node.int_attribute("output_datatype", 0))
    to = dtype_from_onnx(int32_t(dtype), "output_datatype");
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < 5; ++i) {
    if (node.type(i).rank() > 1 || (node.type(i).rank() == 1 && node.type(i).shape[0] != Dim(1)))
      node.bad("input ", i, " is ", node.type(i), ", not one number");
    inputs.push_back(node.reshape(node.cast(node.input(i), i < 3 ? DType::i64 : DType::f64), {}));
  }
  // Natural logarithms: 2595 log10(x) = 2595 / ln(10) ln(x).
  for (double number : {700.0, 2595 / std::log(10.0), 1.0, 0.0}) inputs.push_back(node.scalar(DType::f64, number));
  const ValueId y = node.body(R"((bins, length, rate, lower, upper, f700, per_log, one, zero) => (y) {
    i0 = Constant <value_int = 0> () i1 = Constant <value_int = 1> () i2 = Constant <value_int = 2> ()
    axis1 = Constant <value_ints = [1]> () starts0 = Constant <value_ints = [0]> ()
    starts1 = Constant <value_ints = [1]> ()
    starts2 = Constant <value_ints = [2]> () ends1 = Constant <value_ints = [-1]> ()
    ends2 = Constant <value_ints = [-2]> ()
    ends = Constant <value_ints = [9223372036854775807]> ()
    half = Div(length, i2) spectrum = Add(half, i1) corners = Add(bins, i2)
    low_ratio = Div(lower, f700) low_more = Add(low_ratio, one) low_log = Log(low_more) low = Mul(low_log, per_log)
    high_ratio = Div(upper, f700) high_more = Add(high_ratio, one) high_log = Log(high_more)
    high = Mul(high_log, per_log)
    span = Sub(high, low) corners_f = CastLike(corners, one) step = Div(span, corners_f)
    number = Range(i0, corners, i1) number_f = CastLike(number, one) offset = Mul(number_f, step) mel = Add(offset, low)
    power = Div(mel, per_log) ratio_more = Exp(power) ratio = Sub(ratio_more, one) hertz = Mul(ratio, f700)
    longer = Add(length, i1) longer_f = CastLike(longer, one) rate_f = CastLike(rate, one)
    scaled = Mul(hertz, longer_f) exact = Div(scaled, rate_f) corner = Floor(exact)
    left = Slice(corner, starts0, ends2) center = Slice(corner, starts1, ends1) right = Slice(corner, starts2, ends)
    bin = Range(i0, spectrum, i1) bin_f = CastLike(bin, one) j = Unsqueeze(bin_f, axis1)
    up_size = Sub(center, left) down_size = Sub(right, center) up_safe = Max(up_size, one)
    down_safe = Max(down_size, one)
    from_left = Sub(j, left) to_right = Sub(right, j) up = Div(from_left, up_safe) down = Div(to_right, down_safe)
    flat = Equal(up_size, zero) rise = Where(flat, one, up)
    after_left = GreaterOrEqual(j, left) until_center = LessOrEqual(j, center) rising = And(after_left, until_center)
    after_center = GreaterOrEqual(j, center) before_right = Less(j, right) falling = And(after_center, before_right)
    risen = Where(rising, rise, zero) y = Where(falling, down, risen)
  })",
                              inputs)[0];
  node.set_output(0, node.cast(y, to));
}

}  // namespace temper
