// SPDX-License-Identifier: Apache-2.0
// The one OpenMP pool: Temper's kernels and oneDNN's share it.
#pragma once
#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace temper {

// Threads that a parallel region started here would get (1 inside a region: nothing nests).
inline int max_threads() { return omp_in_parallel() ? 1 : omp_get_max_threads(); }

// Calls body(begin, end) on disjoint ranges that cover [0, count). Ranges are multiples of `grain` but for the last;
// work of less than two grains stays on the calling thread.
template <class Body>
void parallel_for(int64_t count, int64_t grain, Body&& body) {
  const int64_t chunks = (count + grain - 1) / grain;
  const int threads = int(std::min<int64_t>(max_threads(), chunks));
  if (threads <= 1) {
    if (count > 0) body(int64_t(0), count);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    const int64_t n = omp_get_num_threads(), t = omp_get_thread_num();
    const int64_t begin = chunks * t / n * grain, end = std::min(count, chunks * (t + 1) / n * grain);
    if (begin < end) body(begin, end);
  }
}

// The same with at most `threads` threads, and body(thread, begin, end): 0 <= thread < threads names the scratch memory
// it may use. 1 thread: no parallel region.
template <class Body>
void parallel_for_threads(int threads, int64_t count, int64_t grain, Body&& body) {
  const int64_t chunks = (count + grain - 1) / grain;
  threads = threads <= 1 ? 1 : int(std::min<int64_t>(std::min(threads, max_threads()), chunks));
  if (threads <= 1) {
    if (count > 0) body(0, int64_t(0), count);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    const int64_t n = omp_get_num_threads(), t = omp_get_thread_num();
    const int64_t begin = chunks * t / n * grain, end = std::min(count, chunks * (t + 1) / n * grain);
    if (begin < end) body(int(t), begin, end);
  }
}

}  // namespace temper
