// SPDX-License-Identifier: Apache-2.0
// Lines of tests/cases on the kernels themselves where there is no GPU: compiled for the CPU, run by the emulator.
// TEMPER_EMULATED=all takes all of them (an hour or two), a number as many of each file.
#include "check_cases.h"
#include "emulated_gpu.h"

namespace temper {
namespace {

using testing::case_files;

class EmulatedCudaCases : public ::testing::TestWithParam<std::string> {};

TEST_P(EmulatedCudaCases, AgreeWithTheReference) {
  const char* asked = std::getenv("TEMPER_EMULATED");
  const size_t most = !asked ? 3 : std::string(asked) == "all" ? SIZE_MAX : size_t(std::atoi(asked));
  const testing::EmulatedGpu emulated;
  testing::check_cases(GetParam(), emulated.compiler(), emulated.gpu(), {most});
}

TEST(EmulatedCudaKernels, PassNanAndInfinityOnAsTheReferenceDoes) {
  const testing::EmulatedGpu emulated;
  const std::string text = R"text(softmax(f32[3,63]) axis=1
pool(f32[2,16,9,9]) kernel=[3,3] strides=[2,2] dilations=[1,1] pads=[1,1,1,1]
pool(f16[2,16,9,9]) kernel=[2,2] strides=[2,2] dilations=[1,1] pads=[0,0,0,0]
reduce(f32[5,130]) kind=max axes=[1]
reduce(f32[5,130]) kind=min axes=[1]
pointwise(f32[1000]) program="(1) 1=relu.f32(0) 2=constant.f32[6] 3=min.f32(1,2)"
matmul(f32[9,16], f32[16,24]*, f32[24]*) epilogue="(2) 2=add.f32(0,1) 3=relu.f32(2)"
)text";
  constexpr double inf = std::numeric_limits<double>::infinity();
  testing::check_lines("nan", text, emulated.compiler(), emulated.gpu(),
                       {.one_config = true, .put = {std::numeric_limits<double>::quiet_NaN()}});
  const std::string without_products = text.substr(0, text.find("matmul"));
  testing::check_lines("infinity", without_products, emulated.compiler(), emulated.gpu(),
                       {.one_config = true, .put = {inf, -inf}});
}

INSTANTIATE_TEST_SUITE_P(Files, EmulatedCudaCases, ::testing::ValuesIn(case_files()),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace temper
