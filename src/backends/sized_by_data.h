// SPDX-License-Identifier: Apache-2.0
// Ops of which only the data say how large their results are, as problems that a kernel on a device can compute: it
// writes results into room for the largest ones, closely packed for the size that they turn out to have, and that size.
#pragma once
#include <optional>

#include "backends/tactic.h"

namespace temper {

// The op with outputs of the largest size that inputs of these types allow (constants among them may make it smaller),
// and behind them an i64[1]: how long the axes are that only the data decide. Nothing for any other op.
std::optional<Problem> largest_problem(const Op& op, std::vector<Port> inputs, int threads);
// Whether it is such a problem of this op.
template <class T>
bool is_largest(const Problem& problem, size_t outputs) {
  return problem.op.is<T>() && problem.outputs.size() == outputs + 1;
}
// How long those axes may be at most.
int64_t largest_size(const Problem& problem);
// The types that the op's outputs have where those axes are that long.
std::vector<TensorType> types_for(const Problem& problem, int64_t size);

}  // namespace temper
