// SPDX-License-Identifier: Apache-2.0
// Loops on several threads, for Temper's kernels and for everything else that is worth it.
#pragma once
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <type_traits>

#include "base/team.h"

namespace temper {

// Threads that a loop started here would get: OMP_NUM_THREADS, or else the cores that this process may use. 1 inside a
// loop of these, and inside a parallel region of the application's: nothing nests.
inline int max_threads() { return in_region() || omp_in_parallel() ? 1 : omp_get_max_threads(); }

// Calls body(member) for 0 <= member < members, each once, on as many threads at most. The first exception is thrown
// again when all have ended.
template <class Body>
void run_members(int members, Body&& body) {
  if (members <= 1) {
    if (members == 1) body(0);
    return;
  }
  struct Region {
    std::remove_reference_t<Body>& body;
    std::atomic_flag failed;
    std::exception_ptr failure;
  } region{body, {}, nullptr};
  run_parts(
      members, Parts::independent,
      [](void* data, int member) {
        Region& shared = *static_cast<Region*>(data);
        try {
          shared.body(member);
        } catch (...) {
          if (!shared.failed.test_and_set()) shared.failure = std::current_exception();
        }
      },
      &region);
  if (region.failure) std::rethrow_exception(region.failure);
}

// Members of a loop over so many grains that may have `threads`; 1 or less: the calling thread alone.
inline int members_for(int threads, int64_t grains) {
  return threads <= 1 ? 1 : int(std::min<int64_t>(std::min(threads, max_threads()), grains));
}

// Calls body(member, begin, end) on disjoint ranges that cover [0, count), at most one for each of `threads` members: 0
// <= member < threads names the scratch memory it may use. Ranges are multiples of `grain` but for the last; work of
// less than two grains stays on the calling thread.
template <class Body>
void parallel_for_threads(int threads, int64_t count, int64_t grain, Body&& body) {
  const int64_t chunks = (count + grain - 1) / grain;
  threads = members_for(threads, chunks);
  if (threads <= 1) {
    if (count > 0) body(0, int64_t(0), count);
    return;
  }
  run_members(threads, [&](int member) {
    const int64_t begin = chunks * member / threads * grain,
                  end = std::min(count, chunks * (member + 1) / threads * grain);
    if (begin < end) body(member, begin, end);
  });
}

// The same, but members take one range after the other, half of an equal share of what is left at a time, so that
// body() is called several times for a member: where cores are not equally fast, as beside other guests of a machine,
// none waits long for another. For work whose ranges of a few grains cost no more than as many of a long one.
template <class Body>
void parallel_for_pieces(int threads, int64_t count, int64_t grain, Body&& body) {
  const int64_t chunks = (count + grain - 1) / grain;
  threads = members_for(threads, chunks);
  if (threads <= 1) {
    if (count > 0) body(0, int64_t(0), count);
    return;
  }
  std::atomic<int64_t> taken{0};
  run_members(threads, [&](int member) {
    int64_t begin = taken.load(std::memory_order_relaxed);
    while (begin < chunks) {
      const int64_t end = begin + std::max<int64_t>(1, (chunks - begin) / (2 * threads));
      if (!taken.compare_exchange_weak(begin, end, std::memory_order_relaxed)) continue;
      body(member, begin * grain, std::min(count, end * grain));
      begin = taken.load(std::memory_order_relaxed);
    }
  });
}

// The same as parallel_for_threads on all threads that there are, with body(begin, end).
template <class Body>
void parallel_for(int64_t count, int64_t grain, Body&& body) {
  parallel_for_threads(max_threads(), count, grain, [&](int, int64_t begin, int64_t end) { body(begin, end); });
}

}  // namespace temper
