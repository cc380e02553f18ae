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

INSTANTIATE_TEST_SUITE_P(Files, EmulatedCudaCases, ::testing::ValuesIn(case_files()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace temper
