// SPDX-License-Identifier: Apache-2.0
// sample on GPUs: one kernel, of a cluster of blocks for each row where there are clusters.
#include "graph/ops/sample.h"

#include "backends/cuda/recipe.h"
#include "backends/cuda/support/constants.h"
#include "backends/cuda/support/program_code.h"
#include "base/checked.h"

namespace temper::cuda {

namespace {

namespace sampling = ops::sampling;
constexpr int64_t kThreads = 512;  // as many bins, and as many tokens that are put in order

Support supports(const Problem& problem) {
  if (!problem.op.is<ops::Sample>()) return refused("not a sample");
  for (const Port& port : problem.inputs)
    if (!small_positions(element_count(port.dims()))) return refused("more than 2147418112 elements");
  return supported();
}

std::vector<Config> configs(const Problem& problem, const GpuProperties&) { return {plain_config(problem, "")}; }

Recipe::Work work(const Problem& problem, const Config&, const GpuProperties& gpu) {
  const Dims dims = problem.inputs[0].dims();
  const int64_t rows = dims[0], vocabulary = dims[1];
  Recipe::Work out;
  if (rows == 0) return out;
  // As many blocks as have a few tokens for each of their threads.
  int64_t splits = 1;
  while (gpu.capability >= 90 && splits < 8 && rows * splits < gpu.sms && vocabulary > splits * kThreads * 4)
    splits *= 2;
  Job job;
  job.entry = "sample";
  job.overlap = true;
  for (int i = 0; i < 5; ++i) job.slots.push_back({Slot::Kind::input, i, 0});
  for (int o = 0; o < 2; ++o) job.slots.push_back({Slot::Kind::output, o, 0});
  job.slots.push_back(out.place(rows * vocabulary * 4));  // logits with the penalty
  job.source.text =
      concat(include_line("support/scalar.cuh"), macro("SPLITS", splits), include_line("sample/sample.cu"));
  ParameterWriter parameters;
  // In whole warps: of a block, and of a warp of it.
  const int64_t blocks = gpu.capability >= 90 ? splits : 1;
  const int64_t span = round_up<int64_t>(ceil_div(vocabulary, blocks), kThreads), of_warp = span / (kThreads / 32);
  parameters.put(uint32_t(vocabulary))
      .put(uint32_t(problem.inputs[1].dims()[1]))
      .put(uint32_t(span))
      .put(uint32_t(of_warp))
      .put(int32_t(sampling::weight_bits(vocabulary)));
  for (const uint64_t power : sampling::kPowers) parameters.put(power);
  for (const uint64_t term : sampling::kTerms) parameters.put(term);
  job.parameters = parameters.finish(8);
  job.shape.block = {kThreads, 1, 1};
  job.shape.grid = {uint32_t(rows), uint32_t(splits), 1};
  job.shape.shared_bytes = uint32_t(kThreads * (4 + 5 * 8) + 1024);  // struct Shared
  out.jobs.push_back(std::move(job));
  return out;
}

}  // namespace

extern const Recipe sample_recipe;
const Recipe sample_recipe{"cuda.sample", 1, supports, configs, work};

}  // namespace temper::cuda
