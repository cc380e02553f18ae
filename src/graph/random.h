// SPDX-License-Identifier: Apache-2.0
// Seeded values for inputs that nobody gave: the same on every machine and for every number of threads.
#pragma once
#include <cstdint>

#include "graph/tensor.h"

namespace temper {

// Floats uniform in [-1, 1), bytes of all values, other integers in [0, 9], bool either. Element i depends on (seed, i)
// alone.
void fill_random(Tensor& tensor, uint64_t seed);
Tensor random_tensor(DType dtype, const Dims& dims, uint64_t seed);

}  // namespace temper
