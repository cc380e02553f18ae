// SPDX-License-Identifier: Apache-2.0
#include "onnx/random_numbers.h"

#include <bit>

#include "base/hash.h"
#include "graph/ops/broadcast.h"
#include "graph/ops/shape.h"

namespace temper {

namespace {

// SplitMix64 (Steele, Lea, Flood 2014): the position times the golden ratio, then its output function.
ValueId hashed(OnnxNode& node, ValueId position, uint64_t seed) {
  constexpr uint64_t golden = 0x9e3779b97f4a7c15u;
  auto number = [&](uint64_t value) { return node.constant(Tensor::of<uint64_t>({}, {value})); };
  std::vector<ValueId> inputs{
      position,   number(seed), number(golden), number(0xbf58476d1ce4e5b9u), number(0x94d049bb133111ebu),
      number(30), number(27),   number(31)};
  inputs.insert(inputs.end(), node.loops().begin(), node.loops().end());
  std::vector<DType> dtypes;
  dtypes.reserve(inputs.size());
  for (ValueId id : inputs) dtypes.push_back(node.graph().type(id).dtype);
  ProgramBuilder b(dtypes);
  auto mixed = [&](int x) {
    x = b.op(Scalar::mul, b.op(Scalar::bit_xor, x, b.op(Scalar::shift_right, x, 5)), 3);
    x = b.op(Scalar::mul, b.op(Scalar::bit_xor, x, b.op(Scalar::shift_right, x, 6)), 4);
    return b.op(Scalar::bit_xor, x, b.op(Scalar::shift_right, x, 7));
  };
  int state = b.op(Scalar::add, 1, 2);
  for (size_t i = 8; i < inputs.size(); ++i)
    state = b.op(Scalar::add, mixed(state), b.op(Scalar::mul, b.cast(int(i), DType::u64), 2));
  state = b.op(Scalar::add, mixed(state), b.op(Scalar::mul, b.cast(0, DType::u64), 2));
  return node.program(b.result(mixed(state)), inputs);
}

int digits_of(DType dtype) {
  return dtype == DType::f64 ? 53 : dtype == DType::f16 ? 11 : dtype == DType::bf16 ? 8 : 24;
}

ValueId uniform(OnnxNode& node, ValueId position, DType dtype, uint64_t seed) {
  if (!is_float(dtype)) node.bad("random numbers of ", dtype);
  const ValueId bits = hashed(node, position, seed);
  const int digits = digits_of(dtype);
  ProgramBuilder b({DType::u64});
  const int high = b.op(Scalar::shift_right, 0, b.constant(DType::u64, 64 - digits));
  // f16 holds neither 2^11 numbers' worth of integers nor 2^-11 times the largest of them without f32 between.
  const DType wide = dtype == DType::f64 ? dtype : DType::f32;
  const int value = b.op(Scalar::mul, b.cast(high, wide), b.constant(wide, 1.0 / double(int64_t(1) << digits)));
  return node.program(b.result(b.cast(value, dtype)), {bits});
}

}  // namespace

uint64_t seed_of(OnnxNode& node) {
  if (!node.has_attribute("seed")) return xxh3(concat(node.name(), '/', node.graph().node_count()));
  const double seed =
      node.op_type() == "Dropout" ? double(node.int_attribute("seed")) : node.float_attribute("seed", 0);
  return std::bit_cast<uint64_t>(seed);
}

ValueId uniform_like(OnnxNode& node, ValueId like, DType dtype, uint64_t seed) {
  const ValueId position = node.body(R"((x) => (position) {
    size = Size(x)  zero = Constant <value_int = 0> ()  one = Constant <value_int = 1> ()
    flat = Range(zero, size, one)  shape = Shape(x)  position = Reshape <allowzero = 1> (flat, shape)
  })",
                                     {like})[0];
  return uniform(node, position, dtype, seed);
}

ValueId uniform_of(OnnxNode& node, const Shape& shape, DType dtype, uint64_t seed) {
  ops::Broadcast zeros;
  zeros.shape = shape;
  return uniform_like(node, node.add(zeros, {node.scalar(DType::boolean, 0)}), dtype, seed);
}

}  // namespace temper
