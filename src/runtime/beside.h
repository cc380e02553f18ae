// SPDX-License-Identifier: Apache-2.0
// Runs a plan beside the reference, step by step on the same inputs, so that the step that drifts first can be named.
#pragma once
#include "runtime/engine.h"

namespace temper {

struct Tolerance {
  double relative = 1e-3, absolute = 1e-4;
};

struct Difference {
  double largest = 0, largest_relative = 0;  // |got - want|, and over |want|; infinite where one is NaN
  int64_t beyond = 0;                        // elements with |got - want| > absolute + relative * |want|
};
// Throws Error{check_failed} where dtype or shape differ. `floor` is added to the absolute tolerance.
Difference compare(const Tensor& got, const Tensor& want, const Tolerance& tolerance, double floor = 0);

struct StepDifference {
  std::string node, op, tactic;
  TensorType type;        // of the output that differs most
  Difference difference;  // over all slices and outputs
};

// One entry per node in the order of execution, reorders left out. `graph` is the one that the session's current plan
// was made from: Engine::graph() at the concrete shapes, on a GPU as graph_of_plan gives it. Each output may differ by
// what rounding makes of sums of its size (1e-5 of its largest value) beside the tolerance.
std::vector<StepDifference> run_beside_reference(Session& session, const Graph& graph,
                                                 const std::vector<Tensor>& inputs, const Tolerance& tolerance);

}  // namespace temper
