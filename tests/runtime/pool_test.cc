// SPDX-License-Identifier: Apache-2.0
// Pools of scripted devices, and of the CPU.
#include "runtime/pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <set>
#include <system_error>
#include <thread>

#include "../plan/helpers.h"
#include "base/log.h"

namespace temper {
namespace {

// Devices "cuda:0", "cuda:1", ... of which each may be lost at one of its runs.
class PoolOfScripts : public ::testing::Test {
 protected:
  void SetUp() override {
    messages_.clear();
    set_log_callback([](LogLevel level, std::string_view text) {
      if (level == LogLevel::warning) messages_.emplace_back(text);
    });
  }
  void TearDown() override { set_log_callback(nullptr); }

  Pool pool_of(size_t count) {
    std::vector<PoolDevice> devices;
    lost_at_.assign(count, -1);
    runs_.assign(count, 0);
    for (size_t d = 0; d < count; ++d)
      devices.push_back({concat("cuda:", d), {}, [this, d] {
                           const std::lock_guard lock(mutex_);
                           return lost_at_[d] >= 0 && runs_[d] > lost_at_[d];
                         }});
    return Pool(std::move(devices));
  }
  // A run of the device, counted; fails from the one on at which it is lost.
  void run_on(size_t device) {
    const std::lock_guard lock(mutex_);
    if (runs_[device]++ >= lost_at_[device] && lost_at_[device] >= 0)
      fail(ErrorKind::machine, "an illegal address on ", device);
  }
  // The pieces in the order in which they were used.
  std::vector<int64_t> used_of(Pool& pool, int64_t count) {
    std::vector<int64_t> used;
    pool.run(count, [&](size_t device, int64_t piece) -> Pool::Finish {
      run_on(device);
      return [&used, piece] { used.push_back(piece); };
    });
    return used;
  }
  static std::vector<int64_t> all(int64_t count) {
    std::vector<int64_t> pieces(static_cast<size_t>(count));
    std::iota(pieces.begin(), pieces.end(), 0);
    return pieces;
  }
  static int64_t sum(const std::vector<int64_t>& counts) { return std::accumulate(counts.begin(), counts.end(), 0); }

  std::mutex mutex_;
  std::vector<int64_t> lost_at_, runs_;
  static inline std::vector<std::string> messages_;
};

TEST_F(PoolOfScripts, ResultsAreUsedInOrderByTheCallingThread) {
  Pool pool = pool_of(3);
  const auto caller = std::this_thread::get_id();
  std::vector<int64_t> used;
  pool.run(50, [&](size_t, int64_t piece) -> Pool::Finish {
    EXPECT_NE(std::this_thread::get_id(), caller);
    return [&, piece] {
      EXPECT_EQ(std::this_thread::get_id(), caller);
      used.push_back(piece);
    };
  });
  EXPECT_EQ(used, all(50));
  EXPECT_EQ(sum(pool.done()), 50);
  EXPECT_EQ(used_of(pool, 0), all(0));
  EXPECT_TRUE(messages_.empty());
}

TEST_F(PoolOfScripts, OneDeviceIsTheCallingThread) {
  Pool pool = pool_of(1);
  const auto caller = std::this_thread::get_id();
  int64_t next = 0;
  pool.run(5, [&](size_t device, int64_t piece) -> Pool::Finish {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(device, 0u);
    EXPECT_EQ(piece, next) << "the piece before was used first";
    return [&] { ++next; };
  });
  EXPECT_EQ(next, 5);
  EXPECT_THROW(Pool({}), Error);
}

TEST_F(PoolOfScripts, ASlowDeviceTakesFewerPiecesAndNobodyRunsFarAhead) {
  Pool pool = pool_of(2);
  constexpr int64_t kCount = 60;
  std::mutex mutex;
  std::condition_variable changed;
  int64_t by_fast = 0, by_slow = 0, begun = 0, used = 0;
  bool slow_began = false;
  std::vector<int64_t> order;
  pool.run(kCount, [&](size_t device, int64_t piece) -> Pool::Finish {
    std::unique_lock lock(mutex);
    ++begun;
    EXPECT_LT(piece, used + 5) << "no more than two for each device beyond the one that is waited for";
    if (device == 1) {  // for each piece of it the other one does three, where so many are left
      slow_began = true;
      ++by_slow;
      changed.notify_all();
      changed.wait(lock, [&] { return by_fast >= 3 * by_slow || begun == kCount; });
    } else {
      changed.wait(lock, [&] { return slow_began; });
      ++by_fast;
    }
    changed.notify_all();
    return [&, piece] {
      const std::lock_guard used_lock(mutex);
      ++used;
      order.push_back(piece);
    };
  });
  EXPECT_EQ(order, all(kCount));
  EXPECT_EQ(sum(pool.done()), kCount);
  EXPECT_GE(pool.done()[0], 2 * pool.done()[1]);
  EXPECT_GT(pool.done()[1], 0);
}

TEST_F(PoolOfScripts, ADeviceLostAtAnyRunLosesNoPieceAndOneWarningNamesIt) {
  constexpr int64_t kCount = 24;
  for (int64_t at = 0; at < kCount; ++at) {
    messages_.clear();
    Pool pool = pool_of(2);
    lost_at_[0] = at;
    EXPECT_EQ(used_of(pool, kCount), all(kCount)) << at;
    EXPECT_EQ(sum(pool.done()), kCount) << at;
    EXPECT_LE(pool.done()[0], at);
    if (pool.loss(0).empty()) {  // it did not come to that run
      EXPECT_TRUE(messages_.empty());
      continue;
    }
    ASSERT_EQ(messages_.size(), 1u) << at;
    for (const char* part : {"cuda:0 is lost", "the 1 device left", "an illegal address on 0"})
      EXPECT_NE(messages_[0].find(part), std::string::npos) << messages_[0];
    const int64_t runs = runs_[0];
    EXPECT_EQ(used_of(pool, kCount), all(kCount)) << "the other one goes on";
    EXPECT_EQ(runs_[0], runs) << "a lost device gets nothing any more";
    EXPECT_EQ(messages_.size(), 1u);
  }
}

TEST_F(PoolOfScripts, SeveralDevicesMayBeLostOneAfterTheOther) {
  Pool pool = pool_of(4);
  lost_at_ = {0, 1, 2, -1};
  EXPECT_EQ(used_of(pool, 100), all(100));
  EXPECT_EQ(sum(pool.done()), 100);
  EXPECT_EQ(pool.loss(3), "");
  size_t lost = 0;
  for (size_t d = 0; d < 3; ++d) lost += !pool.loss(d).empty();
  EXPECT_EQ(messages_.size(), lost);
}

TEST_F(PoolOfScripts, AllDevicesLostIsOneErrorWithTheReasons) {
  Pool pool = pool_of(3);
  lost_at_ = {2, 0, 1};
  std::vector<int64_t> used;
  const auto run = [&] {
    pool.run(100, [&](size_t device, int64_t piece) -> Pool::Finish {
      run_on(device);
      return [&used, piece] { used.push_back(piece); };
    });
  };
  for (int round = 0; round < 2; ++round) {  // later calls say it, too
    try {
      run();
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::machine);
      for (const char* part :
           {"all devices are lost", "cuda:0: an illegal address on 0", "cuda:1: an illegal", "cuda:2: an illegal"})
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
    EXPECT_EQ(used, all(int64_t(used.size()))) << "what was used was used once and in order";
    EXPECT_LE(used.size(), 3u);
    EXPECT_LE(messages_.size(), 2u) << "the last loss is the error";
  }
}

TEST_F(PoolOfScripts, ADeviceWithoutRoomIsTakenOutLikeALostOne) {
  Pool pool = pool_of(2);
  const auto run = [&](std::vector<int64_t>& used, size_t full) {
    pool.run(20, [&, full](size_t device, int64_t piece) -> Pool::Finish {
      if (device == full || full > 1) throw DeviceFull(concat("allocating 5 MiB on ", device));
      return [&used, piece] { used.push_back(piece); };
    });
  };
  for (int round = 0; round < 2; ++round) {
    std::vector<int64_t> used;
    run(used, 1);
    EXPECT_EQ(used, all(20));
    if (pool.loss(1).empty()) continue;  // it did not come to a piece yet
    EXPECT_EQ(pool.done()[1], 0);
    ASSERT_EQ(messages_.size(), 1u);
    EXPECT_NE(messages_[0].find("cuda:1 has no room for the plan, and its work goes to the 1 device left: allocating"),
              std::string::npos)
        << messages_[0];
  }
  std::vector<int64_t> used;
  try {
    run(used, 2);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::machine);
    EXPECT_NE(std::string(error.what()).find("all devices are lost or full: cuda:0: allocating 5 MiB on 0; cuda:1"),
              std::string::npos)
        << error.what();
  }
  EXPECT_TRUE(used.empty());
}

TEST_F(PoolOfScripts, AnErrorIsThrownWhereItsResultWouldHaveBeenUsed) {
  for (const ErrorKind kind : {ErrorKind::usage, ErrorKind::machine}) {  // of a device that is not lost
    Pool pool = pool_of(3);
    std::vector<int64_t> used;
    std::atomic<int64_t> last{0};
    try {
      pool.run(100, [&](size_t, int64_t piece) -> Pool::Finish {
        for (int64_t seen = last; seen < piece && !last.compare_exchange_weak(seen, piece);) {}
        if (piece == 7 || piece == 9) fail(kind, "piece ", piece);
        return [&used, piece] { used.push_back(piece); };
      });
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind);
      EXPECT_STREQ(error.what(), "piece 7") << "the first in the order of pieces";
    }
    EXPECT_EQ(used, all(7));
    EXPECT_LE(last, 7 + 6);
    EXPECT_TRUE(messages_.empty());
    EXPECT_EQ(used_of(pool, 5), all(5)) << "and all devices work on";
  }
}

TEST_F(PoolOfScripts, WhatTheUserOfResultsThrowsPassesThrough) {
  Pool pool = pool_of(2);
  int64_t used = 0;
  const auto run = [&] {
    pool.run(100, [&](size_t, int64_t) -> Pool::Finish {
      return [&] {
        if (++used == 4) throw std::system_error(std::make_error_code(std::errc::no_space_on_device));  // as a file's
      };
    });
  };
  EXPECT_THROW(run(), std::system_error);
  EXPECT_EQ(used, 4);
}

TEST(PoolOfEngines, SeveralSessionsOnTheCpuAnswerAsOne) {
  const auto engine = tiny_engine("cpu");
  const Engines engines = engines_on(engine, {"cpu", "cpu", "cpu"});
  ASSERT_EQ(engines.size(), 3u);
  for (const auto& one : engines) EXPECT_EQ(one, engine) << "there is one CPU, and threads share an engine";
  Session alone(engine);
  std::vector<Tensor> inputs, want, got;
  for (uint32_t i = 0; i < 40; ++i) {
    inputs.push_back(noise({2, 4}, i));
    want.push_back(alone.run({inputs.back()})[0]);
  }
  Pool pool = pool_of(engines);
  PoolSessions sessions(engines);
  pool.run(40, [&](size_t device, int64_t piece) -> Pool::Finish {
    auto outputs = sessions.at(device).run({inputs[size_t(piece)]});
    return [&, outputs] { got.push_back(outputs[0]); };
  });
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i].same_bits(want[i])) << i;
}

TEST(PoolOfEngines, APlanForAnotherKindOfDeviceIsRefusedByName) {
  try {
    engines_on(tiny_engine("cpu"), {"cpu", "reference"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(error.what()).find("reference: the plan is for the device 'cpu'"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace temper
