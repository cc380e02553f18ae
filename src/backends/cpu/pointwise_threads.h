// SPDX-License-Identifier: Apache-2.0
// On how many threads cpu.pointwise computes a tensor: on one where it is small, however many the problem allows
#pragma once
#include <algorithm>
#include <cstdint>

namespace temper {

constexpr int64_t kPointwisePerThread = 16384;  // elements worth a thread

inline int pointwise_threads(int64_t elements, int threads) {
  return int(std::min<int64_t>(std::max(1, threads), elements / kPointwisePerThread + 1));
}

}  // namespace temper
