// SPDX-License-Identifier: Apache-2.0
// Attention of one query, as models that generate have it, and with the new row of its caches (attention_one.cu).
#include <algorithm>

#include "backends/cuda/attention/attention.h"
#include "backends/cuda/support/constants.h"
#include "backends/cuda/support/program_code.h"
#include "base/checked.h"
#include "base/parse.h"
#include "graph/ops/fused_decode.h"

namespace temper::cuda {

namespace {

// Warps of a block, keys that a group of lanes reads at once, steps that the ring holds, and blocks that share the
// keys.
struct Shares {
  int warps, unroll, stages, splits;
  std::string text() const { return concat(warps, 'x', unroll, 'x', stages, splits > 1 ? concat('/', splits) : ""); }
};
constexpr Shares kShares[] = {{8, 4, 1, 8}, {8, 2, 2, 8}, {8, 4, 2, 8}, {8, 4, 4, 8}, {4, 4, 2, 4}, {8, 4, 2, 4},
                              {4, 2, 4, 2}, {4, 4, 3, 2}, {4, 4, 4, 1}, {8, 2, 4, 1}, {8, 2, 3, 1}, {4, 4, 1, 1}};

// Of appending_attention.
enum AppendInput : size_t { kCacheK = 1, kNewK, kCacheV, kNewV, kHeld };
bool appends(const Problem& problem) { return problem.op.is<ops::AppendingAttention>(); }

// The attention alone, whose keys and values are the caches.
Problem attention_of(Problem problem) {
  const auto* op = problem.op.get_if<ops::AppendingAttention>();
  if (!op) return problem;
  problem.inputs = op->attention_inputs(std::span<const Port>(problem.inputs));
  problem.outputs.resize(1);
  problem.op = ops::Attention(op->attention);
  return problem;
}

Support supports_alone(const Problem& problem) {
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

Support supports(const Problem& problem) {
  if (!appends(problem)) return supports_alone(problem);
  for (const size_t i : {kNewK, kNewV}) {
    if (problem.inputs[i].dims()[1] != 1) return refused(problem.inputs[i].dims()[1], " new positions");
    if (problem.inputs[i].pitch % 8) return refused("new rows that are no multiple of 16 bytes apart");
  }
  return supports_alone(attention_of(problem));
}

std::vector<Config> configs(const Problem& problem, const GpuProperties& gpu) {
  const ops::AttentionSizes s = attention_sizes(attention_of(problem));
  // Keys of a step, by all blocks that share them.
  const auto at_once = [&](const Shares& shares) {
    return int64_t(shares.warps) * shares.unroll * (256 / s.key_size) * shares.splits;
  };
  const int64_t heads = s.batch * s.heads;
  std::vector<Shares> all;
  for (const Shares& shares : kShares) {
    // Blocks, or places of the ring, that would have no keys; or the GPU is busy without sharing them.
    const bool in_vain = (shares.splits > 1 && (at_once(shares) / shares.splits * (shares.splits - 1) >= s.keys ||
                                                heads * shares.splits >= 16 * gpu.sms)) ||
                         (shares.stages > 1 && at_once(shares) * (shares.stages - 1) >= s.keys);
    if (!in_vain) all.push_back(shares);
  }
  if (appends(problem) && 2 * heads < gpu.sms) {
    // A token waits for the keys that a group of lanes reads one behind the other: those with the fewest are offered.
    const auto in_a_row = [&](const Shares& shares) {
      return ceil_div<int64_t>(s.keys, at_once(shares)) * shares.unroll;
    };
    const int64_t least = in_a_row(*std::ranges::min_element(all, {}, in_a_row));
    std::erase_if(all, [&](const Shares& shares) { return in_a_row(shares) > least; });
  }
  std::vector<Config> out;
  out.reserve(all.size());
  for (const Shares& shares : all) out.push_back(plain_config(problem, shares.text()));
  return out;
}

Recipe::Work work(const Problem& whole, const Config& config, const GpuProperties&) {
  const Problem problem = attention_of(whole);
  const ops::AttentionSizes s = attention_sizes(problem);
  const auto shares = std::find_if(std::begin(kShares), std::end(kShares),
                                   [&](const Shares& one) { return one.text() == config.text; });
  if (shares == std::end(kShares)) fail(ErrorKind::bad_file, "cuda.attention.one has no '", config.text, "'");
  Recipe::Work out;
  if (element_count(problem.outputs[0].dims()) == 0) return out;

  const auto* appending = whole.op.get_if<ops::AppendingAttention>();
  Job job;
  job.entry = "attention_one";
  job.overlap = true;
  std::string arguments = "const Half* q, const Half* k, const Half* v, ";
  job.slots = {{Slot::Kind::input, kQ, 0}, {Slot::Kind::input, kK, 0}, {Slot::Kind::input, kV, 0}};
  add_masks(problem, arguments, job.slots);
  set_attention_parameters(job, problem, 1);
  job.backwards_at = -1;  // one query of a head
  if (appends(whole)) {
    for (size_t i = 1; i < job.slots.size(); ++i)
      job.slots[i].index = i == 1   ? kCacheK
                           : i == 2 ? kCacheV
                                    : job.slots[i].index + int(ops::AppendingAttention::kOwnInputs) - kMask;
    arguments += "const Half* new_k, const Half* new_v, const i64* held, Half* to_k, Half* to_v, Fault* fault, ";
    for (const size_t i : {kNewK, kNewV, kHeld}) job.slots.push_back({Slot::Kind::input, int(i), 0});
    for (const int i : {1, 2}) job.slots.push_back({Slot::Kind::output, i, 0});
    job.slots.push_back({Slot::Kind::fault, 0, 0});
    ParameterWriter writer;
    for (const size_t i : {kNewK, kNewV}) writer.put(logical_strides(whole.inputs[i], Layout::plain)[0]);
    const std::vector<std::byte> rows = writer.finish();
    job.parameters.insert(job.parameters.end(), rows.begin(), rows.end());
  }
  job.slots.push_back({Slot::Kind::output, 0, 0});
  constexpr int kKeys = 16;  // of a block, as scores.cuh has them for others
  job.source.text = concat(
      attention_constants(problem, kKeys), macro("ARGUMENTS", arguments + "Half* y"), macro("SPLITS", shares->splits),
      macro("APPENDS", int(appends(whole))),
      bool_constants({{"GIVEN", appending && appending->given}, {"BEHIND_NEW", appending && appending->behind_new}}),
      int_constants(
          {{"SIZE", s.key_size}, {"WARPS", shares->warps}, {"UNROLL", shares->unroll}, {"STAGES", shares->stages}}),
      "#include \"backends/cuda/attention/attention_one.cu\"\n");
  const int64_t parts = int64_t(shares->warps) + shares->splits;
  job.shape.block = {uint32_t(shares->warps) * 32, 1, 1};
  job.shape.grid = {uint32_t(s.batch * s.heads), uint32_t(shares->splits), 1};
  // The ring, keys and values of 16 bytes a thread; the parts; a barrier.
  const int64_t ring = int64_t(shares->stages) * shares->unroll * shares->warps * 32 * 2 * 16;
  job.shape.shared_bytes = uint32_t(ring + parts * (s.key_size + 2) * int64_t(sizeof(float)) + 8);
  out.jobs.push_back(std::move(job));
  return out;
}

// Caches lie in one piece, or the kernel would not know where outputs are.
bool takes_parts(const Problem& problem, const Config& config) {
  if (!appends(problem)) return attention_takes_parts(problem, config);
  return problem.inputs[kCacheK].pitch == 0 && problem.inputs[kCacheV].pitch == 0 && problem.outputs[1].pitch == 0 &&
         problem.outputs[2].pitch == 0 && problem.inputs[kHeld].pitch == 0 &&
         attention_takes_parts(attention_of(problem), config);
}

}  // namespace

extern const Recipe attention_one_recipe;
const Recipe attention_one_recipe{"cuda.attention.one", 13, supports, configs, work, "sm_90a", takes_parts};

}  // namespace temper::cuda
