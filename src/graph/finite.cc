// SPDX-License-Identifier: Apache-2.0
#include "graph/finite.h"

#include <atomic>
#include <cmath>
#include <limits>

#include "base/threads.h"

namespace temper {

bool all_finite(const Tensor& tensor) {
  const float* const numbers = tensor.data<float>();
  std::atomic<bool> finite = true;
  parallel_for(tensor.count(), int64_t(1) << 16, [&](int64_t begin, int64_t end) {
    int others = 0;
    for (int64_t i = begin; i < end; ++i) others |= int(!(std::fabs(numbers[i]) <= std::numeric_limits<float>::max()));
    if (others) finite = false;
  });
  return finite;
}

}  // namespace temper
