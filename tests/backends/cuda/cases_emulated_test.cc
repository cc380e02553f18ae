// SPDX-License-Identifier: Apache-2.0
// Lines of tests/cases on the kernels themselves where there is no GPU: compiled for the CPU, run by the emulator.
// TEMPER_EMULATED=all takes all of them (an hour or two), a number as many of each file.
#include "check_cases.h"
#include "scripted_gpu.h"

namespace temper {
namespace {

using testing::case_files;

class EmulatedCudaCases : public ::testing::TestWithParam<std::string> {};

TEST_P(EmulatedCudaCases, AgreeWithTheReference) {
  const char* asked = std::getenv("TEMPER_EMULATED");
  const size_t most = !asked ? 3 : std::string(asked) == "all" ? SIZE_MAX : size_t(std::atoi(asked));
  testing::ScriptedGpus::get().reset();
  testing::ScriptedGpus::get().memory_bytes = int64_t(8) << 30;
  cuda::LibrarySearch search;
  search.system = false;
  search.folders = {TEMPER_EMULATOR};
  const cuda::Compiler compiler(search, "");
  {
    const cuda::GpuRef gpu = cuda::Gpu::open(cuda::Driver::scripted(testing::ScriptedGpus::api()), 0);
    testing::check_cases(GetParam(), compiler, gpu, most);
  }
  EXPECT_EQ(testing::ScriptedGpus::get().misuses, std::vector<std::string>());
}

INSTANTIATE_TEST_SUITE_P(Files, EmulatedCudaCases, ::testing::ValuesIn(case_files()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace temper
