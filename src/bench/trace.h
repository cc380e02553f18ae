// SPDX-License-Identifier: Apache-2.0
// A profile as a trace that Perfetto and Chrome show (ui.perfetto.dev, chrome://tracing).
#pragma once
#include <string>

#include "bench/profile_plan.h"

namespace temper {

// JSON in the Trace Event Format: one run, whose steps take the medians over all runs, one behind the other in the
// order in which they run; what a model in partitions computes between its plans comes behind its partition's steps.
// Each event's arguments have op, tactic, configuration, bytes, operations and the shares of the machine's limits.
// Its schema makes it a profile among the kinds of files (base/file_kind.h).
std::string trace_of(const ProfiledPlan& plan);

}  // namespace temper
