// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan_bytes.h"

namespace temper {

namespace {

int64_t bytes_of_ports(const std::vector<Port>& ports) {
  int64_t bytes = 0;
  for (const Port& port : ports) bytes += int64_t(sizeof(Port) + port.type.shape.size() * sizeof(Dim));
  return bytes;
}

// Of everything but the constants' elements; strings count by their length.
int64_t bytes_of_tables(const Plan& plan) {
  auto bytes = int64_t(sizeof(Plan) + plan.constants.size() * sizeof(Tensor));
  for (const auto* ports : {&plan.inputs, &plan.outputs})
    for (const PortInfo& port : *ports)
      bytes += int64_t(sizeof(PortInfo) + port.name.size() + port.type.shape.size() * sizeof(Dim));
  for (const Segment& segment : plan.segments) {
    bytes += int64_t(sizeof(Segment));
    for (const PlanStep& step : segment.steps) {
      bytes += int64_t(sizeof(PlanStep) + step.node.size() + step.tactic.size() + step.config.text.size());
      bytes += bytes_of_ports(step.problem.inputs) + bytes_of_ports(step.problem.outputs);
      bytes += int64_t((step.inputs.size() + step.outputs.size()) * sizeof(BufferRef));
      for (const Candidate& loser : step.losers)
        bytes += int64_t(sizeof(Candidate) + loser.tactic.size() + loser.config.size() + loser.refusal.size());
    }
  }
  return bytes;
}

}  // namespace

void PlanBytes::add(const Plan& plan) {
  total_ += bytes_of_tables(plan);
  for (const auto& constant : plan.constants)
    if (constant->bytes() && !known_.contains(constant->raw().data()) && users_[constant->raw().data()]++ == 0)
      total_ += constant->bytes();
}

void PlanBytes::remove(const Plan& plan) {
  total_ -= bytes_of_tables(plan);
  for (const auto& constant : plan.constants)
    if (const auto it = users_.find(constant->raw().data()); it != users_.end() && --it->second == 0) {
      total_ -= constant->bytes();
      users_.erase(it);
    }
}

int64_t kernel_bytes(const Plan& plan) {
  constexpr int64_t kOfAStep = 16 << 10;  // oneDNN's come with code of their own
  int64_t steps = 0;
  for (const Segment& segment : plan.segments)
    steps += int64_t(segment.steps.size()) * (segment.parallel ? plan.threads : 1);
  return steps * kOfAStep;
}

}  // namespace temper
