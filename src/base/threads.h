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

}  // namespace temper
