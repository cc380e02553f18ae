// SPDX-License-Identifier: Apache-2.0
// The cache of compiled kernels is never worth a failure, and nobody else's is believed.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "../../data/helpers.h"
#include "../../paths.h"
#include "backends/cuda/support/compiler.h"
#include "base/log.h"
#include "emulated_gpu.h"

namespace temper {
namespace {

namespace fs = std::filesystem;

class KernelCache : public ::testing::Test {
 protected:
  KernelCache() {
    said().clear();
    set_log_callback([](LogLevel level, std::string_view message) {
      if (level == LogLevel::warning) said().emplace_back(message);
    });
  }
  ~KernelCache() override { set_log_callback(nullptr); }

  static std::vector<std::string>& said() {
    static std::vector<std::string> list;
    return list;
  }
  // Compiled twice, by compilers that share nothing but the folder. Whether the second time came from there.
  static bool kept(const std::string& cache) {
    const cuda::KernelSource source{"extern \"C\" __global__ void nothing(float* x) { x[0] = 1; }\n", {}};
    bool from_cache = false;
    for (int i = 0; i < 2; ++i)
      from_cache = cuda::Compiler({{paths::emulator_folder()}, false}, cache).compile(source, "sm_80").from_cache;
    return from_cache;
  }
  static std::string file_in(const std::string& folder) {
    for (const auto& entry : fs::directory_iterator(folder)) return entry.path().string();
    return "";
  }
  const std::string folder_ = test_folder();
};

TEST_F(KernelCache, IsMadeForTheUserAlone) {
  EXPECT_TRUE(kept(folder_ + "temper/kernels"));
  struct stat info;
  for (const char* name : {"temper", "temper/kernels"}) {
    ASSERT_EQ(stat((folder_ + name).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700u) << name;
  }
  EXPECT_EQ(said(), std::vector<std::string>());
}

TEST_F(KernelCache, AheadATextIsCompiledOnceAndNobodyWaitsForIt) {
  const cuda::Compiler compiler({{paths::emulator_folder()}, false}, "");
  const auto source = [](int i) {
    return cuda::KernelSource{concat("extern \"C\" __global__ void nothing(float* x) { x[0] = ", i, "; }\n"), {}};
  };
  std::atomic<int> compiled = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 2; ++i) compiled += compiler.compile_ahead(source(i), "sm_80");
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(compiled, 2);
  EXPECT_TRUE(compiler.compile(source(1), "sm_80").from_cache);
  EXPECT_FALSE(compiler.compile(source(2), "sm_80").from_cache);
  EXPECT_FALSE(compiler.compile_ahead(source(2), "sm_80"));
  // What fails is tried again, and fails where it is needed.
  const cuda::KernelSource wrong{"this is no kernel\n", {}};
  for (int i = 0; i < 2; ++i) EXPECT_THROW(compiler.compile_ahead(wrong, "sm_80"), Error);
  EXPECT_THROW(compiler.compile(wrong, "sm_80"), Error);
}

TEST_F(KernelCache, WhereItCannotBeMadeKernelsAreCompiledAllTheSame) {
  EXPECT_FALSE(kept("/dev/null/kernels"));
  ASSERT_EQ(said().size(), 2u);  // one for each compiler
  EXPECT_CONTAINS(said()[0], "compiled GPU kernels are not kept");
}

// Nobody, root neither, can write a file there: as on a full disk, the folder is fine and writing fails.
TEST_F(KernelCache, WhereItCannotBeWrittenKernelsAreCompiledAllTheSame) {
  EXPECT_FALSE(kept("/proc/self/task"));
  ASSERT_EQ(said().size(), 2u);
  EXPECT_CONTAINS(said()[0], "cannot write '/proc/self/task/");
  EXPECT_CONTAINS(said()[0], "compiled GPU kernels are not kept");
}

TEST_F(KernelCache, AFolderThatOthersMayWriteToIsNotUsed) {
  const std::string cache = folder_ + "kernels";
  EXPECT_TRUE(kept(cache));
  ASSERT_EQ(chmod(cache.c_str(), 0777), 0);
  EXPECT_FALSE(kept(cache));
  ASSERT_FALSE(said().empty());
  EXPECT_CONTAINS(said()[0],
                  "'" + cache + "' is not to be trusted: everybody may write to it; compiled GPU kernels are not kept");
  ASSERT_EQ(chmod(cache.c_str(), 0755), 0);
  if (chown(cache.c_str(), 12345, gid_t(-1)) != 0)
    GTEST_SKIP() << "only root gives files to another user, one that its namespace has";
  said().clear();
  EXPECT_FALSE(kept(cache));
  ASSERT_FALSE(said().empty());
  EXPECT_CONTAINS(said()[0], "it belongs to user 12345");
}

TEST_F(KernelCache, AKernelThatOthersMayHaveWrittenIsCompiledAgain) {
  const std::string cache = folder_ + "kernels";
  EXPECT_TRUE(kept(cache));
  const std::string file = file_in(cache);
  ASSERT_EQ(chmod(file.c_str(), 0666), 0);
  kept(cache);
  ASSERT_FALSE(said().empty());
  EXPECT_CONTAINS(said()[0], "is not to be trusted: everybody may write to it; the kernel is compiled again");
}

TEST_F(KernelCache, ADamagedKernelIsCompiledAgainAndReplaced) {
  const std::string cache = folder_ + "kernels";
  EXPECT_TRUE(kept(cache));
  const std::string good = read_file(file_in(cache));
  for (const std::string& bad : {std::string(), good.substr(0, good.size() / 2), std::string("else")}) {
    write_text(file_in(cache), bad);
    EXPECT_TRUE(kept(cache));
  }
}

TEST(LibraryFolders, AnEmptyNameIsRefusedAndNotTheCurrentFolder) {
  const std::string folder = test_folder();
  fs::create_directories(folder + "lib64");
  const fs::path before = fs::current_path();
  fs::current_path(folder);
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [] { cuda::folders_of({{""}, false}); }), "--cuda-path");
  fs::current_path(before);
}

}  // namespace
}  // namespace temper
