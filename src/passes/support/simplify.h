// SPDX-License-Identifier: Apache-2.0
// Programs in canonical form. What backends may rely on after the passes:
//   constants     are the last argument of add, mul, min, max; x - c is add(x, -c); x / 2^k is mul(x, 2^-k)
//   relu          max(x, 0) is relu(x)
//   clip          min(max(x, lo), hi): the upper bound outside; clip(x, 0, hi) is min(relu(x), hi), relu6 has hi = 6
//   silu          mul(x, sigmoid(x)): the plain value first, what is computed from it second
//   gelu          mul(mul(x, 0.5), add(erf(mul(x, sqrt(1/2))), 1)); with tanh likewise
//   hard sigmoid  min(relu(add(mul(x, a), b)), 1); hard swish is mul(x, that), or div(mul(x, relu6(add(x, 3))), 6)
//   residual      add(v, input): the running value first, the plain input second
//   x^2, x^3      mul(x, x), mul(mul(x, x), x)
// Steps stand in the order in which they are needed, each once, constants just before their first use.
#pragma once
#include "graph/graph.h"

namespace temper {

// Bounds on a fused program: what a generated kernel can still hold in registers and arguments.
constexpr int kMaxProgramInputs = 24;
constexpr size_t kMaxProgramSteps = 128;

// An equal program (same inputs): steps on constants evaluated, equal steps merged, dead ones dropped, identities
// removed where they are exact on every value, -0, infinities and NaN included.
Program simplify(const Program& program, std::span<const DType> input_dtypes);

// A program with the values it reads. The first `fixed` inputs belong to no value (an epilogue's accumulator of dtype
// `accumulator`); their ids are invalid and they stay.
struct BoundProgram {
  Program program;
  std::vector<ValueId> inputs;
  int fixed = 0;
  DType accumulator = DType::f32;

  std::vector<DType> dtypes(const Graph& graph) const;
};

// The program behind a cast of its first input to `dtype`.
Program behind_cast(const Program& program, DType dtype);

// Merges equal inputs, turns constants of one element into steps, simplifies, drops inputs that nothing reads. A
// program without fixed inputs keeps the broadcast shape of its inputs.
void tidy(const Graph& graph, BoundProgram& bound);

// The dtype in which an op hands its result to its epilogue.
DType accumulator_dtype(const Graph& graph, const Node& node);

// The element of a constant of floats or bools whose elements are all equal; nothing where they are not, or where
// there is no constant.
std::optional<double> only_element(const Tensor* constant);

// The broadcast shape of values; nothing where they contradict.
std::optional<Shape> broadcast_shape(const Graph& graph, std::span<const ValueId> values);

}  // namespace temper
