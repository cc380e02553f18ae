// SPDX-License-Identifier: Apache-2.0
#include "measure/environment.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <thread>

#include "measure/clock.h"

namespace temper {
namespace {

// A tree of /proc and /sys files in a folder of its own.
class FakeRoot {
 public:
  FakeRoot() : path_(::testing::TempDir() + "temper_root_" + std::to_string(getpid())) {}
  ~FakeRoot() { std::filesystem::remove_all(path_); }
  void put(const std::string& file, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(path_ + file).parent_path());
    std::ofstream(path_ + file) << text;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(Environment, ThisMachineIsDescribed) {
  const Environment e = read_environment(2);
  EXPECT_TRUE(std::regex_match(e.time, std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)")));
  EXPECT_FALSE(e.version.empty());
  EXPECT_FALSE(e.revision.empty());
  EXPECT_TRUE(std::regex_match(e.onednn_version, std::regex(R"(\d+\.\d+\.\d+)")));
  EXPECT_FALSE(e.onednn_isa.empty());
  EXPECT_FALSE(e.kernel.empty());
  EXPECT_GE(e.allowed_cores, 1);
  EXPECT_LE(e.allowed_cores, e.logical_cores);
  EXPECT_GT(e.memory_bytes.value(), 1 << 20);
  EXPECT_EQ(e.threads, 2);
  EXPECT_GE(usable_cores(e), 1);
}

TEST(Environment, CpuMemoryAndLimitsAreReadFromTheKernelsFiles) {
  FakeRoot root;
  root.put("/proc/cpuinfo",
           "processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\nflags\t\t: fpu sse4_2 avx2 avx512_vnni xyz\n");
  root.put("/proc/meminfo", "MemTotal:       16000 kB\nMemAvailable:    8000 kB\n");
  root.put("/proc/self/cgroup", "0::/\n");
  root.put("/sys/fs/cgroup/cpu.max", "150000 100000\n");
  root.put("/sys/fs/cgroup/memory.max", "1048576\n");
  root.put("/etc/os-release", "NAME=x\nPRETTY_NAME=\"Some Linux 12\"\n");
  const Environment e = read_environment(1, root.path());
  EXPECT_EQ(e.cpu_model, "Some CPU @ 3 GHz");
  EXPECT_EQ(e.cpu_features, (std::vector<std::string>{"sse4_2", "avx2", "avx512_vnni"}));
  EXPECT_EQ(e.memory_bytes, 16000 * 1024);
  EXPECT_EQ(e.memory_available_bytes, 8000 * 1024);
  EXPECT_EQ(e.cgroup_cores, 1.5);
  EXPECT_EQ(e.cgroup_memory_bytes, 1048576);
  EXPECT_EQ(e.os, "Some Linux 12");
  EXPECT_FALSE(e.physical_cores);
  EXPECT_FALSE(e.l2_bytes);
  EXPECT_EQ(e.governor, "");
}

TEST(Environment, QuotaOfTheOwnControlGroupComesFirstAndMaxMeansNone) {
  FakeRoot root;
  root.put("/proc/self/cgroup", "0::/some/job\n");
  root.put("/sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_FALSE(read_environment(1, root.path()).cgroup_cores);
  root.put("/sys/fs/cgroup/some/job/cpu.max", "50000 100000\n");
  Environment e = read_environment(1, root.path());
  EXPECT_EQ(e.cgroup_cores, 0.5);
  e.allowed_cores = 8;
  EXPECT_EQ(usable_cores(e), 1);
  e.cgroup_cores = 2.5;
  EXPECT_EQ(usable_cores(e), 2);
  e.cgroup_cores = 16;
  EXPECT_EQ(usable_cores(e), 8);
}

TEST(Environment, VersionOneQuotaIsRead) {
  FakeRoot root;
  root.put("/proc/self/cgroup", "4:cpu:/x\n");
  root.put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
  root.put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "50000\n");
  EXPECT_EQ(read_environment(1, root.path()).cgroup_cores, 4.0);
  root.put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  EXPECT_FALSE(read_environment(1, root.path()).cgroup_cores);
}

TEST(Environment, LoadOfThisProcessIsNotCountedAsLoadByOthers) {
  FakeRoot root;  // a /proc/stat in which nobody works
  std::string stat = "cpu  0 0 0 0 0 0 0 0 0 0\n";
  for (int i = 0; i < 64; ++i) stat += "cpu" + std::to_string(i) + " 100 0 0 900 0 0 0 0 0 0\n";
  root.put("/proc/stat", stat);
  const EnvironmentSampler sampler(1, root.path());
  const double end = host_clock().now_ms() + 600;
  while (host_clock().now_ms() < end) {}
  const Environment e = sampler.finish();
  EXPECT_EQ(e.load_by_others, 0);
  EXPECT_GT(e.clock_mhz_before.value(), 100);
  EXPECT_GT(e.clock_mhz_after.value(), 100);
  EXPECT_LT(e.clock_mhz_after.value(), 20000);
}

TEST(Environment, LoadOfOthersIsCountedInCores) {
  FakeRoot root;
  auto stat = [](int busy) {
    std::string text = "cpu  0 0 0 0 0 0 0 0 0 0\n";
    for (int i = 0; i < 1024; ++i) text += "cpu" + std::to_string(i) + " 0 0 0 900 0 0 0 0 0 0\n";
    // Every logical CPU is busy by the same amount, so the result holds for any affinity.
    for (size_t at = 0; (at = text.find(" 0 0 0 900", at)) != std::string::npos;) {
      const std::string line = " " + std::to_string(busy) + " 0 0 900";
      text.replace(at, 10, line);
      at += line.size();
    }
    return text;
  };
  const double ticks_per_second = double(sysconf(_SC_CLK_TCK));
  const std::string later = stat(100 + int(0.35 * ticks_per_second));
  root.put("/proc/stat", stat(100));
  const double before = host_clock().now_ms();
  const EnvironmentSampler sampler(1, root.path());
  const double start = host_clock().now_ms();
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  root.put("/proc/stat", later);
  const double finishing = host_clock().now_ms();
  const Environment e = sampler.finish();
  const double finished = host_clock().now_ms();
  // What this process does meanwhile is subtracted, and a tick is lost to rounding.
  const double work = 0.35 * e.allowed_cores, tolerance = 0.12 * e.allowed_cores;
  EXPECT_GE(e.load_by_others.value(), work / ((finished - before) / 1e3) - tolerance);
  EXPECT_LE(e.load_by_others.value(), work / ((finishing - start) / 1e3) + tolerance);
}

TEST(Environment, PeakResidentMemoryGrowsAndCanBeReset) {
  const int64_t before = peak_resident_bytes().value();
  {
    std::vector<char> block(size_t(before) + (64 << 20), 1);
    EXPECT_GT(peak_resident_bytes().value(), before + (32 << 20)) << int(block[12345]);
  }
  if (!reset_peak_resident()) GTEST_SKIP() << "the kernel does not let this process reset its peak";
  EXPECT_LT(peak_resident_bytes().value(), 2 * before + (32 << 20));
  EXPECT_GE(peak_resident_bytes().value(), resident_bytes().value() / 2);
}

}  // namespace
}  // namespace temper
