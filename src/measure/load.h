// SPDX-License-Identifier: Apache-2.0
// Load patterns beside the timer's "one after the other": several streams at a time, and requests that come when they
// come, whether or not the machine is ready.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "measure/timer.h"

namespace temper {

// Each body on a thread of its own, each starting its next run as soon as the last has ended (closed loop). Latencies
// are those of single runs, with what the streams cost each other in them; in the order in which runs ended. The cold
// run and the warm-up are each stream's own, the cold one the slowest of them; options.iterations counts runs of all
// streams. Samples::runs_per_s is over the time in which every stream ran. What a body throws passes through, after all
// streams ended.
Samples measure_streams(const std::vector<std::function<void()>>& bodies, const TimerOptions& options = {});

struct OpenOptions {
  double rate_per_s = 0;  // of the requests, above 0
  double seconds = 3;     // in which requests come
  int warmup = -1;        // runs of each body before, back to back; -1: until stable
  uint64_t seed = 0;      // of the arrivals
  std::function<void(int requests, double seconds)> progress;
};

// Requests come with exponentially distributed gaps (a Poisson process), are served in their order by whichever body is
// free, and count from the moment they were meant to be sent to the end of their run: waiting in the queue is in the
// latency, as it is for those who wait (G. Tene's "coordinated omission" is what happens otherwise). Requests that are
// not begun when options.seconds have passed twice are given up: Samples::unserved. Samples::ms is in order of arrival.
Samples measure_open(const std::vector<std::function<void()>>& bodies, const OpenOptions& options);

}  // namespace temper
