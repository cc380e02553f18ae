// SPDX-License-Identifier: Apache-2.0
// append on GPUs: in place where the output is the memory of the cache, else with a copy of it.
#include "graph/ops/append.h"

#include <algorithm>

#include "backends/cuda/recipe.h"
#include "backends/cuda/support/program_code.h"

namespace temper::cuda {

namespace {

Support supports(const Problem& problem) {
  if (!problem.op.is<ops::Append>()) return refused("not an append");
  for (const Port& port : problem.inputs)
    if (!small_positions(element_count(port.dims()))) return refused("more than 2147418112 elements");
  return supported();
}

std::vector<Config> configs(const Problem& problem, const GpuProperties&) { return {plain_config(problem, "")}; }

Recipe::Work work(const Problem& problem, const Config&, const GpuProperties& gpu) {
  const Port &x = problem.inputs[0], &rows = problem.inputs[1];
  const Dims dims = x.dims();
  const int64_t size = size_of(x.type.dtype), row = dims[2] * size, pitch = (rows.pitch ? rows.pitch : dims[2]) * size,
                count = rows.dims()[1];
  Recipe::Work out;
  if (element_count(dims) == 0) return out;
  int64_t piece = 16;
  while (row % piece || pitch % piece) piece /= 2;
  const int64_t pieces = row / piece;
  Job job;
  job.entry = "append";
  job.overlap = true;
  job.slots = {{Slot::Kind::input, 0, 0},
               {Slot::Kind::input, 1, 0},
               {Slot::Kind::input, 2, 0},
               {Slot::Kind::output, 0, 0},
               {Slot::Kind::fault, 0, 0}};
  job.source.text = concat(
      "#include \"backends/cuda/support/memory.cuh\"\nusing Piece = ", piece == 16 ? "Vec<u32, 4>" : word_type(piece),
      ";\n#include \"backends/cuda/append/append.cu\"\n");
  job.parameters = ParameterWriter()
                       .put_divisor(pieces)
                       .put_divisor(dims[1])
                       .put_divisor(std::max<int64_t>(count, 1))
                       .put(uint32_t(dims[0]))
                       .put(uint32_t(count))
                       .put(uint32_t(pitch / piece))
                       .finish();
  job.shape.block = {256, 1, 1};
  // As many as the new rows need; where the cache is copied, too, each thread does more.
  const int64_t wanted =
      std::max(dims[0] * count * pieces, std::min<int64_t>(dims[0] * dims[1] * pieces, gpu.sms * 256));
  job.shape.grid = {blocks_for(wanted, 256), 1, 1};
  out.jobs.push_back(std::move(job));
  return out;
}

bool takes_parts(const Problem& problem, const Config&) {
  return problem.inputs[0].pitch == 0 && problem.inputs[2].pitch == 0 && problem.outputs[0].pitch == 0;
}

}  // namespace

extern const Recipe append_recipe;
const Recipe append_recipe{"cuda.append", 2, supports, configs, work, {}, takes_parts};

}  // namespace temper::cuda
