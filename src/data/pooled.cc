// SPDX-License-Identifier: Apache-2.0
#include "data/pooled.h"

#include <algorithm>

#include "data/sample.h"

namespace temper {

void for_each_batch(Pool& pool, const Dataset& data, std::span<const int64_t> samples, const BatchSizes& sizes,
                    const std::string& what, const Progress& progress, const BatchWork& work) {
  const auto count = int64_t(samples.size());
  const auto told = [&](int64_t done) {
    if (done < count) tell(progress, {what, double(done), double(count), "samples"});
  };
  told(0);
  pool.run((count + sizes.size - 1) / sizes.size, [&](size_t device, int64_t piece) -> Pool::Finish {
    const int64_t first = piece * sizes.size, end = std::min(first + sizes.size, count);
    return
        [&told, end, finish = work(device, gather_batch(data, samples.subspan(size_t(first), size_t(end - first))))] {
          finish();
          told(end);
        };
  });
}

}  // namespace temper
