// SPDX-License-Identifier: Apache-2.0
#include "graph/operations.h"

#include <algorithm>

namespace temper {

int64_t computing_steps(const Program& program) {
  return std::count_if(program.steps.begin(), program.steps.end(),
                       [](const Step& step) { return step.op != Scalar::constant && step.op != Scalar::cast; });
}

double contraction_cost(const TensorType& second, const TensorType& output) {
  const Dims dims = second.dims();
  const int64_t least = *std::min_element(dims.begin(), dims.end());
  return double(element_count(output)) * double(element_count(dims)) / double(std::max<int64_t>(1, least));
}

}  // namespace temper
