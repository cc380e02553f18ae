// SPDX-License-Identifier: Apache-2.0
#include "plan/shared_places.h"

#include "graph/ops/fused_decode.h"
#include "graph/ops/scatter.h"

namespace temper {

std::vector<std::pair<size_t, size_t>> caches_of(const Op& op) {
  if (op.is<ops::Append>()) return {{{0, 0}}};
  if (const auto* scatter = op.get_if<ops::Scatter>(); scatter && scatter->reduction == ops::ScatterReduction::none)
    return {{{0, 0}}};
  if (op.is<ops::AppendingAttention>()) return {{{1, 1}, {3, 2}}};
  return {};
}

std::vector<std::pair<size_t, size_t>> shared_places(const Plan& plan) {
  std::vector<int> reads(plan.inputs.size(), 0);
  std::vector<std::pair<size_t, size_t>> pairs;
  for (const Segment& segment : plan.segments)
    for (const PlanStep& step : segment.steps) {
      for (const BufferRef& ref : step.inputs)
        if (ref.kind == BufferRef::Kind::input) ++reads[size_t(ref.at)];
      if (step.is_reorder()) continue;
      for (const auto& [input, output] : caches_of(step.problem.op)) {
        const BufferRef &from = step.inputs[input], &to = step.outputs[output];
        if (from.kind == BufferRef::Kind::input && to.kind == BufferRef::Kind::output && from.offset == to.offset &&
            from.slice_bytes == to.slice_bytes && step.config.inputs[input] == Layout::plain &&
            step.config.outputs[output] == Layout::plain)
          pairs.emplace_back(size_t(from.at), size_t(to.at));
      }
    }
  std::erase_if(pairs, [&](const auto& pair) { return reads[pair.first] != 1; });
  return pairs;
}

}  // namespace temper
