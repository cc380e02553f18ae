// SPDX-License-Identifier: Apache-2.0
#include "base/team.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/subnormals.h"
#include "base/threads.h"

extern "C" void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags);  // libgomp's

namespace temper {
namespace {

// Workers stop in front of their part until they are let go. Meanwhile no time passes, so that none is sent to rest.
class LateWorkers {
 public:
  LateWorkers() {
    set_team_clock([] { return std::chrono::steady_clock::time_point(); });
    run_parts(3, Parts::together, [](void*, int) {}, nullptr);  // whoever rests is called
    late = true;
    waiting = 0;
    set_worker_hook([](int) {
      ++waiting;
      while (late) std::this_thread::yield();
      --waiting;
    });
  }
  ~LateWorkers() {
    let_go();
    set_worker_hook(nullptr);
    set_team_clock(nullptr);
  }
  void let_go() {
    late = false;
    while (waiting > 0) std::this_thread::yield();
  }
  static void wait_for(int workers) {
    while (waiting < workers) std::this_thread::yield();
  }

 private:
  static inline std::atomic<bool> late{false};
  static inline std::atomic<int> waiting{0};
};

template <class F>
void run_together(int members, F&& part) {
  run_parts(
      members, Parts::together,
      [](void* data, int member) { (*static_cast<std::remove_reference_t<F>*>(data))(member); }, &part);
}

TEST(Team, RunsEachPartOnce) {
  for (int round = 0; round < 300; ++round)
    for (int members : {1, 2, 3, 7, 2, 4}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(members));
      run_members(members, [&](int member) {
        EXPECT_EQ(this_member(), member);
        EXPECT_EQ(member_count(), members);
        ++runs[size_t(member)];
      });
      for (const auto& count : runs) ASSERT_EQ(count, 1);
    }
  EXPECT_FALSE(in_region());
  EXPECT_EQ(member_count(), 1);
}

TEST(Team, SubnormalsAreToItsPartsWhatTheyAreToTheirCaller) {
  constexpr int kMembers = 3;
  const auto seen_by_parts = [&] {
    std::array<SubnormalMode, kMembers> modes{};
    run_together(kMembers, [&](int member) {
      modes[size_t(member)] = subnormal_mode();
      wait_for_members();  // so each part has a thread of its own
    });
    return modes;
  };
  constexpr std::array<SubnormalMode, kMembers> kExact{},
      kZero{kSubnormalsAreZero, kSubnormalsAreZero, kSubnormalsAreZero};
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(seen_by_parts(), kExact);
    const SubnormalsAsZero subnormals;
    EXPECT_EQ(seen_by_parts(), kZero);
  }
  EXPECT_EQ(subnormal_mode(), SubnormalMode(0));
}

TEST(Team, RangesCoverEachElementOnceAndBeginAtMultiplesOfTheGrain) {
  for (int threads : {1, 2, 3, 5})
    for (int64_t count : {0, 1, 63, 64, 65, 1000})
      for (int64_t grain : {1, 16, 64}) {
        std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
        std::mutex mutex;
        std::set<int> members;
        parallel_for_threads(threads, count, grain, [&](int member, int64_t begin, int64_t end) {
          EXPECT_EQ(begin % grain, 0);
          EXPECT_LT(begin, end);
          for (int64_t i = begin; i < end; ++i) ++seen[size_t(i)];
          const std::lock_guard lock(mutex);
          EXPECT_TRUE(members.insert(member).second) << "scratch memory would be shared";
          EXPECT_LT(member, threads);
        });
        for (const auto& times : seen) ASSERT_EQ(times, 1);
      }
}

TEST(Team, PiecesCoverEachElementOnceAndShrinkToTheGrain) {
  for (int threads : {1, 2, 3, 8})
    for (int64_t count : {0, 1, 7, 100, 1001})
      for (int64_t grain : {1, 3, 64}) {
        std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
        std::atomic<int64_t> longest{0};
        const int members = std::min(threads, max_threads());
        parallel_for_pieces(threads, count, grain, [&](int member, int64_t begin, int64_t end) {
          EXPECT_TRUE(member >= 0 && member < members);
          EXPECT_EQ(begin % grain, 0);
          EXPECT_TRUE(end % grain == 0 || end == count);
          for (int64_t i = begin; i < end; ++i) ++seen[size_t(i)];
          for (int64_t so_far = longest; end - begin > so_far && !longest.compare_exchange_weak(so_far, end - begin);) {
          }
        });
        for (const auto& times : seen) EXPECT_EQ(times, 1);
        const int64_t grains = (count + grain - 1) / grain, parts = std::min<int64_t>(members, grains);
        if (parts > 1) { EXPECT_LE(longest, std::max<int64_t>(1, grains / (2 * parts)) * grain); }
      }
}

TEST(Team, AnExceptionOfAnyPartComesOutWhenAllPartsHaveEnded) {
  for (int thrower = 0; thrower < 3; ++thrower) {
    std::atomic<int> ended{0};
    try {
      run_members(3, [&](int member) {
        if (member == thrower) throw std::runtime_error("part " + std::to_string(member));
        ++ended;
      });
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(error.what(), "part " + std::to_string(thrower));
      EXPECT_EQ(ended, 2);
    }
  }
  int runs = 0;
  EXPECT_THROW(run_members(1,
                           [&](int) {
                             ++runs;
                             fail(ErrorKind::machine, "alone");
                           }),
               Error);
  EXPECT_EQ(runs, 1);
}

TEST(Team, NothingNests) {
  std::atomic<int> inner{0};
  run_members(2, [&](int) {
    EXPECT_EQ(max_threads(), 1);
    const auto thread = std::this_thread::get_id();
    run_members(3, [&](int) {
      EXPECT_EQ(std::this_thread::get_id(), thread);
      ++inner;
    });
    EXPECT_EQ(member_count(), 2) << "the outer region is found again";
    parallel_for(100000, 1, [&](int64_t begin, int64_t end) { EXPECT_EQ(end - begin, 100000); });
    run_together(3, [&](int member) {
      EXPECT_EQ(member, 0);
      EXPECT_EQ(member_count(), 1) << "parts that wait for each other cannot run one by one";
    });
  });
  EXPECT_EQ(inner, 6);
}

TEST(Team, TheCallerTakesOverWhatLateWorkersHaveNotBegun) {
  run_members(3, [](int) {});
  LateWorkers late;
  const auto caller = std::this_thread::get_id();
  int runs = 0;  // no atomic: one thread
  run_members(3, [&](int) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    ++runs;
  });
  EXPECT_EQ(runs, 3);
  LateWorkers::wait_for(2);
}

TEST(Team, WorkersThatWakeLateDoNothingTwice) {
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> first{0}, second{0}, third{0};
    {
      LateWorkers late;
      run_members(3, [&](int) { ++first; });
      LateWorkers::wait_for(2);  // they have seen the first region
      run_members(2, [&](int) { ++second; });
      std::thread let_go([&] { late.let_go(); });  // anywhere in the next one
      run_members(3, [&](int) { ++third; });
      let_go.join();
    }
    ASSERT_EQ(first, 3);
    ASSERT_EQ(second, 2);
    ASSERT_EQ(third, 3);
  }
}

TEST(Team, PartsMayWaitForEachOther) {
  constexpr int kMembers = 4;
  std::atomic<int> come{0};
  for (int round = 0; round < 20; ++round) {
    const int all = (round + 1) * kMembers;
    std::atomic<int> before{0}, between{0};
    run_together(kMembers, [&](int) {
      ++before;
      wait_for_members();
      EXPECT_EQ(before, kMembers);
      ++between;
      wait_for_members();
      EXPECT_EQ(between, kMembers);
      ++come;  // a barrier that spins, of which nobody is told
      while (come < all) std::this_thread::yield();
    });
  }
}

// A clock that is read from a list, in microseconds: the caller's looks one after the other, then the last for ever; a
// worker sees the last at once.
class ScriptedClock {
 public:
  ScriptedClock() {
    caller = std::this_thread::get_id();
    set_team_clock([] {
      const bool is_last = std::this_thread::get_id() != caller || look + 1 >= looks.size();
      return std::chrono::steady_clock::time_point(std::chrono::microseconds(is_last ? looks.back() : looks[look++]));
    });
  }
  ~ScriptedClock() { set_team_clock(nullptr); }
  void says(std::vector<int> us) {
    look = 0;
    looks = std::move(us);
  }

 private:
  static inline std::vector<int> looks;
  static inline size_t look = 0;
  static inline std::thread::id caller;
};

// Runs a region of which `threads` threads begin a part before any ends one; the clock is read as it starts, when the
// caller has run his, and at its end. False where so many threads do not come.
bool run_on(int threads, int members, Parts parts, ScriptedClock& clock, std::vector<int> us) {
  clock.says(std::move(us));
  std::mutex mutex;
  std::set<std::thread::id> come;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  auto part = [&](int) {
    std::unique_lock lock(mutex);
    come.insert(std::this_thread::get_id());
    while (int(come.size()) < threads && std::chrono::steady_clock::now() < deadline) {
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    }
  };
  run_parts(members, parts, [](void* data, int member) { (*static_cast<decltype(part)*>(data))(member); }, &part);
  return int(come.size()) >= threads;
}

// The threads of a hundred regions.
size_t threads_of_regions(int members, ScriptedClock& clock, int us) {
  clock.says({us});
  std::mutex mutex;
  std::set<std::thread::id> threads;
  for (int region = 0; region < 100; ++region)
    run_members(members, [&](int) {
      const std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
    });
  return threads.size();
}

TEST(Team, AWorkerThatLosesItsCoreInsideOfAPartRestsAWhile) {
  std::thread([] {  // whose workers have seen nothing else
    ScriptedClock clock;
    const auto independent = Parts::independent;
    EXPECT_TRUE(run_on(2, 2, independent, clock, {100'000, 101'000, 104'000})) << "3 ms of waiting after 1 of work";
    EXPECT_EQ(threads_of_regions(2, clock, 108'999), 1u);
    EXPECT_TRUE(run_on(2, 2, independent, clock, {109'000, 110'000, 113'000})) << "again: twice as long";
    EXPECT_EQ(threads_of_regions(2, clock, 122'999), 1u);
    EXPECT_TRUE(run_on(2, 2, independent, clock, {5'000'000, 5'001'000, 5'004'000})) << "long after: as the first time";
    EXPECT_EQ(threads_of_regions(2, clock, 5'008'999), 1u);
    EXPECT_TRUE(run_on(2, 2, Parts::together, clock, {5'008'999})) << "parts that wait for each other end a rest";
    EXPECT_TRUE(run_on(2, 2, independent, clock, {6'000'000, 6'004'000, 6'012'000})) << "long parts on a shared core";
    EXPECT_TRUE(run_on(2, 2, independent, clock, {6'012'001})) << "are no reason to rest";
  })
      .join();
}

TEST(Team, AWorkerThatDoesNotComeRestsAndTheOthersWorkOn) {
  std::thread([] {
    ScriptedClock clock;
    EXPECT_TRUE(run_on(3, 3, Parts::independent, clock, {0}));
    static std::atomic<bool> late;
    late = true;
    set_worker_hook([](int worker) {
      while (worker == 2 && late) std::this_thread::yield();
    });
    EXPECT_TRUE(run_on(2, 3, Parts::independent, clock, {1'000, 1'200, 1'250}));
    EXPECT_TRUE(run_on(2, 3, Parts::independent, clock, {1'400, 1'450, 1'500})) << "a pause: workers may have slept";
    EXPECT_TRUE(run_on(2, 3, Parts::independent, clock, {1'500, 1'650, 1'699})) << "not yet late";
    EXPECT_TRUE(run_on(2, 3, Parts::independent, clock, {1'699, 1'700, 1'701})) << "late";
    late = false;
    EXPECT_LE(threads_of_regions(3, clock, 6'700), 2u);
    EXPECT_TRUE(run_on(2, 3, Parts::independent, clock, {6'700}));
    EXPECT_TRUE(run_on(3, 3, Parts::independent, clock, {6'702}));
    set_worker_hook(nullptr);
  }).join();
}

TEST(Team, PartsThatWaitForEachOtherWaitForLateWorkers) {
  LateWorkers late;
  std::thread let_go([&] {
    LateWorkers::wait_for(1);
    late.let_go();
  });
  std::atomic<int> arrived{0};
  run_together(2, [&](int) {
    ++arrived;
    wait_for_members();
    EXPECT_EQ(arrived, 2);
  });
  let_go.join();
}

TEST(Team, CallersOnSeveralThreadsDoNotMeet) {
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller)
    callers.emplace_back([caller] {
      for (int round = 0; round < 200; ++round) {
        std::vector<int64_t> numbers(1000, caller);
        parallel_for_threads(3, 1000, 1, [&](int, int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) numbers[size_t(i)] += i;
        });
        ASSERT_EQ(std::accumulate(numbers.begin(), numbers.end(), int64_t(0)), 1000 * caller + 999 * 500);
      }
    });
  for (std::thread& caller : callers) caller.join();
}

std::set<std::string> threads_of_process() {
  std::set<std::string> ids;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) ids.insert(task.path().filename());
  return ids;
}

TEST(Team, WorkersEndWithTheirCaller) {
  std::set<std::string> made;
  const std::set<std::string> before = threads_of_process();
  std::thread([&] {
    run_members(5, [](int) {});
    run_members(3, [](int) {});
    for (const std::string& id : threads_of_process())
      if (!before.contains(id)) made.insert(id);
  }).join();
  EXPECT_EQ(made.size(), 5u) << "the caller and four workers";
  // A thread that was joined may be listed for a moment more.
  const auto left = [&] {
    const std::set<std::string> now = threads_of_process();
    return std::any_of(made.begin(), made.end(), [&](const std::string& id) { return now.contains(id); });
  };
  while (left()) std::this_thread::yield();
}

TEST(Team, AForkedChildHasWorkersOfItsOwn) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer has no threads in forked children";
#endif
  run_members(3, [](int) {});
  const pid_t child = fork();
  if (child == 0) {
    std::atomic<int> arrived{0};
    run_together(3, [&](int) {
      ++arrived;
      wait_for_members();  // needs three threads
    });
    _exit(arrived == 3 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  run_members(3, [](int) {});
}

TEST(Team, MoreThreadsThanATeamCanHaveAreRefused) { EXPECT_THROW(reserve_members(5000), Error); }

TEST(Team, InsideAParallelRegionOfTheApplicationsThereIsOneThread) {
  struct Counts {
    std::atomic<int> outer{0}, wrong{0};
  } counts;
  const auto region = [](void* data) {
    Counts& seen = *static_cast<Counts*>(data);
    ++seen.outer;
    const auto thread = std::this_thread::get_id();
    if (max_threads() != 1) ++seen.wrong;
    run_members(3, [&](int) { seen.wrong += std::this_thread::get_id() != thread; });
  };
  GOMP_parallel(region, &counts, 2, 0);
  EXPECT_EQ(counts.wrong, 0);
  EXPECT_EQ(counts.outer, 2) << "the application's regions are libgomp's";
}

}  // namespace
}  // namespace temper
