// SPDX-License-Identifier: Apache-2.0
// Random numbers in a graph: a hash of each element's position, so that every backend computes them in parallel and the
// same ones. ONNX names no generator; each run of a model gives the same numbers again, an iteration of a loop others.
#pragma once
#include "onnx/node.h"

namespace temper {

// The seed of a node: its attribute `seed`, or a number that follows from its name and place.
uint64_t seed_of(OnnxNode& node);

// Uniform in [0, 1) with as many digits as `dtype` has, for a tensor like `like`, or of the shape that `shape` gives.
ValueId uniform_like(OnnxNode& node, ValueId like, DType dtype, uint64_t seed);
ValueId uniform_of(OnnxNode& node, const Shape& shape, DType dtype, uint64_t seed);

}  // namespace temper
