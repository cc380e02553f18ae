// SPDX-License-Identifier: Apache-2.0
// What a machine can do at most, measured once: by loops that do nothing else on a CPU, by the quickest products and
// copies that there are on a GPU.
#pragma once
#include "backends/tactic.h"
#include "tune/cache.h"

namespace temper {

// 0 where the device has no instructions for it, or nobody measures it.
struct Peaks {
  double bytes_per_s = 0;                              // read from memory by all threads together; on a GPU, read and written
  double f32_per_s = 0, bf16_per_s = 0, i8_per_s = 0;  // operations; a product and its sum are two
  double f16_per_s = 0;                                // of a GPU
};

Peaks measure_peaks(const Device& device, int threads);  // takes about a second
Peaks measure_gpu_peaks(const Device& device);

// As kept in the cache, or measured now and added to it (TimingCache::save keeps it).
Peaks known_peaks(const Device& device, int threads, TimingCache& cache);

}  // namespace temper
