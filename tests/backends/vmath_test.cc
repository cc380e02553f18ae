// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/vmath.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backends/cpu/isa.h"
#include "backends/cpu/pointwise_steps.h"

namespace temper {
namespace {

// Error in units of the last place of the true value, which is taken as at least the smallest normal number.
double ulps(float got, double want) {
  if (std::isnan(got) && std::isnan(want)) return 0;
  if (double(got) == want || got == float(want)) return 0;
  if (std::isnan(got) || std::isnan(want) || std::isinf(got)) return 1e30;
  const double size = std::max(std::fabs(want), 0x1p-126);
  return std::fabs(double(got) - want) / std::ldexp(1.0, std::ilogb(size) - 23);
}

// Every 1009th bit pattern: all exponents, both signs, subnormals, infinities, NaN.
double worst_error(Scalar op, double (*truth)(double), float limit, Isa isa, float& at) {
  const Isa before = cpu_isa();
  set_isa(isa);
  double worst = 0;
  std::vector<float> x, y;
  for (uint64_t bits = 0; bits < (uint64_t(1) << 32); bits += 1009) {
    const float value = vmath::as_float(uint32_t(bits));
    if (std::fabs(value) <= limit || limit == 0) x.push_back(value);
  }
  for (float value : {0.f, -0.f, INFINITY, -INFINITY, float(NAN), 1.f, -1.f})
    if (std::fabs(value) <= limit || limit == 0) x.push_back(value);
  y.resize(x.size());
  const StepFn step = find_step_f32(op);
  for (size_t i = 0; i < x.size(); i += 1000)
    step({y.data() + i, x.data() + i, nullptr, nullptr, int64_t(std::min<size_t>(1000, x.size() - i)), false, false,
          false});
  for (size_t i = 0; i < x.size(); ++i)
    if (const double e = ulps(y[i], truth(double(x[i]))); e > worst) worst = e, at = x[i];
  set_isa(before);
  return worst;
}

struct Case {
  const char* name;
  Scalar op;
  double (*truth)(double);
  double bound;
  float limit;  // arguments beyond are not tried; 0: all
};

TEST(VectorMath, ErrorsStayWithinTheDocumentedBounds) {
  const Case cases[] = {
      {"exp", Scalar::exp, [](double x) { return std::exp(x); }, 1.5, 0},
      {"log", Scalar::log, [](double x) { return std::log(x); }, 2, 0},
      {"sigmoid", Scalar::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, 3, 0},
      {"tanh", Scalar::tanh, [](double x) { return std::tanh(x); }, 3, 0},
      {"erf", Scalar::erf, [](double x) { return std::erf(x); }, 3, 0},
  };
  for (const Case& c : cases)
    for (Isa isa : {Isa::base, Isa::avx2, Isa::avx512}) {
      if (isa > best_isa()) continue;
      float at = 0;
      const double worst = worst_error(c.op, c.truth, c.limit, isa, at);
      EXPECT_LE(worst, c.bound) << c.name << " of " << at << " with instruction set " << int(isa);
    }
}

// Of all exponents; where erf rounds to 1 the result is x, or 0.
TEST(VectorMath, GeluIsWithinAQuarterOfAMillionthOfItsArgument) {
  std::vector<float> x{0.f, -0.f, 1e30f, -1e30f}, y;
  for (uint64_t bits = 0; bits < (uint64_t(1) << 32); bits += 1009)
    if (const float value = vmath::as_float(uint32_t(bits)); std::fabs(value) < 1e3f) x.push_back(value);
  y.resize(x.size());
  for (Isa isa : {Isa::base, Isa::avx2, Isa::avx512}) {
    if (isa > best_isa()) continue;
    const Isa before = cpu_isa();
    set_isa(isa);
    for (size_t i = 0; i < x.size(); i += 1000)
      find_gelu()({y.data() + i, x.data() + i, nullptr, nullptr, int64_t(std::min<size_t>(1000, x.size() - i)), false,
                   false, false});
    set_isa(before);
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = 0.5 * double(x[i]) * std::erfc(-double(x[i]) * std::sqrt(0.5)),
                   error = std::fabs(double(y[i]) - want);
      if (error > 0x1p-149) worst = std::max(worst, error / std::fabs(double(x[i])));
      if (std::fabs(x[i]) > 6) { ASSERT_EQ(y[i], x[i] > 0 ? x[i] : 0.f) << x[i]; }
    }
    EXPECT_LE(worst, 2.5e-7) << "instruction set " << int(isa);
  }
}

TEST(VectorMath, ExpOfWhatIsNotAboveZeroIsAsAccurateAndEndsInZero) {
  double worst = 0;
  for (uint64_t bits = 0x80000000u; bits < (uint64_t(1) << 32); bits += 1009) {
    const float x = vmath::as_float(uint32_t(bits)), y = vmath::exp_below_zero(x);
    if (x < -87) {
      ASSERT_EQ(y, 0.f) << x;
    } else worst = std::max(worst, ulps(y, std::exp(double(x))));
  }
  EXPECT_LE(worst, 1.5);
  EXPECT_EQ(vmath::exp_below_zero(0.f), 1.f);
  EXPECT_EQ(vmath::exp_below_zero(-INFINITY), 0.f);
  EXPECT_TRUE(std::isnan(vmath::exp_below_zero(NAN)));
}

TEST(VectorMath, SineAndCosineAreAccurateForEveryArgument) {
  for (auto [op, truth] : {std::pair{Scalar::sin, static_cast<double (*)(double)>(std::sin)},
                           {Scalar::cos, static_cast<double (*)(double)>(std::cos)}})
    for (Isa isa : {Isa::base, best_isa()}) {
      const Isa before = cpu_isa();
      set_isa(isa);
      for (float start : {-1e30f, -1e9f, -1e5f, -100.f, -1e-30f, 0.f, 0.5f, 3.f, 1e3f, 1e6f, 1.07e9f, 1e12f}) {
        std::vector<float> x, y(1000);
        for (int i = 0; i < 1000; ++i) x.push_back(start + float(i) * std::max(1e-3f, std::fabs(start) * 1e-6f));
        find_step_f32(op)({y.data(), x.data(), nullptr, nullptr, 1000, false, false, false});
        for (int i = 0; i < 1000; ++i) ASSERT_NEAR(y[size_t(i)], truth(double(x[size_t(i)])), 1.2e-7) << x[size_t(i)];
      }
      set_isa(before);
    }
}

}  // namespace
}  // namespace temper
