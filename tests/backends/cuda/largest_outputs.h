// SPDX-License-Identifier: Apache-2.0
// Ops of which only the data say how large their results are, as kernels of GPUs are given them.
#pragma once
#include <cstring>

#include "backends/sized_by_data.h"

namespace temper::testing {

// Any other problem as it is.
inline Problem with_largest_outputs(Problem problem) {
  std::optional<Problem> largest = largest_problem(problem.op, problem.inputs, problem.threads);
  if (!largest) return problem;
  for (Port& port : largest->inputs) port.constant = nullptr, port.is_constant = false;
  return *std::move(largest);
}

// What such a kernel gave, in the size that it says.
inline std::vector<Tensor> without_room(const Problem& problem, const std::vector<Tensor>& given) {
  const int64_t size = largest_size(problem) == 0 ? 0 : given.back().data<int64_t>()[0];
  std::vector<Tensor> out;
  for (const TensorType& type : types_for(problem, size)) {
    Tensor& tensor = out.emplace_back(type.dtype, type.dims());
    const Tensor& from = given[out.size() - 1];
    if (tensor.bytes() > from.bytes()) fail(ErrorKind::machine, "a size of ", size, " is beyond the largest");
    std::memcpy(tensor.raw_mutable(), from.raw().data(), size_t(tensor.bytes()));
  }
  return out;
}

}  // namespace temper::testing
