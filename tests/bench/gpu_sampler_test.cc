// SPDX-License-Identifier: Apache-2.0
#include "bench/gpu_sampler.h"

#include <gtest/gtest.h>

#include "../paths.h"
#include "backends/cuda/support/nvml.h"

namespace temper {
namespace {

TEST(GpuWatts, AreTheMeanBetweenTheFirstAndTheLastStepOfTheCounterOfEnergy) {
  // What the GPU says lags behind: it still rises. The counter moves at 0.1, 0.2 and 0.4 s.
  const std::vector<PowerSample> samples{{0, 80, 1000},     {0.1, 90, 51000},  {0.15, 95, 51000},
                                         {0.2, 99, 111000}, {0.3, 99, 111000}, {0.4, 120, 231000}};
  EXPECT_DOUBLE_EQ(drawn_watts(samples).value_or(0), 600);
}

TEST(GpuWatts, AreTheMedianOfWhatTheGpuSaysWhereItCountsNothingOrTooLittle) {
  EXPECT_EQ(drawn_watts(std::vector<PowerSample>{{0, 80, {}}, {1, 300, {}}, {2, 310, {}}}), 300);
  EXPECT_EQ(drawn_watts(std::vector<PowerSample>{{0, 80, 1000}, {0.02, 90, 1000}, {0.04, 100, 2000}}), 90);  // one step
  EXPECT_EQ(drawn_watts(std::vector<PowerSample>{{0, 80, 5000}, {1, 90, 6000}, {2, 100, 10}}),
            90);  // the driver restarted
  EXPECT_EQ(drawn_watts(std::vector<PowerSample>{{0, {}, {}}}), std::nullopt);
  EXPECT_EQ(drawn_watts(std::vector<PowerSample>{}), std::nullopt);
}

TEST(ScriptedNvml, TheCounterOfEnergyIsReadWhereTheGpuHasIt) {
  const cuda::Nvml nvml({{paths::scripted_nvml_folder()}, false});
  const cuda::GpuState first = nvml.state("0000:01:00.0"), second = nvml.state("0000:01:00.0");
  ASSERT_TRUE(first.millijoules && second.millijoules);
  EXPECT_GT(*first.millijoules, uint64_t(1) << 32);
  EXPECT_EQ(*second.millijoules - *first.millijoules, 7000u);
  EXPECT_EQ(first.watts, 100);
  const cuda::GpuState plain = nvml.state("0000:02:00.0");
  EXPECT_FALSE(plain.millijoules);
  EXPECT_EQ(plain.watts, 100);
  EXPECT_EQ(plain.throttled, std::vector<std::string>{"power limit"});
  EXPECT_THROW(nvml.state("0000:03:00.0"), Error);
}

}  // namespace
}  // namespace temper
