// SPDX-License-Identifier: Apache-2.0
// Kernels are compiled in processes of the program, and in this one where those do not.
#include "backends/cuda/support/compile_processes.h"

#include <gtest/gtest.h>

#include "../../paths.h"
#include "backends/cuda/support/compiler.h"
#include "backends/cuda/support/serve_kernels.h"
#include "emulated_gpu.h"
#include "optimize/build_engine.h"

namespace temper {
namespace {

using cuda::CompileProcesses;
using cuda::Compiler;
using cuda::KernelSource;

const KernelSource kSource{"extern \"C\" __global__ void nothing(float* x) { x[0] = 1; }\n", {}};

Compiler compiler() { return Compiler({{paths::emulator_folder()}, false}, ""); }
std::vector<std::string> program() { return {paths::program(), kServeTimings, cuda::kServeKernels}; }
std::vector<std::string> program_with_folders() {
  auto command = program();
  command.insert(command.end(), {"folders", paths::emulator_folder()});
  return command;
}

struct Answer {
  bool is_made = false;
  std::string log;
  std::vector<std::byte> cubin;
};
Answer ask(CompileProcesses& processes, const KernelSource& source) {
  Answer answer;
  answer.is_made = processes.compile(source.text, source.options, "sm_80", answer.log, answer.cubin);
  return answer;
}

TEST(CompileProcesses, MakeWhatThisProcessMakes) {
  const Compiler here = compiler();
  CompileProcesses processes(program_with_folders(), 1, here.greeting());
  for (int again = 0; again < 2; ++again) {
    const Answer answer = ask(processes, kSource);
    ASSERT_TRUE(answer.is_made);
    EXPECT_FALSE(answer.cubin.empty());
  }
}

TEST(CompileProcesses, LeaveATextThatDoesNotCompileToTheCaller) {
  const Compiler here = compiler();
  CompileProcesses processes(program_with_folders(), 1, here.greeting());
  EXPECT_FALSE(ask(processes, {"this is no kernel", {}}).is_made);
  EXPECT_TRUE(ask(processes, kSource).is_made);
  const auto held = here.compile_in(program(), 1);
  EXPECT_THROW(here.compile({"this is no kernel", {}}, "sm_80"), Error);
}

TEST(CompileProcesses, OfAnotherKindAreNotAskedTwice) {
  CompileProcesses another({"/bin/sh", "-c", "echo another; sleep 60"}, 1, "a greeting");
  EXPECT_FALSE(ask(another, kSource).is_made);
  EXPECT_FALSE(ask(another, kSource).is_made);
  CompileProcesses ends({"/bin/sh", "-c", "echo a greeting; exit 3"}, 1, "a greeting");
  EXPECT_FALSE(ask(ends, kSource).is_made);
  CompileProcesses lies({"/bin/sh", "-c", "echo a greeting; read x; echo no JSON"}, 1, "a greeting");
  EXPECT_FALSE(ask(lies, kSource).is_made);
  CompileProcesses nobody({paths::emulator_folder() + "/nobody"}, 2, "a greeting");
  EXPECT_FALSE(ask(nobody, kSource).is_made);
}

TEST(CompileProcesses, ThatAreNotThereLeaveItToTheCompilerItself) {
  const Compiler here = compiler();
  const auto held = here.compile_in({"/bin/sh", "-c", "exit 3"}, 2);
  EXPECT_FALSE(here.compile(kSource, "sm_80").bytes.empty());
}

}  // namespace
}  // namespace temper
