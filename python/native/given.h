// SPDX-License-Identifier: Apache-2.0
// Inputs that a run to be timed is given, as Python gives them.
#pragma once
#include <nanobind/nanobind.h>

#include <vector>

#include "arrays.h"
#include "data/given_inputs.h"

namespace temper::python {

// Views of the arrays, which keep the memory; none where nothing was given.
struct Given {
  std::vector<Array> arrays;
  GivenInputs tensors;
};

// What a dict does not name is left to random numbers. Values that are not finite are warnings. None gives none.
Given given_inputs(nanobind::handle inputs, const Engine& engine);

}  // namespace temper::python
