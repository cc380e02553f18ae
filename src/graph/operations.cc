// SPDX-License-Identifier: Apache-2.0
#include "graph/operations.h"

#include <algorithm>

namespace temper {

int64_t computing_steps(const Program& program) {
  return std::count_if(program.steps.begin(), program.steps.end(),
                       [](const Step& step) { return step.op != Scalar::constant && step.op != Scalar::cast; });
}

}  // namespace temper
