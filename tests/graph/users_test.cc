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

TEST(Users, EverySecondOfManyIsLetGoOfWithoutLookingAtTheOthers) {
  Users users;
  constexpr int32_t kMany = 1'000'000;  // 10^11 steps, if each went through those that stay
  for (int32_t n = 0; n < kMany; ++n) users.add(NodeId{n});
  for (int32_t n = 1; n < kMany; n += 2) {
    ASSERT_TRUE(users.remove(NodeId{n}));
    users.add(NodeId{kMany + n});  // what was rewritten comes again
  }
  ASSERT_EQ(users.size(), size_t(kMany));
  int32_t at = 0;
  for (const NodeId each : users) {
    ASSERT_EQ(each.index, at < kMany / 2 ? 2 * at : 2 * at + 1);
    ++at;
  }
}

TEST(Users, ThatComeInTheOrderOfNodesAreWhatAVectorWouldHold) {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    Users users;
    std::vector<int32_t> want;
    int32_t next = 0;
    for (int step = 0; step < 100; ++step) {
      if (random() % 5 < 3) {
        next += int32_t(random() % 3);
        users.add(NodeId{next});
        want.push_back(next);
      } else {
        const auto gone = int32_t(random() % uint32_t(next + 1));
        const auto at = std::ranges::find(want, gone);
        ASSERT_EQ(users.remove(NodeId{gone}), at != want.end());
        if (at != want.end()) want.erase(at);
      }
      std::vector<int32_t> got;
      for (const NodeId each : users) got.push_back(each.index);
      ASSERT_EQ(got, want);
      ASSERT_EQ(users.size(), want.size());
      for (size_t i = 0; i < want.size(); ++i) ASSERT_EQ(users[i].index, want[i]);
    }
  }
}

}  // namespace
}  // namespace temper
