// SPDX-License-Identifier: Apache-2.0
// Checks that a plan may be run, whoever wrote it: each reference inside its buffer, each type as its op gives it.
#pragma once
#include "plan/plan.h"

namespace temper {

// No step of a checked plan reads or writes outside of the caller's buffers, the arena or a constant, as long as its
// kernels keep to their problem and configuration. Throws Error{bad_file} naming the step, and Error{unsupported} for a
// tactic that this build does not have. What needs the kernels themselves is checked by BoundSteps.
void check_plan(const Plan& plan, const Backend& backend);
// Concrete, and small enough that sizes and strides in it do not overflow.
void check_concrete(const TensorType& type);

}  // namespace temper
