// SPDX-License-Identifier: Apache-2.0
// Counts the arithmetic and the bytes of a step of a plan from its types.
#pragma once
#include "plan/plan.h"

namespace temper {

// The bytes that a run of the step moves at least: its buffers once, all slices together. Packed constants count as
// they are stored.
int64_t bytes_of(const Plan& plan, const Segment& segment, const PlanStep& step);

// The operations of a run of the step, all slices together, as its op counts it (graph/operations.h); 0 for a reorder.
// Nothing where the op gives no count.
std::optional<int64_t> operations_of(const Segment& segment, const PlanStep& step);
// The operations of products alone; 0 for steps without.
int64_t product_operations_of(const Segment& segment, const PlanStep& step);

std::string op_of(const PlanStep& step);  // "conv", "reorder", ...

}  // namespace temper
