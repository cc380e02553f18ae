// SPDX-License-Identifier: Apache-2.0
// Attention of one query, as models that generate have it (attention_one.cu).
#include <algorithm>

#include "backends/cuda/attention/attention.h"
#include "backends/cuda/support/constants.h"
#include "backends/cuda/support/program_code.h"
#include "base/checked.h"
#include "base/parse.h"

namespace temper::cuda {

namespace {

// Warps of a block, keys that a group of lanes reads at once, and blocks that share the keys.
struct Shares {
  int warps, unroll, splits;
  std::string text() const { return concat(warps, 'x', unroll, splits > 1 ? concat('/', splits) : ""); }
};
constexpr Shares kShares[] = {{8, 8, 4}, {8, 8, 8}, {8, 8, 2}, {4, 8, 8}, {8, 4, 4}, {8, 8, 1}, {16, 4, 1}};

Support supports(const Problem& problem) {
  if (Support support = attention_supports(problem); !support.yes()) return support;
  const ops::AttentionSizes s = attention_sizes(problem);
  if (s.queries != 1) return refused(s.queries, " queries, not one");
  if (has(problem, kMask)) return refused("a mask");
  if (s.key_size != s.value_size || (s.key_size != 32 && s.key_size != 64 && s.key_size != 128 && s.key_size != 256))
    return refused("heads of ", s.key_size, " and ", s.value_size, " elements");
  for (size_t i : {kQ, kK, kV})
    if (problem.inputs[i].pitch % 8) return refused("rows that are no multiple of 16 bytes apart");
  return supported();
}

std::vector<Config> configs(const Problem& problem, const GpuProperties& gpu) {
  const ops::AttentionSizes s = attention_sizes(problem);
  std::vector<Config> out;
  for (const Shares& shares : kShares) {
    const int64_t at_once = int64_t(shares.warps) * shares.unroll * (256 / s.key_size);
    // Blocks that would have no keys; or the GPU is busy without sharing them.
    const bool in_vain =
        shares.splits > 1 && (at_once * (shares.splits - 1) >= s.keys || s.batch * s.heads >= 4 * gpu.sms);
    if (!in_vain) out.push_back(plain_config(problem, shares.text()));
  }
  return out;
}

Recipe::Work work(const Problem& problem, const Config& config, const GpuProperties&) {
  const ops::AttentionSizes s = attention_sizes(problem);
  const auto shares = std::find_if(std::begin(kShares), std::end(kShares),
                                   [&](const Shares& one) { return one.text() == config.text; });
  if (shares == std::end(kShares)) fail(ErrorKind::bad_file, "cuda.attention.one has no '", config.text, "'");
  Recipe::Work out;
  if (element_count(problem.outputs[0].dims()) == 0) return out;

  Job job;
  job.entry = "attention_one";
  job.overlap = true;
  std::string arguments = "const Half* q, const Half* k, const Half* v, ";
  job.slots = {{Slot::Kind::input, kQ, 0}, {Slot::Kind::input, kK, 0}, {Slot::Kind::input, kV, 0}};
  add_masks(problem, arguments, job.slots);
  job.slots.push_back({Slot::Kind::output, 0, 0});
  constexpr int kKeys = 16;  // of a block, as scores.cuh has them for others
  job.source.text = concat(attention_constants(problem, kKeys), macro("ARGUMENTS", arguments + "Half* y"),
                           macro("SPLITS", shares->splits),
                           int_constants({{"SIZE", s.key_size}, {"WARPS", shares->warps}, {"UNROLL", shares->unroll}}),
                           "#include \"backends/cuda/attention/attention_one.cu\"\n");
  const int64_t parts = int64_t(shares->warps) + 1;
  job.shape.block = {uint32_t(shares->warps) * 32, 1, 1};
  job.shape.grid = {uint32_t(s.batch * s.heads), uint32_t(shares->splits), 1};
  job.shape.shared_bytes = uint32_t(parts * (s.key_size + 2) * int64_t(sizeof(float)));
  job.parameters = attention_parameters(problem, 1);
  out.jobs.push_back(std::move(job));
  return out;
}

}  // namespace

extern const Recipe attention_one_recipe;
const Recipe attention_one_recipe{"cuda.attention.one", 2, supports, configs, work, "sm_90a", attention_takes_parts};

}  // namespace temper::cuda
