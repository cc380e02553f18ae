// SPDX-License-Identifier: Apache-2.0
// The ways to run a model that the conformance suite can check.
#pragma once
#include <string_view>

#include "cases.h"

namespace temper::conformance {

// mode: "reference" (each op's scalar reference), "cpu" (an engine, tactics by list order: nothing is measured), "plan"
// (the same engine, built and saved by another process and loaded by this one) or "write" (the reference of the graph
// after it was written as ONNX and imported again). With `passes` the graph is
// optimised first. Throws Error{usage} for a mode that is not there.
Runner make_runner(std::string_view mode, bool passes);

}  // namespace temper::conformance
