// SPDX-License-Identifier: Apache-2.0
// Numbers below 2^-126: zero to plans for the CPU, exact to the reference, and the application's threads stay as they
// were.
#include "base/subnormals.h"

#include <cmath>

#include "helpers.h"

namespace temper {
namespace {

// The same with the subnormal ones of its numbers, and nothing else, replaced by zero.
Tensor without_subnormals(const Tensor& tensor) {
  Tensor normal(DType::f32, tensor.dims());
  for (int64_t i = 0; i < tensor.count(); ++i) {
    const float value = tensor.data<float>()[i];
    normal.data<float>()[i] = std::abs(value) < 0x1p-126f ? 0.f : value;
  }
  return normal;
}

// Every other number is subnormal.
Tensor half_subnormal(Dims dims, uint32_t seed) {
  Tensor tensor = noise(std::move(dims), seed);
  for (int64_t i = 0; i < tensor.count(); i += 2) tensor.data<float>()[i] *= 0x1p-130f;
  return tensor;
}

// A convolution and a product, both with a bias and such weights.
std::shared_ptr<Engine> products(const Tensor& taps, const Tensor& weights, int threads) {
  const std::vector<Tensor> blobs{taps, noise({16, 1, 1}, 2), weights, noise({32}, 4)};
  return std::make_shared<Engine>(
      info_of("cpu"),
      parse_graph("graph \"products\"\ninput %x: f32[1,8,12,12]\nconst %w: f32[16,8,3,3] = #0\n"
                  "const %b: f32[16,1,1] = #1\n"
                  "%c: f32[1,16,12,12] = conv(%x, %w, %b) strides=[1,1] dilations=[1,1] pads=[1,1,1,1] "
                  "epilogue=\"(2) 2=add.f32(0,1)\"\n%f: f32[16,144] = reshape(%c) shape=[16,144]\n"
                  "const %v: f32[144,32] = #2\nconst %d: f32[32] = #3\n"
                  "%y: f32[16,32] = matmul(%f, %v, %d) epilogue=\"(2) 2=add.f32(0,1)\"\noutput \"y\" = %y\n",
                  blobs),
      threads);
}

TEST(Subnormals, WeightsOfThemAreZeroToAPlanOnTheCpu) {
  const Tensor taps = half_subnormal({16, 8, 3, 3}, 1), weights = half_subnormal({144, 32}, 3);
  const Tensor x = noise({1, 8, 12, 12}, 5);
  for (const int threads : {1, 2}) {
    const auto with = products(taps, weights, threads),
               without = products(without_subnormals(taps), without_subnormals(weights), threads);
    const Tensor got = Session(with).run({x})[0], want = Session(without).run({x})[0];
    EXPECT_TRUE(got.same_bits(want));
  }
}

TEST(Subnormals, AreZeroToThePlansOfACpuAndExactInTheReference) {
  Tensor x(DType::f32, {1 << 16});
  std::fill_n(x.data<float>(), x.count(), 0x1p-130f);
  for (const bool exact : {false, true}) {
    const auto engine =
        std::make_shared<Engine>(info_of(exact ? "reference" : "cpu"),
                                 parse_graph("graph \"half\"\ninput %x: f32[65536]\n%y: f32[65536] = pointwise(%x) "
                                             "program=\"(1) 1=constant.f32[8] 2=mul.f32(0,1)\"\noutput \"y\" = %y\n"),
                                 2);
    const Tensor y = Session(engine).run({x})[0];
    for (int64_t i = 0; i < y.count(); ++i) ASSERT_EQ(y.data<float>()[i], exact ? 0x1p-127f : 0.f);
  }
}

// Half floats below 2^-14 are subnormal as halves; as floats they are as normal as any.
TEST(Subnormals, HalfFloatsAreNoneOfThem) {
  Tensor x(DType::f16, {1 << 16});
  for (int64_t i = 0; i < x.count(); ++i) x.data<Half>()[i].bits = uint16_t(i);
  std::vector<Tensor> answers[2];
  for (const bool exact : {false, true}) {
    const auto engine = std::make_shared<Engine>(
        info_of(exact ? "reference" : "cpu"),
        parse_graph("graph \"halves\"\ninput %x: f16[65536]\n%f: f32[65536] = pointwise(%x) "
                    "program=\"(1) 1=cast.f32(0)\"\n%h: f16[65536] = pointwise(%f) program=\"(1) 1=constant.f32[0.5] "
                    "2=mul.f32(0,1) 3=cast.f16(2)\"\noutput \"f\" = %f\noutput \"h\" = %h\n"),
        2);
    answers[exact] = Session(engine).run({x});
  }
  EXPECT_TRUE(answers[0][0].same_bits(answers[1][0])) << "from f16";
  EXPECT_TRUE(answers[0][1].same_bits(answers[1][1])) << "to f16";
}

TEST(Subnormals, ARunLeavesTheControlRegisterOfTheThreadThatAskedForIt) {
  const auto engine =
      std::make_shared<Engine>(info_of("cpu"),
                               parse_graph("graph \"negated\"\ninput %x: f32[65536]\n%y: f32[65536] = pointwise(%x) "
                                           "program=\"(1) 1=neg.f32(0)\"\noutput \"y\" = %y\n"),
                               2);
  const Tensor x = noise({1 << 16}, 1);
  const SubnormalMode before = subnormal_mode();
  for (const SubnormalMode own : {SubnormalMode(0), kSubnormalsAreZero}) {
    set_subnormal_mode(own);
    const uint64_t register_before = float_control();
    Session session(engine);
    int seen = 0;
    session.run({x});
    EXPECT_EQ(float_control(), register_before);
    const auto look = [&](const PlanStep&, const Buffers&) {
      ++seen;
      EXPECT_EQ(subnormal_mode(), own) << "what an observer computes is its own affair";
    };
    Tensor y(DType::f32, {1 << 16});
    const void* const inputs[] = {x.raw().data()};
    void* const outputs[] = {y.raw_mutable()};
    session.prepare({{1 << 16}});
    session.run_observed(inputs, outputs, {look, look});
    EXPECT_GT(seen, 0);
    EXPECT_EQ(subnormal_mode(), own);
  }
  set_subnormal_mode(before);
}

}  // namespace
}  // namespace temper
