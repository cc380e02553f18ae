// SPDX-License-Identifier: Apache-2.0
#include "plan/work.h"

#include "graph/operations.h"

namespace temper {

namespace {

std::optional<Operations> operations_of(const PlanStep& step) {
  if (step.is_reorder()) return Operations{};
  std::vector<TensorType> inputs, outputs;
  for (const Port& port : step.problem.inputs) inputs.push_back(port.type);
  for (const Port& port : step.problem.outputs) outputs.push_back(port.type);
  return operations_of(step.problem.op, inputs, outputs);
}

}  // namespace

int64_t bytes_of(const Plan& plan, const Segment& segment, const PlanStep& step) {
  int64_t once = step.packed >= 0 ? plan.constants[size_t(step.packed)]->bytes() : 0, each = 0;
  auto add = [&](const std::vector<Port>& ports, const std::vector<Layout>& layouts,
                 const std::vector<BufferRef>& refs) {
    for (size_t i = 0; i < ports.size(); ++i) {
      if (refs[i].kind == BufferRef::Kind::none) continue;
      (refs[i].kind == BufferRef::Kind::constant ? once : each) +=
          layout_bytes(ports[i].type.dtype, ports[i].dims(), layouts[i]);
    }
  };
  add(step.problem.inputs, step.config.inputs, step.inputs);
  add(step.problem.outputs, step.config.outputs, step.outputs);
  // What is in place is neither read nor written.
  for (size_t i = 0; i < step.inputs.size(); ++i)
    if (step.problem.inputs[i].in_place)
      each -= 2 * layout_bytes(step.problem.inputs[i].type.dtype, step.problem.inputs[i].dims(), step.config.inputs[i]);
  return once + each * segment.slices;
}

int64_t product_operations_of(const Segment& segment, const PlanStep& step) {
  const auto each = operations_of(step);
  return each ? segment.slices * each->products : 0;
}

std::optional<int64_t> operations_of(const Segment& segment, const PlanStep& step) {
  const auto each = operations_of(step);
  return each ? std::optional(segment.slices * each->all()) : std::nullopt;
}

std::string op_of(const PlanStep& step) {
  return step.is_reorder() ? "reorder" : std::string(name_of(step.problem.op));
}

}  // namespace temper
