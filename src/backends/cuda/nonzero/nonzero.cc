// SPDX-License-Identifier: Apache-2.0
// nonzero on GPUs: two passes over x, the first of which counts.
#include "graph/ops/nonzero.h"

#include "backends/cuda/scan/scan.h"
#include "backends/cuda/support/program_code.h"
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
  const int64_t count = element_count(x.dims()), blocks = ceil_div(count, kScanTile);
  Recipe::Work out;
  if (count == 0) return out;
  out.workspace = round_up<int64_t>(blocks * 4, 256);
  const Dims dims = x.rank() ? x.dims() : Dims{1};
  const std::string_view word = word_type(size_of(x.dtype));
  const Slot input{Slot::Kind::input, 0, 0}, counts{Slot::Kind::workspace, 0, 0}, total{Slot::Kind::output, 1, 0},
      positions{Slot::Kind::output, 0, 0};
  const auto job = [&](std::string entry, std::vector<Slot> slots) {
    Job each;
    each.entry = std::move(entry);
    each.overlap = true;
    each.source.text =
        concat("#include \"backends/cuda/support/memory.cuh\"\nusing Word = ", word, ";\nconstexpr Word MASK = Word(~",
               word, "(0))", is_float(x.dtype) ? " >> 1" : "", ";\nconstexpr int RANK = ", dims.size(),
               ";\nconstexpr u32 kTile = ", kScanTile, ";\n#include \"backends/cuda/nonzero/nonzero.cu\"\n");
    each.slots = std::move(slots);
    each.parameters = ParameterWriter().put(uint32_t(count)).put_walk(dims, {}).finish();
    each.shape.block = {256, 1, 1};
    each.shape.grid = {blocks_for(count, kScanTile), 1, 1};
    return each;
  };
  out.jobs = {job("nonzero_count", {input, counts}), scan_job(counts, total, blocks),
              job("nonzero_write", {input, counts, total, positions})};
  return out;
}

}  // namespace

extern const Recipe nonzero_recipe;
const Recipe nonzero_recipe{"cuda.nonzero", 1, supports, configs, work};

}  // namespace temper::cuda
