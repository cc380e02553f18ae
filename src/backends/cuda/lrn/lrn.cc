// SPDX-License-Identifier: Apache-2.0
// lrn on GPUs.
#include "graph/ops/lrn.h"

#include <algorithm>

#include "backends/cuda/recipe.h"
#include "backends/cuda/support/constants.h"
#include "backends/cuda/support/program_code.h"

namespace temper::cuda {

namespace {

// Neighbouring channels are so far apart.
int64_t inner_of(const Dims& dims, Layout layout) { return layout == Layout::plain ? row_major_strides(dims)[1] : 1; }

Support supports(const Problem& problem) {
  if (!problem.op.is<ops::Lrn>()) return refused("not an lrn");
  const Dims dims = problem.inputs[0].dims();
  if (!small_positions(dims[1])) return refused("an axis of ", dims[1], " elements");
  if (const int64_t inner = inner_of(dims, Layout::plain); !small_positions(inner))
    return refused("planes of ", inner, " elements");
  return supported();
}

Recipe::Work work(const Problem& problem, const Config& config, const GpuProperties&) {
  const auto& op = problem.op.get<ops::Lrn>();
  const TensorType& x = problem.inputs[0].type;
  const Dims dims = x.dims();
  Recipe::Work out;
  const int64_t count = element_count(dims);
  if (count == 0) return out;
  const int64_t inner = inner_of(dims, config.outputs[0]);
  Job job;
  job.entry = "lrn";
  job.overlap = true;
  job.slots = {{Slot::Kind::input, 0, 0}, {Slot::Kind::output, 0, 0}};
  job.source.text =
      concat("#include \"backends/cuda/support/memory.cuh\"\n", type_alias("T", memory_type(x.dtype)),
             type_alias("Sum", x.dtype == DType::f64 ? "double" : "float"),
             type_alias("Index", small_positions(count) ? "u32" : "u64"), "#include \"backends/cuda/lrn/lrn.cu\"\n");
  job.shape.block = {256, 1, 1};
  job.shape.grid = {blocks_for(count, 256), 1, 1};
  const int64_t before = (op.size - 1) / 2, after = op.size - 1 - before;
  job.parameters = ParameterWriter()
                       .put(uint64_t(count))
                       .put(op.bias)
                       .put(op.alpha / double(op.size))
                       .put(op.beta)
                       .put_divisor(inner)
                       .put_divisor(dims[1])
                       .put(int32_t(std::min(before, dims[1])))
                       .put(int32_t(std::min(after, dims[1])))
                       .finish();
  out.jobs.push_back(std::move(job));
  return out;
}

}  // namespace

extern const Recipe lrn_recipe;
const Recipe lrn_recipe{"cuda.lrn", 1, supports, same_layout_configs, work};

}  // namespace temper::cuda
