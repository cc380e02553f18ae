// SPDX-License-Identifier: Apache-2.0
// Scales and zero points of int8 go with a launch and not into a kernel's text (ProgramNumbers).
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/cuda/recipe.h"
#include "backends/cuda/support/kernel_text.h"
#include "backends/cuda/support/program_code.h"
#include "bench/cases.h"
#include "gpu_properties.h"

namespace temper {
namespace {

// The problem of a line in which each # stands for `number`.
Problem problem_of(std::string line, std::string_view number) {
  for (size_t at; (at = line.find('#')) != line.npos;) line.replace(at, 1, number);
  const KernelCase parsed = parse_cases(line).at(0);
  Problem problem = make_case_problem(parsed, make_case_inputs(parsed, 1), 1);
  for (Port& port : problem.inputs) port.constant = nullptr;  // they are constant all the same
  return problem;
}

// Whether all kernels of both problems have one text, in each configuration of each recipe that takes them. Where they
// do, their launches must tell them apart.
bool share_texts(const Problem& a, const Problem& b) {
  int kernels = 0;
  bool shared = true;
  for (const cuda::Recipe* recipe : cuda::recipes()) {
    if (!recipe->supports(a).yes()) continue;
    for (const Config& config : recipe->configs(a, testing::kH100)) {
      const auto first = recipe->work(a, config, testing::kH100), second = recipe->work(b, config, testing::kH100);
      bool differ = false;
      for (size_t j = 0; j < first.jobs.size(); ++j) {
        shared &= first.jobs[j].source == second.jobs[j].source;
        // What reads the numbers finds them in the kernel's Parameters.
        if (first.jobs[j].source.text.find("(p.numbers") != std::string::npos) {
          EXPECT_TRUE(std::ranges::any_of(cuda::included_texts(first.jobs[j].source.text), [](const auto& included) {
            return included.text.find("\nNUMBERS\n") != included.text.npos;
          })) << recipe->name;
        }
        differ |= first.jobs[j].parameters != second.jobs[j].parameters;
        ++kernels;
      }
      EXPECT_TRUE(differ || !shared) << recipe->name << ' ' << config.text;
    }
  }
  EXPECT_GT(kernels, 0);
  return shared;
}

TEST(CudaNumbers, LayersThatDifferInScalesAloneHaveOneText) {
  const char* const lines[] = {
      "pointwise(f16[8,64]) program=\"(1) 1=cast.f32(0) 2=constant.f32[#] 3=div.f32(1,2) 4=round.f32(3) 5=cast.i8(4)\"",
      "pointwise(u8[8,64]) program=\"(1) 1=cast.f32(0) 2=constant.f32[#] 3=sub.f32(1,2) 4=constant.f32[#] "
      "5=mul.f32(3,4)\"",
      "matmul(i8[64,128], i8[128,64]*, i8[64,64], f32[64]*) epilogue=\"(3) 3=cast.f32(1) 4=constant.f32[#] "
      "5=mul.f32(3,4) 6=cast.f32(0) 7=mul.f32(6,2) 8=add.f32(5,7) 9=cast.f16(8)\"",
      "conv(i8[1,64,8,8], i8[64,64,3,3]*, f32[64,1,1]*) strides=[1,1] dilations=[1,1] pads=[1,1,1,1] epilogue=\"(2) "
      "2=cast.f32(0) 3=mul.f32(2,1) 4=relu.f32(3) 5=constant.f32[#] 6=div.f32(4,5) 7=round.f32(6) 8=constant.f32[-7] "
      "9=add.f32(7,8) 10=cast.i8(9)\"",
      "fused_normalize(f16[8,64], f32[64]*) axes=[1] epsilon=1e-5 epilogue=\"(2) 2=mul.f32(0,1) 3=constant.f32[#] "
      "4=div.f32(2,3) 5=round.f32(4) 6=cast.i8(5)\"",
      "matmul(f8e4m3fn[64,128], f8e4m3fn[128,64]*, f32[64]*) epilogue=\"(2) 2=mul.f32(0,1) 3=relu.f32(2) "
      "4=constant.f32[#] 5=div.f32(3,4) 6=cast.f8e4m3fn(5)\"",
  };
  for (const char* line : lines)
    EXPECT_TRUE(share_texts(problem_of(line, "0.0125"), problem_of(line, "0.037"))) << line;
}

// The compiler makes use of them, and half_steps.h knows functions by them.
TEST(CudaNumbers, NumbersOfAFunctionStayInTheText) {
  const char* const lines[] = {
      "pointwise(f32[8,64]) program=\"(1) 1=constant.f32[#] 2=mul.f32(0,1)\"",
      "pointwise(i64[8,64]) program=\"(1) 1=cast.f32(0) 2=constant.f32[#] 3=mul.f32(1,2)\"",
      "pointwise(i8[8,64]) program=\"(1) 1=cast.f32(0) 2=constant.f32[#] 3=mul.f32(1,2) 4=add.f32(3,2) 5=exp.f32(4) "
      "6=mul.f32(5,2)\"",
      "matmul(i8[64,128], i8[128,64]*, f32[64]*) epilogue=\"(2) 2=cast.f32(0) 3=mul.f32(2,1) 4=constant.f32[#] "
      "5=mul.f32(3,4) 6=erf.f32(5) 7=constant.f32[0.25] 8=div.f32(6,7) 9=round.f32(8) 10=cast.i8(9)\"",
  };
  for (const char* line : lines) EXPECT_FALSE(share_texts(problem_of(line, "0.5"), problem_of(line, "0.75"))) << line;
}

TEST(CudaNumbers, MoreThanALaunchPassesStayInTheText) {
  cuda::ProgramNumbers numbers;
  size_t count = 0;
  while (numbers.has_room()) EXPECT_EQ(numbers.add(1), count++);
  Program program;
  program.inputs = 1;
  const int x = program.push({Scalar::cast, DType::f32, {0, -1, -1}});
  Step scale{Scalar::constant, DType::f32, {-1, -1, -1}};
  scale.number = 0.25;
  program.push({Scalar::mul, DType::f32, {x, program.push(scale), -1}});
  const DType input[] = {DType::i8};
  EXPECT_EQ(cuda::program_code(program, input, "f", numbers).call, "f(");
  EXPECT_EQ(numbers.values().size(), count);
  cuda::ProgramNumbers others;
  EXPECT_EQ(cuda::program_code(program, input, "f", others).call, "f(p.numbers, ");
  EXPECT_EQ(others.values(), std::vector<float>{0.25f});
}

}  // namespace
}  // namespace temper
