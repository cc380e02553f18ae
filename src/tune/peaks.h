// SPDX-License-Identifier: Apache-2.0
// Measures once what a machine can do at most: by loops that do nothing else on a CPU, by the quickest products and
// copies that there are on a GPU.
#pragma once
#include <functional>
#include <vector>

#include "backends/tactic.h"
#include "measure/instruments.h"
#include "tune/cache.h"

namespace temper {

// 0 where the device has no instructions for it, or nobody measures it.
struct Peaks {
  double bytes_per_s = 0;  // read from memory by all threads together; on a GPU, read and written
  double f32_per_s = 0, bf16_per_s = 0, i8_per_s = 0;  // operations; a product and its sum are two
  double f16_per_s = 0;                                // of a GPU
};

// The measure of the limit of one kind of arithmetic: a loop on registers alone.
struct PeakLoop {
  double Peaks::* rate;
  const char* instructions;
  int products;                  // that one instruction adds up
  float (*run)(int64_t rounds);  // a number that depends on all it computed
};
// One for each kind that the CPU has instructions for: those that multiply most at a time.
std::vector<PeakLoop> peak_loops(const Device& device);

Peaks measure_peaks(const Device& device, int threads);  // takes about a second
Peaks measure_gpu_peaks(const Device& device);

// How peaks are measured, and what watches meanwhile; tests have their own.
struct PeakMeter {
  std::function<Peaks(const Device&, int threads)> measure = measure_peaks;
  LoadSource* load = &host_load();
};
// As kept in the cache, or measured now and added to it (TimingCache::save keeps it). Those taken while others worked
// are measured again where the machine is quiet now.
Peaks known_peaks(const Device& device, int threads, TimingCache& cache, const PeakMeter& meter = {});
// Measured again, because a step does more than they allow: of both the higher, which others disturbed less. Kept as
// well.
Peaks peaks_again(const Peaks& before, const Device& device, int threads, TimingCache& cache,
                  const PeakMeter& meter = {});

}  // namespace temper
