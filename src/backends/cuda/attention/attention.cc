// SPDX-License-Identifier: Apache-2.0
// Attention by mma.sync, on every GPU from sm_80 on (attention.cu), and what both kernels of attention are told.
#include "backends/cuda/attention/attention.h"

#include <algorithm>

#include "backends/cuda/support/constants.h"
#include "backends/cuda/support/program_code.h"
#include "base/checked.h"

namespace temper::cuda {

Support attention_supports(const Problem& problem) {
  if (!problem.op.is<ops::Attention>()) return refused("not an attention");
  const DType dtype = problem.inputs[kQ].type.dtype;
  if (dtype != DType::f16 && dtype != DType::bf16) return refused("not of f16 or bf16");
  const ops::AttentionSizes s = attention_sizes(problem);
  if (s.key_size % 8 || s.value_size % 8) return refused("heads of no multiple of 8 elements");
  if (std::max(s.key_size, s.value_size) > 256) return refused("heads of more than 256 elements");
  if (has(problem, kMask)) {
    const DType mask = problem.inputs[kMask].type.dtype;
    if (mask != DType::f32 && mask != DType::f16 && mask != DType::bf16 && mask != DType::boolean)
      return refused("a mask of ", mask);
  }
  for (int64_t count : {s.queries, s.keys, s.batch * s.heads * ceil_div<int64_t>(s.queries, 16)})
    if (count >= int64_t(1) << 29) return refused("an axis of ", count, " elements");
  return supported();
}

// Heads are columns of rows, so that rows may lie apart.
bool attention_takes_parts(const Problem& problem, const Config&) {
  return std::all_of(problem.inputs.begin() + kMask, problem.inputs.end(), [](const Port& p) { return p.pitch == 0; });
}

void add_masks(const Problem& problem, std::string& arguments, std::vector<Slot>& slots) {
  if (has(problem, kMask)) {
    arguments += "const Mask* mask, ";
    slots.push_back({Slot::Kind::input, kMask, 0});
  }
  if (has(problem, kLengths)) {
    arguments += "const i64* lengths, ";
    slots.push_back({Slot::Kind::input, kLengths, 0});
  }
}

namespace {

DType mask_of(const Problem& problem) {
  return has(problem, kMask) ? problem.inputs[kMask].type.dtype : DType::boolean;
}
bool adds_mask(const Problem& problem) { return mask_of(problem) != DType::boolean; }
ops::MaskStrides strides_of_mask(const Problem& problem) {
  return has(problem, kMask) ? ops::mask_strides(problem.inputs[kMask].dims()) : ops::MaskStrides{};
}
// Whether scores are multiplied by the scale before the softmax, which multiplies them by a factor > 0 otherwise.
bool scales_early(const Problem& problem) {
  const ops::Attention& op = problem.op.get<ops::Attention>();
  return adds_mask(problem) || op.softcap != 0 || !(op.scale > 0);
}

}  // namespace

std::string attention_constants(const Problem& problem, int keys) {
  const ops::Attention& op = problem.op.get<ops::Attention>();
  const DType dtype = problem.inputs[kQ].type.dtype;
  const bool masked = has(problem, kMask), lengths = has(problem, kLengths);
  const ops::MaskStrides at = strides_of_mask(problem);
  const bool pairs = at.key == 1 && at.query % 2 == 0 && at.head % 2 == 0 && at.batch % 2 == 0 &&
                     attention_sizes(problem).keys % 2 == 0;
  return concat("#include \"backends/cuda/support/scalar.cuh\"\n", macro("MATRIX", dtype == DType::f16 ? 1 : 2),
                type_alias("Half", memory_type(dtype)), type_alias("Mask", memory_type(mask_of(problem))),
                int_constants({{"KEYS", keys},
                               {"MASK", adds_mask(problem) ? 1
                                        : masked           ? 2
                                                           : 0}}),
                bool_constants({{"MASK_OF_QUERY", masked && at.query != 0},
                                {"MASK_PAIRS", masked && pairs},
                                {"LENGTHS", lengths},
                                {"EARLY", scales_early(problem)},
                                {"CAPPED", op.softcap != 0},
                                {"ZERO_NAN", op.zero_nan}}),
                masked ? "" : "constexpr const Mask* mask = nullptr;\n",
                lengths ? "" : "constexpr const i64* lengths = nullptr;\n");
}

void set_attention_parameters(Job& job, const Problem& problem, int64_t tiles) {
  const ops::Attention& op = problem.op.get<ops::Attention>();
  const ops::AttentionSizes s = attention_sizes(problem);
  constexpr double kLog2E = 1.4426950408889634;
  // As far as a tensor can reach, so that sums with it do not overflow.
  const auto reach = [](int64_t keys) { return int32_t(std::min<int64_t>(keys, 1 << 29)); };
  ParameterWriter parameters;
  parameters.put_divisor(tiles).put_divisor(s.heads).put(uint32_t(s.heads / s.kv_heads));
  parameters.put(int32_t(s.queries)).put(int32_t(s.keys)).put(int32_t(s.key_size)).put(int32_t(s.value_size));
  parameters.put(reach(op.left)).put(reach(op.right)).put(uint32_t(op.from_end));
  parameters.put(uint32_t(op.right >= 0 && op.right < s.keys));
  parameters.put(float(op.softcap != 0 ? op.scale / op.softcap : op.scale)).put(float(op.softcap));
  parameters.put(float(scales_early(problem) ? kLog2E : op.scale * kLog2E));
  for (const Port* port : {&problem.inputs[kQ], &problem.inputs[kK], &problem.inputs[kV], &problem.outputs[0]}) {
    const Dims strides = logical_strides(*port, Layout::plain);
    parameters.put(strides[1]).put(strides[0]);
  }
  const ops::MaskStrides at = strides_of_mask(problem);
  for (int64_t stride : {at.batch, at.head, at.query, at.key}) parameters.put(stride);
  parameters.put(uint32_t(at.batches)).put(uint32_t(s.batch * s.heads * tiles)).put_backwards(job);
  job.parameters = parameters.finish();
}

namespace {

// How a block is made up: "64x32" has 64 queries, 16 a warp, and takes 32 keys at a time; in "16x32/4" four warps share
// the queries, each with 32 keys at a time.
struct Tile {
  int rows, keys, key_warps;
  int largest_head;  // that its registers hold
  std::string text() const { return concat(rows, 'x', keys, key_warps > 1 ? concat('/', key_warps) : ""); }
};
constexpr Tile kTiles[] = {{128, 64, 1, 128}, {64, 64, 1, 128}, {64, 32, 1, 256}, {32, 64, 2, 128},
                           {32, 32, 2, 256},  {16, 64, 4, 128}, {16, 32, 4, 128}, {16, 32, 2, 256}};

int64_t largest_head(const Problem& problem) {
  const ops::AttentionSizes s = attention_sizes(problem);
  return round_up<int64_t>(std::max(s.key_size, s.value_size), 16);
}

int64_t shared_bytes(const Problem& problem, const Tile& tile) {
  const ops::AttentionSizes s = attention_sizes(problem);
  const int64_t query_pitch = round_up<int64_t>(s.key_size, 16) * 2 + 16,
                value_pitch = round_up<int64_t>(s.value_size, 16) * 2 + 16;
  const int64_t stages = 2 * tile.keys * tile.key_warps * (query_pitch + value_pitch);
  // Of each row of the other warps: results, and for every lane a maximum and a sum of its two rows.
  const int64_t joined = (tile.key_warps - 1) * (tile.rows / 16) * (round_up<int64_t>(s.value_size, 16) / 2 + 4) * 32 *
                         int64_t(sizeof(float));
  return tile.rows * std::max(query_pitch, value_pitch) + std::max(stages, joined);
}

// Of the tiles that the head fits in, those with about as many blocks as the GPU has SMs first. A larger tile reads
// keys and values less often.
std::vector<Config> configs(const Problem& problem, const GpuProperties& gpu) {
  const ops::AttentionSizes s = attention_sizes(problem);
  std::vector<Config> out;
  auto add = [&](const Tile& tile) { out.push_back(plain_config(problem, tile.text())); };
  for (const bool fills : {true, false})
    for (const Tile& tile : kTiles) {
      const int64_t blocks = s.batch * s.heads * ceil_div<int64_t>(s.queries, tile.rows);
      if (tile.largest_head < largest_head(problem) || shared_bytes(problem, tile) > gpu.shared_per_block) continue;
      // Half of the tile would do; or the GPU is busy without sharing queries.
      const bool too_large = tile.rows > 16 && s.queries <= tile.rows / 2,
                 shares_in_vain = tile.key_warps > 1 && blocks >= 8 * gpu.sms;
      if (!too_large && !shares_in_vain && (blocks >= gpu.sms) == fills) add(tile);
    }
  if (out.empty()) add(kTiles[2]);  // the least shared memory of those for every head
  return out;
}

const Tile& tile_of(const Problem& problem, std::string_view text) {
  for (const Tile& tile : kTiles)
    if (tile.text() == text && tile.largest_head >= largest_head(problem)) return tile;
  fail(ErrorKind::bad_file, "an attention has no tile '", text, "'");
}

Recipe::Work work(const Problem& problem, const Config& config, const GpuProperties&) {
  const ops::AttentionSizes s = attention_sizes(problem);
  const Tile& tile = tile_of(problem, config.text);
  Recipe::Work out;
  if (element_count(problem.outputs[0].dims()) == 0) return out;

  Job job;
  job.entry = "attention";
  job.overlap = true;
  std::string arguments = "const Half* q, const Half* k, const Half* v, ";
  job.slots = {{Slot::Kind::input, kQ, 0}, {Slot::Kind::input, kK, 0}, {Slot::Kind::input, kV, 0}};
  add_masks(problem, arguments, job.slots);
  job.slots.push_back({Slot::Kind::output, 0, 0});
  const int row_warps = tile.rows / 16;
  job.source.text = concat(attention_constants(problem, tile.keys), macro("ARGUMENTS", arguments + "Half* y"),
                           int_constants({{"ROW_WARPS", row_warps},
                                          {"KEY_WARPS", tile.key_warps},
                                          {"QUERY_SIZE", round_up<int64_t>(s.key_size, 16)},
                                          {"VALUE_SIZE", round_up<int64_t>(s.value_size, 16)}}),
                           "#include \"backends/cuda/attention/attention.cu\"\n");
  const int64_t tiles = ceil_div<int64_t>(s.queries, tile.rows);
  job.shape.block = {uint32_t(row_warps * tile.key_warps * 32), 1, 1};
  job.shape.grid = {uint32_t(s.batch * s.heads * tiles), 1, 1};
  job.shape.shared_bytes = uint32_t(shared_bytes(problem, tile));
  set_attention_parameters(job, problem, tiles);
  out.jobs.push_back(std::move(job));
  return out;
}

}  // namespace

extern const Recipe attention_recipe;
const Recipe attention_recipe{
    "cuda.attention.mma", 5, attention_supports, configs, work, {}, attention_takes_parts, nullptr, true};

}  // namespace temper::cuda
