// SPDX-License-Identifier: Apache-2.0
// nonzero on CPUs. No tactic: the size of its result is data, so it runs between plans (eager.h).
#pragma once
#include "graph/tensor.h"

namespace temper {

// Gives what ops::NonZero::reference does.
Tensor run_nonzero(const Tensor& x);

}  // namespace temper
