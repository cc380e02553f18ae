// SPDX-License-Identifier: Apache-2.0
// What a machine can do at most: loops that do nothing else, measured once.
#pragma once
#include "backends/tactic.h"
#include "tune/cache.h"

namespace temper {

// 0 where the device has no instructions for it, or nobody measures it.
struct Peaks {
  double bytes_per_s = 0;                              // read from memory, by all threads together
  double f32_per_s = 0, bf16_per_s = 0, i8_per_s = 0;  // operations; a product and its sum are two
};

Peaks measure_peaks(const Device& device, int threads);  // takes about a second

// As kept in the cache, or measured now and added to it (TimingCache::save keeps it).
Peaks known_peaks(const Device& device, int threads, TimingCache& cache);

}  // namespace temper
