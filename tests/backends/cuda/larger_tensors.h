// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>

#include "backends/cuda/recipe.h"
#include "base/checked.h"

namespace temper::testing {

// The problem with all its ports in larger tensors that the recipe takes there; nothing where it takes none.
inline std::optional<Problem> in_larger_tensors(const cuda::Recipe& recipe, Problem problem, const Config& config) {
  if (!recipe.takes_parts) return {};
  auto place = [&](std::vector<Port>& ports, const std::vector<Layout>& layouts) {
    for (size_t i = 0; i < ports.size(); ++i) {
      const Dims dims = ports[i].dims();
      if (!ports[i].present || ports[i].is_constant || dims.empty()) continue;
      const int64_t size = size_of(ports[i].type.dtype),
                    row = layouts[i] == Layout::channels_last ? dims[1] : dims.back(),
                    pitch = (round_up(row * size, kPartAlignment) + 3 * kPartAlignment) / size;
      if (!pitch_fits(dims, layouts[i], pitch)) continue;
      ports[i].pitch = pitch;
      if (!recipe.takes_parts(problem, config)) ports[i].pitch = 0;
    }
  };
  place(problem.outputs, config.outputs);
  place(problem.inputs, config.inputs);
  if (!problem.has_parts()) return {};
  return problem;
}

}  // namespace temper::testing
