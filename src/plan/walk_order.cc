// SPDX-License-Identifier: Apache-2.0
#include "plan/walk_order.h"

#include "plan/parts.h"

namespace temper {

void choose_walk_order(Plan& plan) {
  constexpr int64_t kLeastBytes = int64_t(4) << 20;  // smaller ones stay in a cache in whatever order they are read
  struct Written {
    int64_t step;
    bool backwards;
  };
  std::map<std::pair<BufferRef::Kind, int64_t>, Written> written;  // by where a buffer lies: the last write
  int64_t number = 0;
  for (Segment& segment : plan.segments)
    for (PlanStep& step : segment.steps) {
      if (copies_nothing(step.problem)) continue;
      const Written* latest = nullptr;  // of its large inputs
      for (size_t i = 0; i < step.inputs.size(); ++i) {
        const auto found = written.find({step.inputs[i].kind, step.inputs[i].at});
        const TensorType& type = step.problem.inputs[i].type;
        if (found == written.end() || byte_count(type.dtype, type.dims()) < kLeastBytes) continue;
        if (!latest || found->second.step > latest->step) latest = &found->second;
      }
      step.backwards = step.backwards && latest && !latest->backwards;
      for (const BufferRef& output : step.outputs) written[{output.kind, output.at}] = {number, step.backwards};
      ++number;
    }
}

}  // namespace temper
