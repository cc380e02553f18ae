// SPDX-License-Identifier: Apache-2.0
// Functions in few instructions (support/half_functions.cuh) against the true ones: all 65,536 inputs of fp16 and of
// bf16, at most 1 ulp off. The emulator's instructions are as far off as NVIDIA's may be.
#include <cmath>
#include <functional>
#include <limits>

#include "all_configs.h"
#include "backends/cuda/support/half_steps.h"
#include "cuda_test_helpers.h"
#include "emulated_gpu.h"
#include "graph/ops/pointwise.h"
#include "run_recipe.h"

namespace temper {
namespace {

struct Function {
  const char* text;   // in that of the kernel
  const char* steps;  // from value 1, of f32, to a result of f32; the last is value `result`
  int result;
  double (*exact)(double x);
};

double gelu(double x) { return x * std::erfc(-x * std::sqrt(0.5)) / 2; }
double gelu_tanh(double x) {
  const double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  return x / (1 + std::exp(-2 * u));
}
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

const Function kFunctions[] = {
    {"op::exp_for<", "2=exp.f32(1)", 2, [](double x) { return std::exp(x); }},
    {"op::sigmoid_for<", "2=sigmoid.f32(1)", 2, sigmoid},
    {"op::sigmoid_for<", "2=sigmoid.f32(1) 3=mul.f32(1,2)", 3, [](double x) { return x * sigmoid(x); }},
    {"op::tanh_for<", "2=tanh.f32(1)", 2, [](double x) { return std::tanh(x); }},
    {"op::erf_for<", "2=erf.f32(1)", 2, [](double x) { return std::erf(x); }},
    {"op::gelu_for<",
     "2=constant.f32[0.5] 3=mul.f32(1,2) 4=constant.f32[0.7071067690849304] 5=mul.f32(1,4) 6=erf.f32(5) "
     "7=constant.f32[1] 8=add.f32(6,7) 9=mul.f32(3,8)",
     9, gelu},
    {"op::gelu_tanh_for<",
     "2=constant.f32[0.5] 3=mul.f32(1,2) 4=mul.f32(1,1) 5=mul.f32(4,1) 6=constant.f32[0.044714998453855515] "
     "7=mul.f32(5,6) 8=add.f32(1,7) 9=constant.f32[0.7978845834732056] 10=mul.f32(8,9) 11=tanh.f32(10) "
     "12=constant.f32[1] 13=add.f32(11,12) 14=mul.f32(3,13)",
     14, gelu_tanh},
    {" * (1.0f / v", "2=constant.f32[6] 3=div.f32(1,2)", 3, [](double x) { return x / 6; }},
    {" * (1.0f / v", "2=constant.f32[-0.37] 3=div.f32(1,2)", 3, [](double x) { return x / double(-0.37f); }},
};

Tensor all_numbers(DType dtype) {
  Tensor out(dtype, {65536});
  for (int i = 0; i < 65536; ++i) {
    const uint16_t bits = uint16_t(i);
    std::memcpy(out.raw_mutable() + 2 * i, &bits, 2);
  }
  return out;
}

// The distance of numbers of `dtype` where x lies; the next one above the largest counts as its infinity.
double ulp_at(DType dtype, double x) {
  const int digits = dtype == DType::f16 ? 10 : 7, least = dtype == DType::f16 ? -14 : -126;
  int exponent = 0;
  std::frexp(x, &exponent);
  return std::ldexp(1.0, std::max(exponent - 1, least) - digits);
}

void check_functions(const cuda::Compiler& compiler, const cuda::GpuRef& gpu) {
  const cuda::Recipe& pointwise = testing::recipe_named("cuda.pointwise");
  testing::Cubins cubins(compiler, gpu->info().architecture());
  const cuda::Stream stream(gpu);
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor x = all_numbers(dtype);
    const std::vector<double> arguments = x.to_doubles();
    const double above = dtype == DType::f16 ? 0x1p16 : 0x1p128;  // what infinity stands for
    for (const Function& function : kFunctions) {
      const Program program = Program::parse(concat("(1) 1=cast.f32(0) ", function.steps, ' ', function.result + 1,
                                                    "=cast.", name_of(dtype), '(', function.result, ')'));
      SCOPED_TRACE(program.text());
      const Problem problem{ops::Pointwise{program}, {{x.type()}}, {{x.type()}}};
      const Config config = pointwise.configs(problem, cuda::GpuProperties(gpu->info())).at(0);
      const cuda::Recipe::Work work = pointwise.work(problem, config, cuda::GpuProperties(gpu->info()));
      EXPECT_NE(work.jobs.at(0).source.text.find(function.text), std::string::npos);
      cubins.prepare({work.jobs[0].source});
      const std::vector<double> results =
          testing::run_recipe(stream, cubins, problem, config, work, {x}).at(0).to_doubles();
      double most = 0, where = 0;
      for (size_t i = 0; i < arguments.size(); ++i) {
        const double argument = arguments[i], want = function.exact(argument);
        if (std::isnan(argument)) {
          EXPECT_TRUE(std::isnan(results[i]));
          continue;
        }
        if (std::isnan(want)) continue;  // gelu and silu of -inf: the product with 0, or the limit
        const double got = std::isinf(results[i]) ? std::copysign(above, results[i]) : results[i];
        const double limited = std::clamp(want, -above, above);
        const double off = std::fabs(got - limited) / std::min(ulp_at(dtype, limited), ulp_at(dtype, above / 2));
        if (!(off <= most)) most = off, where = argument;
      }
      std::printf("%-14s %s at most %.3f ulp, at %g\n", function.text, std::string(name_of(dtype)).c_str(), most,
                  where);
      EXPECT_LE(most, 1) << "at " << where;
    }
  }
}

// gelu in steps of 8 bits, of all numbers of f16: no further off than half a step and a thousandth.
void check_bytes(const cuda::Compiler& compiler, const cuda::GpuRef& gpu) {
  const cuda::Recipe& pointwise = testing::recipe_named("cuda.pointwise");
  testing::Cubins cubins(compiler, gpu->info().architecture());
  const cuda::Stream stream(gpu);
  const Tensor x = all_numbers(DType::f16);
  const std::vector<double> arguments = x.to_doubles();
  for (const double scale : {0.028328001499176025, 0x1p-12}) {
    const Program program = Program::parse(concat("(1) 1=cast.f32(0) ", kFunctions[5].steps, " 10=constant.f32[", scale,
                                                  "] 11=div.f32(9,10) 12=round.f32(11) 13=cast.i8(12)"));
    SCOPED_TRACE(program.text());
    const Problem problem{ops::Pointwise{program}, {{x.type()}}, {{type_of(DType::i8, x.dims())}}};
    const Config config = pointwise.configs(problem, cuda::GpuProperties(gpu->info())).at(0);
    const cuda::Recipe::Work work = pointwise.work(problem, config, cuda::GpuProperties(gpu->info()));
    EXPECT_NE(work.jobs.at(0).source.text.find("op::gelu_for<i8>"), std::string::npos);
    cubins.prepare({work.jobs[0].source});
    const std::vector<double> results =
        testing::run_recipe(stream, cubins, problem, config, work, {x}).at(0).to_doubles();
    for (size_t i = 0; i < arguments.size(); ++i) {
      const double want = std::clamp(gelu(arguments[i]) / scale, -128.0, 127.0);
      if (std::isnan(arguments[i]) || std::isinf(arguments[i])) EXPECT_EQ(results[i], arguments[i] > 0 ? 127 : 0);
      else EXPECT_LE(std::fabs(results[i] - want), 0.501) << "at " << arguments[i];
    }
  }
}

TEST(EmulatedHalfFunctions, GeluOfBytesIsAThousandthOfAStepOff) {
  const testing::EmulatedGpu emulated;
  check_bytes(emulated.compiler(), emulated.gpu());
}

TEST(CudaHalfFunctions, GeluOfBytesIsAThousandthOfAStepOff) {
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  check_bytes(*compiler, gpu);
}

TEST(EmulatedHalfFunctions, AreWithinOneUlpOfAllInputs) {
  const testing::EmulatedGpu emulated;
  check_functions(emulated.compiler(), emulated.gpu());
}

TEST(CudaHalfFunctions, AreWithinOneUlpOfAllInputs) {
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  check_functions(*compiler, gpu);
}

TEST(CudaHalfFunctions, StandOnlyWhereResultsAreRoundedToSixteenBits) {
  const auto functions = [](const char* text, std::vector<DType> inputs) {
    const Program program = Program::parse(text);
    const auto digits = cuda::wanted_digits(program, inputs);
    std::string out;
    for (size_t s = 0; s < program.steps.size(); ++s)
      if (const auto few = cuda::half_text(program, s, digits)) out += *few + ' ';
    return out;
  };
  EXPECT_EQ(functions("(1) 1=tanh.f32(0) 2=cast.f16(1)", {DType::f32}), "op::tanh_for<f16>(v0) ");
  EXPECT_EQ(functions("(1) 1=tanh.f16(0)", {DType::f16}), "op::tanh_for<f16>(v0) ");
  EXPECT_EQ(functions("(2) 2=sigmoid.f32(0) 3=mul.f32(0,2) 4=mul.f32(3,1) 5=neg.f32(4) 6=cast.bf16(5)",
                      {DType::f32, DType::f32}),
            "op::sigmoid_for<bf16>(v0) ");
  // f32 is stored, a sum may cancel, two dtypes are wanted, bytes are made of it.
  EXPECT_EQ(functions("(1) 1=tanh.f32(0)", {DType::f32}), "");
  EXPECT_EQ(functions("(2) 2=tanh.f32(0) 3=add.f32(2,1) 4=cast.f16(3)", {DType::f32, DType::f32}), "");
  EXPECT_EQ(functions("(1) 1=tanh.f32(0) 2=cast.f16(1) 3=cast.f32(2) 4=add.f32(3,1)", {DType::f32}), "");
  EXPECT_EQ(functions("(1) 1=tanh.f32(0) 2=round.f32(1) 3=cast.i8(2)", {DType::f32}), "");
  const std::string gelu = concat("(1) 1=cast.f32(0) ", kFunctions[5].steps);
  const auto quantised = [&](std::string_view steps) {
    return functions(concat(gelu, ' ', steps).c_str(), {DType::f16});
  };
  const std::string bytes = "op::gelu_for<i8>(v1) ";
  EXPECT_EQ(quantised("10=constant.f32[0.5] 11=div.f32(9,10) 12=round.f32(11) 13=cast.i8(12)"), bytes);
  EXPECT_EQ(quantised("10=constant.f32[32] 11=mul.f32(9,10) 12=round.f32(11) 13=constant.f32[7] 14=add.f32(12,13) "
                      "15=cast.u8(14)"),
            bytes);
  // Steps so small that f32 has no digits for them, a sum of another size, an integer that nothing was rounded to.
  EXPECT_EQ(quantised("10=constant.f32[1e-5] 11=div.f32(9,10) 12=round.f32(11) 13=cast.i8(12)"), "");
  EXPECT_EQ(quantised("10=mul.f32(9,1) 11=round.f32(10) 12=cast.i8(11)"), "");
  EXPECT_EQ(quantised("10=cast.i8(9)"), "");
}

}  // namespace
}  // namespace temper
