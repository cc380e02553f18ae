// SPDX-License-Identifier: Apache-2.0
// range on GPUs. Short ones are constants of their plan; this is for those of shapes that came after the build.
#include "graph/ops/range.h"

#include "backends/cuda/recipe.h"
#include "backends/cuda/support/program_code.h"

namespace temper::cuda {

namespace {

Support supports(const Problem& problem) { return problem.op.is<ops::Range>() ? supported() : refused("not a range"); }

std::vector<Config> configs(const Problem& problem, const GpuProperties&) { return {plain_config(problem, "")}; }

Recipe::Work work(const Problem& problem, const Config&, const GpuProperties&) {
  const TensorType& y = problem.outputs[0].type;
  const int64_t count = element_count(y.dims());
  Recipe::Work out;
  if (count == 0) return out;
  Job job;
  job.entry = "range";
  job.overlap = true;
  job.slots = {{Slot::Kind::input, 0, 0}, {Slot::Kind::input, 2, 0}, {Slot::Kind::output, 0, 0}};
  job.source.text = concat("#include \"backends/cuda/support/memory.cuh\"\nusing Element = ", memory_type(y.dtype),
                           ";\n#include \"backends/cuda/range/range.cu\"\n");
  job.parameters = ParameterWriter().put(uint64_t(count)).finish();
  job.shape.block = {256, 1, 1};
  job.shape.grid = {blocks_for(count, 256), 1, 1};
  out.jobs.push_back(std::move(job));
  return out;
}

}  // namespace

extern const Recipe range_recipe;
const Recipe range_recipe{"cuda.range", 1, supports, configs, work};

}  // namespace temper::cuda
