// SPDX-License-Identifier: Apache-2.0
// Inputs and outputs for timing a plan, filled with plausible values.
#pragma once
#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "graph/ops/fused_decode.h"
#include "graph/random.h"
#include "plan/arena.h"
#include "plan/execute.h"
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
          if constexpr (is_float(dtype_of<T>) || (sizeof(T) == 1 && !std::is_same_v<T, bool>)) {
            T* const to = tensor.data<T>();
            const int64_t count = tensor.count(), drawn = std::min(count, kDrawn);
            for (int64_t i = 0; i < drawn; ++i) {
              state = state * 1664525u + 1013904223u;
              if constexpr (is_float(dtype_of<T>)) to[i] = T(float(int32_t(state)) / 2147483648.0f);
              else to[i] = T(state >> 24);
            }
            for (int64_t i = drawn; i < count; i += drawn) std::copy_n(to, std::min(drawn, count - i), to + i);
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
  static constexpr int64_t kDrawn = 1 << 16;  // numbers of an input, which then come again

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

// Where plans with the same inputs and outputs are timed one after another: to fill the inputs of a large batch and to
// take its memory on a GPU takes as long as to time it.
class Workbench {
 public:
  explicit Workbench(const Device& device) : arena(device) {}
  Arena arena;
  struct Loaded {
    const Plan plan;
    const std::unique_ptr<Executor> executor;
    Loaded(const Plan& of, const Device& device, Arena& arena)
        : plan(of), executor(make_executor(plan, device, arena)) {}
  };
  // The plan timed before, on a GPU: its kernels and constants lie there, and most of the next one's are the same.
  std::unique_ptr<Loaded> before;
  PlanBuffers& buffers_for(const Plan& plan) {
    if (!buffers_) buffers_.emplace(plan);
    return *buffers_;
  }

 private:
  std::optional<PlanBuffers> buffers_;
};

}  // namespace temper
