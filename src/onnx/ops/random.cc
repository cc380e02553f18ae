// SPDX-License-Identifier: Apache-2.0
// Imports RandomUniform, RandomNormal, their forms of the shape of an input, Bernoulli and Multinomial.
#include <cmath>

#include "onnx/node.h"
#include "onnx/random_numbers.h"
#include "onnx/tensor_proto.h"

namespace temper {

namespace {

Shape shape_attribute(OnnxNode& node) {
  if (!node.has_attribute("shape")) node.bad("no shape is given");
  const auto dims = node.ints_attribute("shape", {});
  byte_count(DType::f64, dims);
  return Shape(dims.begin(), dims.end());
}

DType dtype_attribute(OnnxNode& node, DType standard) {
  const int64_t dtype = node.int_attribute("dtype", 0);
  return dtype ? dtype_from_onnx(int32_t(dtype), "dtype") : standard;
}

DType computed_in(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

// u * (high - low) + low; rounding may not give `high`.
void set_uniform(OnnxNode& node, ValueId u, DType dtype) {
  const double low = node.float_attribute("low", 0), high = node.float_attribute("high", 1);
  if (!(low <= high)) node.bad("low is ", low, ", high ", high);
  const DType wide = computed_in(dtype);
  ProgramBuilder b({dtype});
  const int from = b.constant(wide, low);
  const int value = b.op(Scalar::add, b.op(Scalar::mul, b.cast(0, wide), b.constant(wide, high - low)), from);
  const int rounded = b.cast(value, dtype);
  const int inside = b.op(Scalar::less, b.cast(rounded, wide), b.constant(wide, high));
  node.set_output(0, node.program(b.result(b.op(Scalar::where, inside, rounded, b.cast(from, dtype))), {u}));
}

// Box and Muller (1958): sqrt(-2 ln(1 - u)) cos(2 pi v).
void set_normal(OnnxNode& node, ValueId u, ValueId v, DType dtype) {
  const DType wide = node.graph().type(u).dtype;
  ProgramBuilder b({wide, wide});
  auto number = [&](double value) { return b.constant(wide, value); };
  const int length =
      b.op(Scalar::sqrt, b.op(Scalar::mul, b.op(Scalar::log, b.op(Scalar::sub, number(1), 0)), number(-2)));
  const int normal = b.op(Scalar::mul, length, b.op(Scalar::cos, b.op(Scalar::mul, 1, number(2 * M_PI))));
  const int scaled = b.op(Scalar::add, b.op(Scalar::mul, normal, number(node.float_attribute("scale", 1))),
                          number(node.float_attribute("mean", 0)));
  node.set_output(0, node.program(b.result(b.cast(scaled, dtype)), {u, v}));
}

constexpr uint64_t kOther = 0xd1b54a32d192ed03u;  // a second stream of the same seed

}  // namespace

void import_RandomUniform(OnnxNode& node) {
  const DType dtype = dtype_attribute(node, DType::f32);
  set_uniform(node, uniform_of(node, shape_attribute(node), dtype, seed_of(node)), dtype);
}

void import_RandomUniformLike(OnnxNode& node) {
  const DType dtype = dtype_attribute(node, node.type(0).dtype);
  set_uniform(node, uniform_like(node, node.input(0), dtype, seed_of(node)), dtype);
}

void import_RandomNormal(OnnxNode& node) {
  const DType dtype = dtype_attribute(node, DType::f32), wide = computed_in(dtype);
  const Shape shape = shape_attribute(node);
  const uint64_t seed = seed_of(node);
  if (!is_float(dtype)) node.bad("random numbers of ", dtype);
  set_normal(node, uniform_of(node, shape, wide, seed), uniform_of(node, shape, wide, seed + kOther), dtype);
}

void import_RandomNormalLike(OnnxNode& node) {
  const DType dtype = dtype_attribute(node, node.type(0).dtype), wide = computed_in(dtype);
  const uint64_t seed = seed_of(node);
  if (!is_float(dtype)) node.bad("random numbers of ", dtype);
  set_normal(node, uniform_like(node, node.input(0), wide, seed),
             uniform_like(node, node.input(0), wide, seed + kOther), dtype);
}

// 1 with the probability that x gives. (The function body in ONNX's schema has it the other way round.)
void import_Bernoulli(OnnxNode& node) {
  const DType from = node.type(0).dtype, to = dtype_attribute(node, from), wide = computed_in(from);
  const ValueId u = uniform_like(node, node.input(0), wide, seed_of(node));
  ProgramBuilder b({wide, from});
  node.set_output(0, node.program(b.result(b.cast(b.op(Scalar::less, 0, b.cast(1, wide)), to)), {u, node.input(0)}));
}

// The inputs are logarithms of probabilities; a sample is the first class up to which they sum to more than u.
void import_Multinomial(OnnxNode& node) {
  const int64_t samples = node.int_attribute("sample_size", 1);
  const DType to = dtype_attribute(node, DType::i32), wide = computed_in(node.type(0).dtype);
  if (node.type(0).rank() != 2 || samples < 1) node.bad(samples, " samples of ", node.type(0));
  if (to != DType::i32 && to != DType::i64) node.bad("samples of ", to);
  const ValueId u = uniform_of(node, {node.type(0).shape[0], Dim(samples), Dim(1)}, wide, seed_of(node));
  const auto samples_of = node.body(R"((x, u) => (y) {
    axis = Constant <value_int = 1> ()  last = Constant <value_ints = [-1]> ()  one = Constant <value_int = 1> ()
    p = Softmax <axis = 1> (x)  sums = CumSum(p, axis)  along = Constant <value_ints = [1]> ()
    row = Unsqueeze(sums, along)
    passed = GreaterOrEqual(u, row)  counted = Cast <to = 7> (passed)  place = ReduceSum <keepdims = 0> (counted, last)
    shape = Shape <start = 1> (x)  count = Squeeze(shape)  most = Sub(count, one)  y = Min(place, most)
  })",
                                    {node.cast(node.input(0), wide), u});
  node.set_output(0, node.cast(samples_of[0], to));
}

}  // namespace temper
