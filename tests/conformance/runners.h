// SPDX-License-Identifier: Apache-2.0
// The ways to run a model that the conformance suite can check.
#pragma once
#include <string_view>

#include "cases.h"

namespace temper::conformance {

// mode: "reference" (each op's scalar reference), "cpu" or "cuda:N" (an engine, tactics by list order: nothing is
// measured), "plan" (the CPU's engine, built and saved by another process and loaded by this one), "fed" (the CPU's
// engine of the model whose initializers and Constant nodes are inputs, so that nothing is folded), "fed-data" (the
// same where only constants of floats are, which are data and no sizes) or "write" (the reference of the graph after it
// was written as ONNX and imported again). With `passes` the graph is optimised first. Throws Error{usage} for a mode
// that is not there.
Runner make_runner(std::string_view mode, bool passes);

}  // namespace temper::conformance
