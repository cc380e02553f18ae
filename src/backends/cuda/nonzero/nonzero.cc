// SPDX-License-Identifier: Apache-2.0
// nonzero on GPUs: two passes over x, the first of which counts.
#include "graph/ops/nonzero.h"

#include "backends/cuda/scan/scan.h"
#include "backends/cuda/support/constants.h"
#include "backends/sized_by_data.h"
#include "base/checked.h"

namespace temper::cuda {

namespace {

Support supports(const Problem& problem) {
  if (!problem.op.is<ops::NonZero>()) return refused("not a nonzero");
  if (!is_largest<ops::NonZero>(problem, 1)) return refused("its result has no room for the largest size");
  if (problem.inputs[0].type.dtype == DType::string) return refused("strings lie in the host's memory");
  if (!small_positions(element_count(problem.inputs[0].dims()))) return refused("more than 2147418112 elements");
  return supported();
}

std::vector<Config> configs(const Problem& problem, const GpuProperties&) { return {plain_config(problem, "")}; }

Recipe::Work work(const Problem& problem, const Config&, const GpuProperties&) {
  const TensorType& x = problem.inputs[0].type;
  const int64_t count = element_count(x.dims());
  Recipe::Work out;
  if (count == 0) return out;
  const Dims dims = x.rank() ? x.dims() : Dims{1};
  const Slot counts = out.place(ceil_div(count, kScanTile) * 4);
  const Slot input{Slot::Kind::input, 0, 0}, total{Slot::Kind::output, 1, 0}, positions{Slot::Kind::output, 0, 0};
  const std::string head = tiles_head(size_of(x.dtype), is_float(x.dtype));
  add_count(input, head, count, counts, total, out.jobs);
  out.jobs.push_back(tiles_job(
      "nonzero", concat(head, int_constants({{"RANK", int64_t(dims.size())}}), include_line("nonzero/nonzero.cu")),
      {input, counts, total, positions}, ParameterWriter().put(uint32_t(count)).put_walk(dims, {}).finish(), count));
  return out;
}

}  // namespace

extern const Recipe nonzero_recipe;
const Recipe nonzero_recipe{"cuda.nonzero", 1, supports, configs, work};

}  // namespace temper::cuda
