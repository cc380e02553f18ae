// SPDX-License-Identifier: Apache-2.0
#include "base/team.h"

#include <linux/futex.h>
#include <omp.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <csignal>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/relax.h"
#include "base/signals.h"
#include "base/subnormals.h"

namespace temper {

namespace {

// A worker spins for so long before it sleeps: longer than what lies between two regions of a plan, steps that run on
// the caller's thread alone included, and far shorter than a time slice of the scheduler. benchmarks/README.md has the
// numbers.
constexpr auto kSpin = std::chrono::microseconds(100);
constexpr int kMemberBits = 12;
constexpr uint64_t kMemberMask = (uint64_t(1) << kMemberBits) - 1;
constexpr size_t kLine = 64;

// A worker that was called and finds a free core comes within this time.
constexpr auto kLate = std::chrono::microseconds(300);
// How long a worker rests that lost its core: twice as long as the last time, up to a bound, unless that is long ago.
constexpr auto kRest = std::chrono::milliseconds(5), kLongestRest = std::chrono::milliseconds(200),
               kForgotten = std::chrono::milliseconds(1000);

using Time = std::chrono::steady_clock::time_point;

std::atomic<WorkerHook> hook{nullptr};
std::atomic<TeamClock> team_clock{&std::chrono::steady_clock::now};
Time now() { return team_clock.load(std::memory_order_relaxed)(); }
std::atomic<uint32_t> forks{0};  // that this process has come through as the child: its threads were left behind

// False when `ready` was not true within the time.
template <class Ready>
bool spin_until(Ready&& ready) {
  for (int i = 0; i < 64; ++i) {  // short waits read no clock
    if (ready()) return true;
    relax();
  }
  const auto start = std::chrono::steady_clock::now();
  do {
    for (int i = 0; i < 16; ++i) {
      if (ready()) return true;
      relax();
    }
  } while (std::chrono::steady_clock::now() - start < kSpin);
  return false;
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t seen) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
}
void futex_wake(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

// A 32-bit number that threads wait on: awake at first, then asleep.
class Signal {
 public:
  uint32_t get() const { return word_.load(std::memory_order_acquire); }
  void reset() { word_.store(0, std::memory_order_relaxed); }
  // Adds to it and wakes who sleeps. Returns the number before.
  uint32_t raise(uint32_t by = 1) {
    const uint32_t before = word_.fetch_add(by, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst)) futex_wake(word_);
    return before;
  }
  template <class Ready>  // of the number
  void wait(Ready&& ready) {
    if (spin_until([&] { return ready(get()); })) return;
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    for (uint32_t now; !ready(now = word_.load(std::memory_order_seq_cst));) futex_wait(word_, now);
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
  }

 private:
  std::atomic<uint32_t> word_{0}, sleepers_{0};
};

struct Seat {
  bool inside = false;
  int member = 0, members = 1;
  class Team* team = nullptr;  // null where the parts run one by one
};
thread_local Seat place;

// Runs a part at a place, and comes back to the one before.
void run_at(const Seat& at, PartWork part, void* data) {
  const Seat before = std::exchange(place, at);
  part(data, at.member);
  place = before;
}

// Runs all parts on the calling thread, one after the other.
void run_one_by_one(int members, PartWork part, void* data) {
  for (int member = 0; member < members; ++member) run_at({true, member, members, nullptr}, part, data);
}

class Team {
 public:
  explicit Team(int members) : slots_(size_t(members)), records_(size_t(members)), born_(forks.load()) {
    // Workers leave signals of the keyboard and of timers to the threads of the program, but for those of profilers.
    const SignalsHeld held({SIGPROF}, SIG_SETMASK);
    try {
      while (this->members() < members) {
        workers_.emplace_back([this, worker = this->members()] { work(worker); });
        pthread_setname_np(workers_.back().native_handle(), "temper");
      }
    } catch (const std::system_error& error) { refused_ = error.code(); }
  }
  ~Team() {
    ending_ = true;
    regions_.raise();
    rests_.raise();
    for (std::thread& worker : workers_) worker.join();
  }
  Team(const Team&) = delete;

  bool is_left_behind() const { return born_ != forks.load(std::memory_order_relaxed); }
  int members() const { return int(workers_.size()) + 1; }
  int asked_for() const { return int(slots_.size()); }
  const std::error_code& refused() const { return refused_; }

  void run(int members, Parts parts, PartWork part, void* data) {
    const Time start = now();
    if (resting_ > 0) end_rests(start, parts == Parts::together);
    if (resting_ > 0 && all_rest(members)) return run_one_by_one(members, part, data);
    // No worker reads these: all parts of the region before are claimed, so claims on it fail, and those that workers
    // have claimed were waited for.
    part_.store(part, std::memory_order_relaxed);
    data_.store(data, std::memory_order_relaxed);
    subnormals_.store(subnormal_mode(), std::memory_order_relaxed);
    finished_.reset();
    const uint64_t region =
        ((region_.load(std::memory_order_relaxed) >> kMemberBits) + 1) << kMemberBits | uint64_t(members);
    region_.store(region, std::memory_order_release);
    regions_.raise();
    const int own = take(region, 0);
    const Time joining = now();
    if (own < members) finished_.wait([&](uint32_t finished) { return finished % kFirst == uint32_t(members - own); });
    watch(members, own, region >> kMemberBits, start, joining);
  }

  void wait_for_members(int members) {
    const uint32_t phase = phase_.get();
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == members) {
      arrived_.store(0, std::memory_order_relaxed);
      phase_.raise();
    } else {
      phase_.wait([&](uint32_t now) { return now != phase; });
    }
  }

 private:
  struct alignas(kLine) Slot {
    std::atomic<uint64_t> claimed{0};  // the last region whose part of this number was claimed
  };
  // Of a worker: what it writes, and what only the caller knows.
  struct alignas(kLine) Record {
    std::atomic<uint64_t> region{0};  // the last one of which it ran a part
    std::atomic<Time> finished{};     // that part
    std::atomic<bool> rests{false};   // written by the caller
    Time came{}, rests_until{}, rested{};
    Time::duration rest{};
  };
  std::vector<Slot> slots_;
  std::vector<Record> records_;  // by member; the caller has none
  Time all_came_{}, ended_{};
  int resting_ = 0;
  const uint32_t born_;
  std::vector<std::thread> workers_;  // that of member m is number m - 1
  std::error_code refused_;
  std::atomic<bool> ending_{false};
  alignas(kLine) Signal rests_;      // raised where one ends
  alignas(kLine) Signal regions_;    // raised with each
  std::atomic<uint64_t> region_{0};  // number and members of the latest one
  std::atomic<PartWork> part_{nullptr};
  std::atomic<void*> data_{nullptr};
  std::atomic<SubnormalMode> subnormals_{0};  // the caller's: its parts compute as it does
  alignas(kLine) Signal finished_;            // parts, by workers; each adds kFirst with its first one
  static constexpr uint32_t kFirst = 1 << kMemberBits;
  alignas(kLine) std::atomic<int> arrived_{0};
  Signal phase_;

  // After a region: which workers have lost their core? They were late with a part that they had begun, or did not come
  // though they were called for long. The next regions do without them.
  void watch(int members, int own, uint64_t region, Time start, Time joining) {
    const Time end = own < members ? now() : joining;
    // Workers have fallen asleep in a pause, and are waking up.
    if (start - std::exchange(ended_, end) > kSpin) all_came_ = start;
    const Time in_time = joining + std::max<Time::duration>(kSpin, 2 * (joining - start));
    if (int(finished_.get() / kFirst) == members - 1 && end <= in_time) {
      all_came_ = end;
      return;
    }
    for (int member = 1; member < members; ++member) {
      Record& worker = records_[size_t(member)];
      if (worker.rests.load(std::memory_order_relaxed)) continue;
      const bool came = worker.region.load(std::memory_order_acquire) == region;
      if (came && worker.finished.load(std::memory_order_relaxed) <= in_time) {
        worker.came = end;
      } else if (came || end - std::max(worker.came, all_came_) > kLate) {
        worker.rest = std::clamp<Time::duration>(end - worker.rested < kForgotten ? 2 * worker.rest : Time::duration{},
                                                 kRest, kLongestRest);
        worker.rested = worker.rests_until = end + worker.rest;
        worker.rests.store(true, std::memory_order_relaxed);
        ++resting_;
      }
    }
  }
  bool all_rest(int members) const {
    for (int member = 1; member < members; ++member)
      if (!records_[size_t(member)].rests.load(std::memory_order_relaxed)) return false;
    return true;
  }
  void end_rests(Time time, bool all) {
    bool ends = false;
    for (Record& worker : records_)
      if (worker.rests.load(std::memory_order_relaxed) && (all || worker.rests_until <= time)) {
        worker.rests.store(false, std::memory_order_seq_cst);
        worker.came = time;
        --resting_;
        ends = true;
      }
    if (ends) rests_.raise();
  }

  // Claims and runs parts until none is left; how many that were. A claim that succeeds proves that the region is still
  // the current one (it is not over before all of its parts are claimed), and so were `part_`, `data_` and
  // `subnormals_` when they were read.
  int take(uint64_t region, int first) {
    const PartWork part = part_.load(std::memory_order_relaxed);
    void* const data = data_.load(std::memory_order_relaxed);
    const SubnormalMode subnormals = subnormals_.load(std::memory_order_relaxed);
    const uint64_t number = region >> kMemberBits;
    const int members = int(region & kMemberMask);
    int taken = 0;
    for (int k = 0; k < members; ++k) {
      const int member = first + k < members ? first + k : first + k - members;
      std::atomic<uint64_t>& claimed = slots_[size_t(member)].claimed;
      uint64_t last = claimed.load(std::memory_order_relaxed);
      if (last >= number || !claimed.compare_exchange_strong(last, number, std::memory_order_acq_rel)) continue;
      ++taken;
      set_subnormal_mode(subnormals);
      run_at({true, member, members, this}, part, data);
      if (first > 0) {
        Record& worker = records_[size_t(first)];
        worker.finished.store(now(), std::memory_order_relaxed);
        worker.region.store(number, std::memory_order_release);
        finished_.raise(taken == 1 ? kFirst + 1 : 1);
      }
    }
    return taken;
  }

  void work(int worker) {
    for (uint32_t seen = 0;;) {
      regions_.wait([&](uint32_t now) { return now != seen; });
      seen = regions_.get();
      const auto works = [&](uint32_t) {
        return ending_ || !records_[size_t(worker)].rests.load(std::memory_order_seq_cst);
      };
      if (!works(0)) rests_.wait(works);
      if (ending_) return;
      const uint64_t region = region_.load(std::memory_order_acquire);
      if (worker >= int(region & kMemberMask)) continue;
      if (const WorkerHook call = hook.load(std::memory_order_relaxed)) call(worker);
      take(region, worker);
    }
  }
};

// The calling thread's. Not ended where its threads exist only in a parent process.
struct Owner {
  Team* team = nullptr;
  ~Owner();
};
thread_local Owner owner;
thread_local bool ended = false;  // the thread is ending: there is no owner any more

Owner::~Owner() {
  ended = true;
  if (team && !team->is_left_behind()) delete team;
}

void count_forks() {
  static const int once = pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  (void)once;
}

Team& team_of(int members) {
  if (members > int(kMemberMask))
    fail(ErrorKind::usage, members, " threads are more than the ", kMemberMask, " that work together");
  if (owner.team && owner.team->is_left_behind()) owner.team = nullptr;
  if (!owner.team || owner.team->asked_for() < members || (owner.team->members() < members && owner.team->refused())) {
    count_forks();
    delete std::exchange(owner.team, nullptr);
    owner.team = new Team(members);
  }
  return *owner.team;
}

}  // namespace

void run_parts(int members, Parts parts, PartWork part, void* data) {
  if (place.inside || ended || members <= 1 || omp_in_parallel()) {
    if (parts == Parts::together) return run_at({true, 0, 1, nullptr}, part, data);
    return run_one_by_one(members, part, data);
  }
  if (parts == Parts::together) reserve_members(members);
  team_of(members).run(members, parts, part, data);
}

void reserve_members(int members) {
  if (place.inside || ended || members <= 1) return;
  const Team& team = team_of(members);
  if (team.members() < members)
    fail(ErrorKind::machine, "the system gives ", team.members(), " threads and not ", members, " (",
         team.refused().message(), "); ask for fewer with --threads");
}

int this_member() { return place.member; }
int member_count() { return place.members; }
bool in_region() { return place.inside; }
void wait_for_members() {
  if (place.team) place.team->wait_for_members(place.members);
}

void set_worker_hook(WorkerHook call) { hook.store(call); }
void set_team_clock(TeamClock clock) { team_clock.store(clock ? clock : &std::chrono::steady_clock::now); }

}  // namespace temper
