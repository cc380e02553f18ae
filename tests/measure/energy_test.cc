// SPDX-License-Identifier: Apache-2.0
#include "measure/energy.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "measure/clock.h"

namespace temper {
namespace {

// Counters of packages as Linux shows them, in a folder of their own.
class FakePowercap {
 public:
  FakePowercap() : root_(::testing::TempDir() + "temper_powercap_" + std::to_string(getpid())) {}
  ~FakePowercap() { std::filesystem::remove_all(root_); }
  void put(int zone, const std::string& name, double uj, double range_uj = 262143328850) {
    const std::string folder = root_ + "/sys/class/powercap/intel-rapl:" + std::to_string(zone) + "/";
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "name") << name << "\n";
    std::ofstream(folder + "energy_uj") << std::to_string(int64_t(uj)) << "\n";
    std::ofstream(folder + "max_energy_range_uj") << std::to_string(int64_t(range_uj)) << "\n";
  }
  void remove(int zone, const std::string& file) {
    std::filesystem::remove(root_ + "/sys/class/powercap/intel-rapl:" + std::to_string(zone) + "/" + file);
  }
  const std::string& root() const { return root_; }

 private:
  std::string root_;
};

void wait() { std::this_thread::sleep_for(std::chrono::milliseconds(150)); }

TEST(EnergyMeter, PackagesAddUpAndOneThatBeginsAnewIsFollowed) {
  FakePowercap powercap;
  powercap.put(0, "package-0", 5e6);
  powercap.put(1, "package-1", 262143328850 - 1e6);
  powercap.put(2, "psys", 0);
  const double before = host_clock().now_ms();
  const EnergyMeter meter(powercap.root());
  const double start = host_clock().now_ms();
  wait();
  powercap.put(0, "package-0", 9e6);  // 4 J
  powercap.put(1, "package-1", 2e6);  // 1 J to its end, 2 J from 0
  powercap.put(2, "psys", 50e6);
  const double finishing = host_clock().now_ms();
  const double watts = meter.watts().value();
  EXPECT_LE(watts, 7 / ((finishing - start) / 1e3) * 1.001);
  EXPECT_GE(watts, 7 / ((host_clock().now_ms() - before) / 1e3) * 0.999);
}

TEST(EnergyMeter, NothingIsSaidWhereAPackageCannotBeReadOrMayHaveBegunAnewTwice) {
  {
    FakePowercap none;
    const EnergyMeter meter(none.root());
    wait();
    EXPECT_FALSE(meter.watts());
  }
  {
    FakePowercap powercap;
    powercap.put(0, "package-0", 0);
    powercap.put(1, "package-1", 0);
    powercap.remove(1, "energy_uj");  // as of a file for root alone
    const EnergyMeter meter(powercap.root());
    wait();
    powercap.put(0, "package-0", 1e6);
    EXPECT_FALSE(meter.watts());
  }
  FakePowercap powercap;
  powercap.put(0, "package-0", 0, 1e6);  // 1 J: less than a package may draw in 0.15 s
  const EnergyMeter meter(powercap.root());
  wait();
  EXPECT_FALSE(meter.watts());
}

}  // namespace
}  // namespace temper
