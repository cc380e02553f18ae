// SPDX-License-Identifier: Apache-2.0
// The list of a value's users against a vector, and graphs of many of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "graph/graph.h"

namespace temper {
namespace {

TEST(Users, AreWhatAVectorWouldHold) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    Users users;
    std::vector<int32_t> want;
    for (int step = 0; step < 60; ++step) {
      const NodeId user{int32_t(random() % 6)};
      switch (random() % 8) {
        case 0:
        case 1:
        case 2:
        case 3:
          users.add(user);
          want.push_back(user.index);
          break;
        case 7:
          if (step % 10) break;
          users.remove_all_but(user);
          std::erase_if(want, [&](int32_t other) { return other != user.index; });
          break;
        default: {
          const bool is_there = std::find(want.begin(), want.end(), user.index) != want.end();
          ASSERT_EQ(users.remove(user), is_there);
          // Which of several entries of a node goes is free: the order among nodes' first entries tells no pass
          // anything.
          std::vector<int32_t> now;
          for (const NodeId each : users) now.push_back(each.index);
          std::vector<int32_t> sorted = now, sorted_want = want;
          if (is_there) sorted_want.erase(std::find(sorted_want.begin(), sorted_want.end(), user.index));
          std::ranges::sort(sorted);
          std::ranges::sort(sorted_want);
          ASSERT_EQ(sorted, sorted_want);
          want = now;
        }
      }
      std::vector<int32_t> got;
      for (const NodeId each : users) got.push_back(each.index);
      ASSERT_EQ(got, want);
      ASSERT_EQ(users.size(), want.size());
      ASSERT_EQ(users.empty(), want.empty());
    }
  }
}

TEST(Users, ThatWereLetGoOfDoNotComeBackWhereAllButOneGo) {
  Users users;
  for (const int32_t each : {1, 2, 3, 4, 5}) users.add(NodeId{each});
  EXPECT_TRUE(users.remove(NodeId{1}));
  users.remove_all_but(NodeId{1});
  EXPECT_TRUE(users.empty());
}

}  // namespace
}  // namespace temper
