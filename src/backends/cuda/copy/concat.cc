// SPDX-License-Identifier: Apache-2.0
// concat on GPUs, as one copy for each input.
#include "graph/ops/concat.h"

#include "backends/cuda/copy/copy.h"

namespace temper::cuda {

namespace {

Support supports(const Problem& problem) {
  if (!problem.op.is<ops::Concat>()) return refused("not a concat");
  return supported();
}

// One copy for each input that was not written into its part of the output by whoever made it.
Recipe::Work work(const Problem& problem, const Config& config, const GpuProperties&) {
  const size_t axis = size_t(problem.op.get<ops::Concat>().axis);
  const TensorType& output = problem.outputs[0].type;
  const Dims strides = logical_strides(problem.outputs[0], config.outputs[0]);
  Recipe::Work out;
  int64_t position = 0;
  for (size_t i = 0; i < problem.inputs.size(); ++i) {
    const Dims dims = problem.inputs[i].dims();
    if (!problem.inputs[i].in_place) {
      auto jobs = copy_jobs(size_of(output.dtype), dims, logical_strides(problem.inputs[i], config.inputs[i]), strides,
                            0, position * strides[axis], {Slot::Kind::input, int(i), 0}, {Slot::Kind::output, 0, 0});
      out.jobs.insert(out.jobs.end(), std::make_move_iterator(jobs.begin()), std::make_move_iterator(jobs.end()));
    }
    position += dims[axis];
  }
  return out;
}

}  // namespace

extern const Recipe concat_recipe;
const Recipe concat_recipe{"cuda.concat", 1, supports, same_layout_configs, work, {}, takes_all_parts};

}  // namespace temper::cuda
