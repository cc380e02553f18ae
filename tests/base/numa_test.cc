// SPDX-License-Identifier: Apache-2.0
#include "base/numa.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/concat.h"

namespace temper {
namespace {

using Cores = std::vector<int>;

TEST(Numa, ReadsListsOfCores) {
  EXPECT_EQ(parse_core_list("0"), Cores{0});
  EXPECT_EQ(parse_core_list("0-3,8,10-11"), (Cores{0, 1, 2, 3, 8, 10, 11}));
  for (const char* text : {"", ",", "0,", "-1", "3-1", "a", "0-", "0 1", "0-99999999"})
    EXPECT_EQ(parse_core_list(text), Cores()) << text;
}

TEST(Numa, FindsTheCoresBesideADevice) {
  const std::string sys = (std::filesystem::path(::testing::TempDir()) / concat("temper_sys_", getpid())).string();
  const std::string device = sys + "/bus/pci/devices/0000:3b:00.0", node = sys + "/devices/system/node/node1";
  for (const std::string& folder : {device, node}) std::filesystem::create_directories(folder);
  std::ofstream(device + "/numa_node") << "1\n";
  std::ofstream(node + "/cpulist") << "4-5,7\n";
  EXPECT_EQ(numa_node_of_pci("0000:3B:00.0", sys), 1) << "the driver writes it in capitals";
  EXPECT_EQ(cores_of_node(1, sys), (Cores{4, 5, 7}));
  EXPECT_EQ(cores_of_node(0, sys), Cores());
  EXPECT_EQ(cores_of_node(-1, sys), Cores());
  for (const char* other : {"0000:3c:00.0", "", "../devices/0000:3b:00.0"})
    EXPECT_EQ(numa_node_of_pci(other, sys), -1) << other;
  std::ofstream(device + "/numa_node") << "-1\n";  // as in a virtual machine
  EXPECT_EQ(numa_node_of_pci("0000:3b:00.0", sys), -1);
  std::filesystem::remove_all(sys);
}

TEST(Numa, AThreadStaysOnCoresThatItMayUseAndOthersChangeNothing) {
  std::thread([] {  // the test's own thread goes where it likes
    cpu_set_t before;
    ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
    int last = -1, none = -1;
    for (int core = 0; core < CPU_SETSIZE; ++core) (CPU_ISSET(core, &before) ? last : none) = core;
    EXPECT_FALSE(stay_on({}));
    if (none >= 0) { EXPECT_FALSE(stay_on({none})); }
    cpu_set_t after;
    ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
    EXPECT_TRUE(CPU_EQUAL(&before, &after));
    EXPECT_TRUE(none >= 0 ? stay_on({none, last}) : stay_on({last}));
    ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
    EXPECT_EQ(CPU_COUNT(&after), 1);
    EXPECT_TRUE(CPU_ISSET(last, &after));
  })
      .join();
}

}  // namespace
}  // namespace temper
