// SPDX-License-Identifier: Apache-2.0
// Finds where a graph needs more range or digits than 16 bits hold, whatever its data are: squares and what
// is summed of them, as far as a root, a quotient or a logarithm.
#pragma once
#include <map>
#include <string>

#include "graph/graph.h"

namespace temper {

// By name, with the reason. A square spans twice as many powers of two as what was squared: 256 squared is beyond f16,
// 2e-4 squared vanishes in it, and behind a root or a logarithm what vanished is missed as much as what overflowed.
struct Squares {
  // Squares (a value times itself, or to a constant power of at least 2), and sums, averages and products with
  // constants of squares, on their way to the argument of a root or logarithm, or to a divisor.
  std::map<std::string, std::string> values;
  // Convolutions and matrix products whose results are squared on the way to a logarithm (spectra in decibels, mel
  // front ends): it shows what is a million times smaller than the rest, down to the rounding of the operands.
  std::map<std::string, std::string> products;
};
Squares find_squares(const Graph& graph);

}  // namespace temper
