// SPDX-License-Identifier: Apache-2.0
// Says in words what is known of a plan's time, with one word for each number.
#pragma once
#include <string>

#include "plan/plan.h"

namespace temper {

// The whole, as measured at the end of the build: "0.649 ms measured (0.641 to 0.66)", or "not measured".
std::string whole_text(const WholeTime& whole);
// The sum of the steps' times: "0.564 ms in all, timed one by one"; "at least ..." where some have none.
std::string steps_text(const Plan& plan);

}  // namespace temper
