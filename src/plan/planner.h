// SPDX-License-Identifier: Apache-2.0
// Graph with concrete shapes -> Plan. Chooses tactics and layouts by given times, inserts reorders, places memory,
// packs weights. It measures nothing itself: times come through a function, at build from the tuner, at run time from
// the file.
#pragma once
#include "plan/options.h"
#include "plan/plan.h"

namespace temper {

Plan build_plan(const Graph& graph, const Backend& backend, const Device& device, const PlanOptions& options);

}  // namespace temper
