// SPDX-License-Identifier: Apache-2.0
// Inputs and outputs for timing a plan, filled with plausible values.
#pragma once
#include <vector>

#include "graph/ops/fused_decode.h"
#include "graph/random.h"
#include "plan/plan.h"

namespace temper {

// Inputs and outputs for a plan, filled with plausible numbers: integers that may be positions are 0, and caches nearly
// full. A GPU multiplies zeros faster than numbers.
struct PlanBuffers {
  std::vector<Tensor> tensors;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  explicit PlanBuffers(const Plan& plan) {
    uint32_t state = 1;
    for (const PortInfo& port : plan.inputs) {
      Tensor tensor(port.type.dtype, port.type.dims());
      if (is_stored_only(port.type.dtype)) fill_random(tensor, state);
      else
        visit_dtype(port.type.dtype, [&]<class T>() {
          if constexpr (is_float(dtype_of<T>) || (sizeof(T) == 1 && !std::is_same_v<T, bool>))
            for (int64_t i = 0; i < tensor.count(); ++i) {
              state = state * 1664525u + 1013904223u;
              if constexpr (is_float(dtype_of<T>)) tensor.data<T>()[i] = T(float(int32_t(state)) / 2147483648.0f);
              else tensor.data<T>()[i] = T(state >> 24);
            }
        });
      tensors.push_back(tensor);
      inputs.push_back(tensors.back().raw().data());
    }
    fill_caches(plan);
    for (const PortInfo& port : plan.outputs) {
      tensors.emplace_back(port.type.dtype, port.type.dims());
      outputs.push_back(tensors.back().raw_mutable());
    }
  }

 private:
  // Caches that have room for the new rows alone: an attention that reads them is timed at its longest.
  void fill_caches(const Plan& plan) {
    for (const Segment& segment : plan.segments)
      for (const PlanStep& step : segment.steps) {
        if (step.is_reorder()) continue;
        const bool alone = step.problem.op.is<ops::Append>();
        if (!alone && !step.problem.op.is<ops::AppendingAttention>()) continue;
        const size_t cache = alone ? 0 : 1, held = alone ? 2 : 5;
        if (step.inputs[held].kind != BufferRef::Kind::input) continue;
        Tensor& lengths = tensors[size_t(step.inputs[held].at)];
        std::fill_n(lengths.data<int64_t>(), lengths.count(),
                    step.problem.inputs[cache].dims()[1] - step.problem.inputs[cache + 1].dims()[1]);
      }
  }
};

}  // namespace temper
