// SPDX-License-Identifier: Apache-2.0
// nms on CPUs. No tactic: the size of its result is data, so it runs between plans (eager.h).
#pragma once
#include "graph/ops/nms.h"

namespace temper {

// Gives what op.reference() does, for inputs that op.infer() accepts. Classes are shared out among threads. Scores that
// are NaN come last where there is no score threshold.
Tensor run_nms(const ops::Nms& op, const std::vector<Tensor>& inputs, int threads);

}  // namespace temper
