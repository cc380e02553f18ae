// SPDX-License-Identifier: Apache-2.0
#include "measure/load_watch.h"

#include <gtest/gtest.h>

#include "../tune/fake_machine.h"

namespace temper {
namespace {

TEST(LoadWatch, CountsWhatOthersUsedAndNotWhatThisProcessDid) {
  FakeMachine machine;
  machine.others = 0.75;
  const LoadWatch watch(machine);
  for (int i = 0; i < 20; ++i) machine.elapsed_ms([] {}, 1);
  EXPECT_DOUBLE_EQ(watch.load().value(), 0.75);
}

TEST(LoadWatch, SaysNothingOfLessThanHalfASecondUnlessItMayWait) {
  FakeMachine machine;
  machine.others = 2;
  const LoadWatch watch(machine);
  machine.elapsed_ms([] {}, 1);
  EXPECT_FALSE(watch.load());
  EXPECT_DOUBLE_EQ(watch.load_after_waiting().value(), 2);
  EXPECT_GE(watch.seconds(), kLeastWatchSeconds);
  EXPECT_LT(watch.seconds(), 0.6);
}

TEST(LoadWatch, WhatTheKernelDoesNotShowIsNotKnown) {
  HostLoad nowhere("/nowhere");
  EXPECT_FALSE(nowhere.busy_seconds());
  EXPECT_FALSE(LoadWatch(nowhere).load_after_waiting());
}

}  // namespace
}  // namespace temper
