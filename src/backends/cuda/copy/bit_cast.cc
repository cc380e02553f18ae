// SPDX-License-Identifier: Apache-2.0
// bit_cast on GPUs, as a copy.
#include "graph/ops/bit_cast.h"

#include "backends/cuda/copy/copy.h"

namespace temper::cuda {

namespace {

Support supports(const Problem& problem) {
  return problem.op.is<ops::BitCast>() ? supported() : refused("not a bit_cast");
}

Recipe::Work work(const Problem& problem, const Config& config, const GpuProperties&) {
  const Port &x = problem.inputs[0], &y = problem.outputs[0];
  return {copy_jobs(size_of(x.type.dtype), x.dims(), logical_strides(x, config.inputs[0]),
                    logical_strides(y, config.outputs[0]), 0, 0, {Slot::Kind::input, 0, 0}, {Slot::Kind::output, 0, 0}),
          0,
          {},
          {}};
}

}  // namespace

extern const Recipe bit_cast_recipe;
const Recipe bit_cast_recipe{"cuda.bit_cast", 1, supports, same_layout_configs, work, {}, takes_all_parts};

}  // namespace temper::cuda
