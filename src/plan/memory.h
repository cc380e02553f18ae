// SPDX-License-Identifier: Apache-2.0
// Offsets for buffers with known lifetimes.
#pragma once
#include <cstdint>
#include <vector>

namespace temper {

// The alignment of everything in an arena: a cache line is enough for CPUs, cuBLASLt wants 256 bytes of its workspace.
constexpr int64_t kBufferAlignment = 256;

struct Lifetime {
  int64_t bytes = 0;
  int first = 0, last = 0;  // steps, inclusive: buffers overlap in time if the intervals touch
  int64_t offset = 0;       // result
};

// Places buffers so that those alive together do not overlap; offsets are multiples of kBufferAlignment. Greedy by
// size, best fit (Pisarchyk & Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020). Returns the
// total size.
int64_t place_buffers(std::vector<Lifetime>& buffers);

}  // namespace temper
