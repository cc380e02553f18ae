// SPDX-License-Identifier: Apache-2.0
// Attention by TMA and wgmma, on Hopper (attention_hopper.cu).
#include <algorithm>

#include "backends/cuda/attention/attention.h"
#include "backends/cuda/support/constants.h"
#include "base/checked.h"

namespace temper::cuda {

namespace {

// How a block is made up: "128x160" has 128 queries, 64 a warpgroup, and takes 160 keys at a time. A block of "64x64 in
// turn" works at one tile after the other.
struct Tile {
  int consumers, keys;
  int largest_head, largest_masked_head;  // that its registers hold without masks or a softcap, and with them
  int blocks = 1;                         // of an SM, at most
  bool in_turn = false;
  std::string text() const { return concat(consumers * 64, 'x', keys, in_turn ? " in turn" : ""); }
  int stages() const { return in_turn ? 3 : 2; }
  int tiles() const { return in_turn ? 2 : 1; }  // of queries in shared memory
};
constexpr Tile kTiles[] = {{3, 128, 64, 0},    {4, 64, 64, 0},           {2, 160, 128, 0},
                           {2, 128, 128, 64},  {2, 64, 256, 128},        {2, 32, 256, 256},
                           {1, 128, 64, 0, 2}, {1, 64, 64, 64, 3, true}, {1, 64, 128, 128, 3}};
constexpr int kPiece = 64;

struct Heads {  // sizes, rounded up to whole pieces
  int64_t query, value;
};
Heads heads_of(const Problem& problem) {
  const ops::AttentionSizes s = attention_sizes(problem);
  return {round_up<int64_t>(s.key_size, kPiece), round_up<int64_t>(s.value_size, kPiece)};
}
// Of the products with values: the fewest that a multiplication of mma.cuh has.
int64_t columns_of_product(int64_t value_size) {
  for (const int64_t columns : {32, 48, 64, 80, 96, 128, 160, 192})
    if (value_size <= columns) return columns;
  return 256;
}
int64_t largest_head(const Problem& problem) {
  const Heads heads = heads_of(problem);
  return std::max(heads.query, heads.value);
}
bool holds(const Tile& tile, const Problem& problem) {
  const bool plain = !has(problem, kMask) && problem.op.get<ops::Attention>().softcap == 0;
  return largest_head(problem) <= (plain ? tile.largest_head : tile.largest_masked_head);
}
int64_t shared_bytes(const Problem& problem, const Tile& tile) {
  const Heads heads = heads_of(problem);
  const int64_t barriers = 2 * tile.tiles() + 4 * tile.stages() + 4;
  return (tile.tiles() * tile.consumers * 64 * largest_head(problem) +
          tile.stages() * tile.keys * (heads.query + heads.value)) *
             2 +
         barriers * 8;
}
int64_t tiles_of_head(const Problem& problem, const Tile& tile) {
  return ceil_div<int64_t>(attention_sizes(problem).queries, tile.consumers * 64);
}
int64_t tiles_of(const Problem& problem, const Tile& tile) {
  const ops::AttentionSizes s = attention_sizes(problem);
  return s.batch * s.heads * tiles_of_head(problem, tile);
}
// Blocks of an SM, as many as its registers and its shared memory leave room for.
int64_t blocks_of(const Problem& problem, const Tile& tile, const GpuProperties& gpu) {
  const int64_t most = problem.op.get<ops::Attention>().softcap != 0 ? std::min(tile.blocks, 2) : tile.blocks;
  return std::clamp<int64_t>(gpu.shared_per_block / shared_bytes(problem, tile), 1, most);
}
// Keys are few, and blocks have several tiles.
bool worth_a_turn(const Problem& problem, const Tile& tile, const GpuProperties& gpu) {
  return attention_sizes(problem).keys <= 8 * tile.keys &&
         tiles_of(problem, tile) > gpu.sms * blocks_of(problem, tile, gpu);
}

Support supports(const Problem& problem) {
  if (Support support = attention_supports(problem); !support.yes()) return support;
  if (attention_sizes(problem).keys == 0) return refused("no keys");
  for (size_t i : {kQ, kK, kV})
    if (problem.inputs[i].pitch % 8) return refused("rows at no multiple of 16 bytes");
  if (problem.outputs[0].pitch % 8) return refused("rows at no multiple of 16 bytes");
  return supported();
}

// Blocks of more queries read keys and values less often; those of fewer fill the GPU.
std::vector<Config> configs(const Problem& problem, const GpuProperties& gpu) {
  const ops::AttentionSizes s = attention_sizes(problem);
  std::vector<Config> out;
  for (const Tile& tile : kTiles) {
    if (!holds(tile, problem)) continue;
    if (tile.in_turn && !worth_a_turn(problem, tile, gpu)) continue;
    // A tile of as many queries and more keys does with fewer turns.
    const bool narrow = tile.consumers == 2 && tile.keys < 128 && !out.empty();
    // One warpgroup has many keys at a time only where they are all that there are, or nearly so.
    const bool many = tile.consumers == 1 && tile.keys > 64 && s.keys > 2 * tile.keys;
    // A whole warpgroup would have no queries; half of a block of keys would do.
    const bool idle = tile.consumers > 1 && s.queries <= (tile.consumers - 1) * 64 && largest_head(problem) <= 128,
               wide = tile.keys > 64 && s.keys <= tile.keys / 2;
    if (!narrow && !idle && !wide && !many) out.push_back(plain_config(problem, tile.text()));
  }
  return out;
}

const Tile& tile_of(const Problem& problem, std::string_view text) {
  for (const Tile& tile : kTiles)
    if (tile.text() == text && holds(tile, problem)) return tile;
  fail(ErrorKind::bad_file, "an attention has no tile '", text, "'");
}

// Boxes of `rows` rows and a piece of one head, of a tensor [batch, count, heads * size].
Job::Map map_of(const Slot& slot, const Port& port, int64_t heads, int64_t size, int rows) {
  const Dims dims = port.dims(), strides = logical_strides(port, Layout::plain);
  Job::Map map{slot, {}};
  map.spec.element_bytes = 2;
  map.spec.sizes = {uint64_t(size), uint64_t(heads), uint64_t(dims[1]), uint64_t(dims[0])};
  map.spec.strides = {uint64_t(size * 2), uint64_t(strides[1] * 2), uint64_t(strides[0] * 2)};
  map.spec.box = {uint32_t(kPiece), 1, uint32_t(rows), 1};
  map.spec.steps = {1, 1, 1, 1};
  map.spec.swizzle = kPiece * 2;
  return map;
}

Recipe::Work work(const Problem& problem, const Config& config, const GpuProperties& gpu) {
  const ops::AttentionSizes s = attention_sizes(problem);
  const Tile& tile = tile_of(problem, config.text);
  const Heads heads = heads_of(problem);
  Recipe::Work out;
  if (element_count(problem.outputs[0].dims()) == 0) return out;

  Job job;
  job.entry = "attention";
  job.overlap = true;
  std::string arguments;
  add_masks(problem, arguments, job.slots);
  const auto input = [&](size_t i, int64_t count, int64_t size, int rows) {
    job.maps.push_back(map_of({Slot::Kind::input, int(i), 0}, problem.inputs[i], count, size, rows));
  };
  input(kQ, s.heads, s.key_size, 64);
  input(kK, s.kv_heads, s.key_size, tile.keys);
  input(kV, s.kv_heads, s.value_size, tile.keys);
  job.maps.push_back(map_of({Slot::Kind::output, 0, 0}, problem.outputs[0], s.heads, s.value_size, 64));
  const int64_t blocks = blocks_of(problem, tile, gpu), tiles = tiles_of(problem, tile);
  job.source.text =
      concat(attention_constants(problem, tile.keys), macro("ARGUMENTS", arguments),
             int_constants({{"CONSUMERS", tile.consumers},
                            {"STAGES", tile.stages()},
                            {"LEAST_BLOCKS", blocks},
                            {"QUERY_SIZE", heads.query},
                            {"VALUE_SIZE", heads.value},
                            {"QUERY_DEPTH", round_up<int64_t>(s.key_size, 16)},
                            {"VALUE_COLUMNS", columns_of_product(s.value_size)}}),
             bool_constants({{"IN_TURN", tile.in_turn}}), "#include \"backends/cuda/attention/attention_hopper.cu\"\n");
  job.shape.block = {uint32_t(tile.consumers * 128 + (tile.consumers > 1 ? 128 : 32)), 1, 1};
  job.shape.grid = {uint32_t(tile.in_turn ? std::min(tiles, gpu.sms * blocks) : tiles), 1, 1};
  job.shape.shared_bytes = uint32_t(shared_bytes(problem, tile));
  set_attention_parameters(job, problem, tiles_of_head(problem, tile));
  out.jobs.push_back(std::move(job));
  return out;
}

}  // namespace

extern const Recipe attention_hopper_recipe;
const Recipe attention_hopper_recipe{"cuda.attention.hopper", 5, supports, configs, work, "sm_90a",
                                     attention_takes_parts};

}  // namespace temper::cuda
