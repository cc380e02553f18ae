// SPDX-License-Identifier: Apache-2.0
// NVTX ranges, with a profiler's library that writes down what it is told.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "../cli/program.h"
#include "../paths.h"

namespace temper {
namespace {

// One that a process links against, and one that a profiler hands in, as NVTX 3 asks for it.
constexpr const char* kProfiler = R"(#include <cstdio>
#include <cstdlib>
#include <filesystem>
static void note(const char* text) {
  FILE* file = std::fopen(std::getenv("NOTED"), "a");
  std::fprintf(file, "%s\n", text);
  std::fclose(file);
}
extern "C" int nvtxRangePushA(const char* name) { note(name); return 0; }
extern "C" int nvtxRangePop() { note("end"); return 0; }
struct Callbacks { size_t size; int (*table)(int, void (****)(), unsigned*); };
extern "C" int InitializeInjectionNvtx2(const void* (*exported)(unsigned)) {
  auto* callbacks = static_cast<const Callbacks*>(exported(1));
  void (***table)() = nullptr;
  unsigned size = 0;
  if (!callbacks || !callbacks->table(1, &table, &size) || size < 12) return 0;
  *table[9] = reinterpret_cast<void (*)()>(nvtxRangePushA);
  *table[11] = reinterpret_cast<void (*)()>(nvtxRangePop);
  return 1;
}
)";

TEST(StepRanges, NameEachStepToAProfilerWhereThatIsAskedFor) {
  const std::string folder = test_folder();
  write_text(folder + "profiler.cc", kProfiler);
  ASSERT_EQ(
      std::system(
          ("cd '" + folder + "' && " + paths::compiler() + " -shared -fPIC -o libnvToolsExt.so.1 profiler.cc").c_str()),
      0);
  ASSERT_EQ(temper(folder, "zoo digits_cnn -o m.onnx --quiet").code, 0);
  ASSERT_EQ(temper(folder, "build m.onnx -o m.plan --quick --quiet --threads 1").code, 0);
  const std::string run = "bench m.plan --iterations 3 --warmup 1 --quiet",
                    noted = "export NOTED='" + folder + "noted'; ";
  const std::string injected = noted + "export NVTX_INJECTION64_PATH='" + folder + "libnvToolsExt.so.1';";
  ASSERT_EQ(temper(folder, run, injected).code, 0);
  EXPECT_FALSE(std::filesystem::exists(folder + "noted"));  // nobody asked
  const auto named = [&] {
    const std::string text = read_file(folder + "noted");
    EXPECT_CONTAINS(text, "conv1\nend\n");
    EXPECT_CONTAINS(text, "fc1\nend\n");
    std::filesystem::remove(folder + "noted");
  };
  ASSERT_EQ(temper(folder, run + " --nvtx", injected).code, 0);
  named();
  ASSERT_EQ(temper(folder, run, noted + "export LD_LIBRARY_PATH='" + folder + "' TEMPER_NVTX=1;").code, 0);
  named();
  const Outcome without =
      temper(folder, run + " --nvtx", "unset LD_LIBRARY_PATH; export NVTX_INJECTION64_PATH=/nowhere.so;");
  EXPECT_EQ(without.code, int(ErrorKind::unsupported));
  EXPECT_CONTAINS(without.err, "'/nowhere.so' cannot be opened");
}

}  // namespace
}  // namespace temper
