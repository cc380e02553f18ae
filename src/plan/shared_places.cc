// SPDX-License-Identifier: Apache-2.0
#include "plan/shared_places.h"

#include "graph/ops/append.h"

namespace temper {

std::vector<std::pair<size_t, size_t>> shared_places(const Plan& plan) {
  std::vector<int> reads(plan.inputs.size(), 0);
  std::vector<std::pair<size_t, size_t>> pairs;
  for (const Segment& segment : plan.segments)
    for (const PlanStep& step : segment.steps) {
      for (const BufferRef& ref : step.inputs)
        if (ref.kind == BufferRef::Kind::input) ++reads[size_t(ref.at)];
      if (step.is_reorder() || !step.problem.op.is<ops::Append>()) continue;
      const BufferRef &from = step.inputs[0], &to = step.outputs[0];
      if (from.kind == BufferRef::Kind::input && to.kind == BufferRef::Kind::output && from.offset == to.offset &&
          from.slice_bytes == to.slice_bytes && step.config.inputs[0] == Layout::plain &&
          step.config.outputs[0] == Layout::plain)
        pairs.emplace_back(size_t(from.at), size_t(to.at));
    }
  std::erase_if(pairs, [&](const auto& pair) { return reads[pair.first] != 1; });
  return pairs;
}

}  // namespace temper
