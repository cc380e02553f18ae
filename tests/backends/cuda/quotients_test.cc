// SPDX-License-Identifier: Apache-2.0
// Quotients by a constant that are rounded to 8 bits, or to f8e4m3fn, which kernels make without a division
// (op::quotient_for_bytes), against true quotients: beside every half and every tie of f8e4m3fn, and where numbers end;
// with a zero point behind, too.
#include <cmath>
#include <limits>

#include "all_configs.h"
#include "base/small_types.h"
#include "emulated_gpu.h"
#include "graph/ops/pointwise.h"
#include "run_recipe.h"

namespace temper {
namespace {

Tensor dividends(float divisor) {
  constexpr float inf = std::numeric_limits<float>::infinity(), least = std::numeric_limits<float>::denorm_min(),
                  most = std::numeric_limits<float>::max();
  std::vector<float> values{0,      -0.0f,     inf,  -inf,  std::nanf(""), least,
                            -least, 0x1p-126f, most, -most, 0x1p100f,      -0x1p-100f};
  const auto beside = [&](double quotient) {
    float x = float(quotient * double(divisor));
    for (int i = 0; i < 4; ++i) x = std::nextafter(x, -inf);
    for (int i = 0; i < 9; ++i) values.push_back(x), x = std::nextafter(x, inf);
  };
  for (int half = -600; half <= 600; ++half) beside(half * 0.5);
  for (int code = 0; code < 127; ++code) {
    const double low = e4m3_to_float(uint8_t(code)), high = code < 126 ? e4m3_to_float(uint8_t(code + 1)) : 480;
    beside((low + high) / 2);
    beside(-(low + high) / 2);
  }
  Tensor out(DType::f32, {int64_t(values.size())});
  std::copy(values.begin(), values.end(), out.data<float>());
  return out;
}

void check_quotients(const cuda::Compiler& compiler, const cuda::GpuRef& gpu) {
  const cuda::Recipe* pointwise = &testing::recipe_named("cuda.pointwise");
  testing::Cubins cubins(compiler, gpu->info().architecture());
  const cuda::Stream stream(gpu);
  struct By {
    double divisor, zero = 0;
  };
  for (const auto& [divisor, zero] : {By{0.007874004542827606}, By{0.25, 3}, By{1 / 3.0}, By{-0.02},
                                      By{1.9999998807907104}, By{3e-18}, By{1e18}, By{1e-30}})
    for (const DType to : {DType::i8, DType::u8, DType::f8e4m3fn}) {
      const bool float8 = to == DType::f8e4m3fn;
      if (float8 && zero != 0) continue;
      const Tensor x = dividends(float(divisor));
      Program program;
      const int by = program.push({Scalar::constant, DType::f32, {-1, -1, -1}, divisor});
      int value = program.push({Scalar::div, DType::f32, {0, by, -1}});
      if (to == DType::u8) value = program.push({Scalar::relu, DType::f32, {value, -1, -1}});
      if (!float8) value = program.push({Scalar::round, DType::f32, {value, -1, -1}});
      if (zero != 0)
        value = program.push({Scalar::add, DType::f32, {value, program.push(constant_step(DType::f32, zero)), -1}});
      program.push({Scalar::cast, to, {value, -1, -1}});
      const Problem problem{ops::Pointwise{program}, {{x.type()}}, {{{to, x.type().shape}}}};
      const Config config = pointwise->configs(problem, cuda::GpuProperties(gpu->info())).at(0);
      const cuda::Recipe::Work work = pointwise->work(problem, config, cuda::GpuProperties(gpu->info()));
      // All but the last, which is so small that a step could give a denormal.
      EXPECT_EQ(work.jobs.at(0).source.text.find("op::quotient_for_") != std::string::npos, divisor != 1e-30);
      EXPECT_EQ(work.jobs.at(0).source.text.find("rounded_plus") != std::string::npos, zero != 0);
      cubins.prepare({work.jobs[0].source});
      SCOPED_TRACE(program.text());
      const Tensor want = run_program(program, std::vector<Tensor>{x}, x.dims());
      const Tensor got = testing::run_recipe(stream, cubins, problem, config, work, {x}).at(0);
      EXPECT_TRUE(got.same_bits(want)) << testing::difference(got, want, 0, 0);
    }
}

TEST(EmulatedQuotients, ForBytesAreThoseOfADivision) {
  const testing::EmulatedGpu emulated;
  check_quotients(emulated.compiler(), emulated.gpu());
}

TEST(CudaQuotients, ForBytesAreThoseOfADivision) {
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  check_quotients(*compiler, gpu);
}

}  // namespace
}  // namespace temper
