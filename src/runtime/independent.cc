// SPDX-License-Identifier: Apache-2.0
#include "runtime/independent.h"

#include <algorithm>

#include "plan/batch.h"

namespace temper {

bool samples_are_independent(const Engine& engine) {
  if (!engine.is_dynamic()) return false;
  const auto& inputs = engine.inputs();
  const auto& outputs = engine.outputs();
  if (inputs.empty() || inputs[0].type.shape.empty()) return false;
  const Dim batch = inputs[0].type.shape[0];
  if (!batch.is_symbol()) return false;
  const auto leads = [&](const PortInfo& port) { return !port.type.shape.empty() && port.type.shape[0] == batch; };
  if (!std::all_of(inputs.begin(), inputs.end(), leads) || !std::all_of(outputs.begin(), outputs.end(), leads))
    return false;
  // On shapes of seven samples, a number that few sizes in models are.
  const auto plans = engine.plans();
  if (plans.empty()) return false;
  std::vector<Dims> shapes;
  for (const PortInfo& input : plans.front()->inputs) {
    shapes.push_back(input.type.dims());
    shapes.back()[0] = 7;
  }
  Graph concrete;
  try {
    concrete = specialize(engine.graph(), bind_shapes(engine.graph(), shapes));
  } catch (const Error&) { return false; }  // the batch is also something else
  const BatchInfo info = analyze_batch(concrete);
  if (info.batch != 7) return false;
  const auto batched = [&](ValueId id) { return id.valid() && info.value_batched[size_t(id.index)]; };
  for (int32_t n = 0; n < concrete.node_count(); ++n) {
    const Node& node = concrete.node({n});
    if (std::any_of(node.inputs.begin(), node.inputs.end(), batched) && !info.node_sliceable[size_t(n)]) return false;
  }
  return std::all_of(concrete.outputs().begin(), concrete.outputs().end(),
                     [&](const GraphOutput& output) { return batched(output.value); });
}

}  // namespace temper
