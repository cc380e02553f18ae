// SPDX-License-Identifier: Apache-2.0
// Random attentions of halves on the GPU's kernel. On the emulator a few; on a GPU 60 with every configuration, or as
// many as TEMPER_RANDOM_SHAPES says with one of them each, eight of a form, which have their kernels in common.
#include <algorithm>

#include "../attention_lines.h"
#include "check_cases.h"
#include "cuda_test_helpers.h"
#include "emulated_gpu.h"
#include "gpu_properties.h"

namespace temper {
namespace {

using testing::Draw;

// A line of tests/cases with at most so many queries and keys, and heads of at most 8 * `units` elements. `alike`
// neighbouring seeds differ in their numbers of sequences, heads, queries and keys, and in lengths.
std::string random_line(uint64_t seed, int64_t largest, int64_t units, uint64_t alike) {
  Draw draw{std::mt19937_64(seed / alike)}, sizes{std::mt19937_64(seed + (uint64_t(1) << 32))};
  const std::string half = draw.chance(60) ? "f16" : "bf16";
  const int64_t shared = draw.chance(30) ? draw(2, 4) : 1, query_size = 8 * draw(1, units),
                value_size = draw.chance(70) ? query_size : 8 * draw(1, units);
  const bool one_query = draw.chance(15);
  const int64_t batch = sizes(1, 3), kv_heads = sizes(1, 3), heads = kv_heads * shared,
                queries = one_query ? 1 : sizes(1, largest), keys = sizes.chance(40) ? queries : sizes(1, largest);
  std::string line =
      concat("attention(", half, '[', batch, ',', queries, ',', heads * query_size, "], ", half, '[', batch, ',', keys,
             ',', kv_heads * query_size, "], ", half, '[', batch, ',', keys, ',', kv_heads * value_size, ']');
  const testing::DrawnMasks masks = testing::draw_masks(draw, {"f32", "f16", "bool"}, batch, heads, queries, keys);
  line += masks.text;
  bool none = masks.of_bool || masks.lengths;  // a query may have no keys
  line += concat(") heads=", heads, " kv_heads=", kv_heads, " scale=", draw.chance(80) ? "0.125" : "1");
  if (draw.chance(25)) line += concat(" left=", draw(0, largest / 2)), none = true;
  if (draw.chance(40)) line += concat(" right=", draw.chance(70) ? 0 : draw(0, largest / 2));
  if (draw.chance(50)) line += " from_end=true", none = true;
  if (draw.chance(20)) line += " softcap=3";
  if (none && draw.chance(50)) line += " zero_nan=true";
  return line;
}

std::string random_lines(uint64_t seed, int count, int64_t largest, int64_t units, uint64_t alike) {
  std::string text;
  for (int i = 0; i < count; ++i) text += random_line(seed + uint64_t(i), largest, units, alike) + "\n";
  return text;
}

TEST(EmulatedAttention, GivesTheReferencesResultsForRandomShapes) {
  const testing::EmulatedGpu emulated;
  testing::check_lines("random", random_lines(1, testing::shapes_asked_for().value_or(12), 150, 12, 1),
                       emulated.compiler(), emulated.gpu(), {.recipes = "attention", .one_config = true});
}

// All configurations of three forms; the largest heads, whose queries do not stay in registers; a negative scale.
TEST(EmulatedAttention, EveryTileGivesTheSame) {
  const testing::EmulatedGpu emulated;
  testing::check_lines("tiles",
                       "attention(f16[1,70,64], f16[1,130,64], f16[1,130,64]) scale=0.25 right=5 from_end=true\n"
                       "attention(bf16[1,140,64], bf16[1,70,64], bf16[1,70,64]) scale=-0.25\n"
                       "attention(f16[1,33,256], f16[1,70,256], f16[1,70,256]) scale=0.0625\n",
                       emulated.compiler(), emulated.gpu(), {.recipes = "attention"});
}

// On a GPU queries that were still on their way had come down on results.
TEST(EmulatedAttention, TilesThatSeeNoKeyAreWhatTheReferenceSays) {
  const testing::EmulatedGpu emulated;
  testing::check_lines(
      "blind tiles",
      "attention(f16[1,300,144], f16[1,9,144], f16[1,9,144]) heads=3 kv_heads=3 right=0 from_end=true zero_nan=true\n"
      "attention(bf16[2,195,48], bf16[2,195,48], bf16[2,195,48], _, i64[2]=[24,190]) right=0 from_end=true\n",
      emulated.compiler(), emulated.gpu(), {.recipes = "attention"});
}

// On a GPU of one SM each block has several tiles: of sequences that begin within one, with masks and lengths, and of
// queries that see no key at all.
constexpr const char* kInTurn =
    "attention(f16[2,140,128], f16[2,140,64], f16[2,140,64]) heads=4 kv_heads=2 scale=0.25\n"
    "attention(f16[3,128,96], f16[3,128,96], f16[3,128,96], f32[3,1,1,128]) heads=2 kv_heads=2 scale=0.125\n"
    "attention(bf16[2,195,96], bf16[2,195,96], bf16[2,195,96], _, i64[2]=[24,190]) heads=2 kv_heads=2 right=0 "
    "from_end=true\n"
    "attention(f16[1,300,144], f16[1,9,144], f16[1,9,144]) heads=3 kv_heads=3 right=0 from_end=true zero_nan=true\n"
    "attention(f16[2,70,128], f16[2,260,128], f16[2,260,64], bool[70,260]) heads=4 kv_heads=4 left=90 softcap=3\n";

TEST(EmulatedAttention, BlocksThatTakeTilesInTurnGiveTheSame) {
  const testing::EmulatedGpu emulated;
  testing::check_lines("in turn", kInTurn, emulated.compiler(), emulated.gpu(),
                       {.recipes = "attention.hopper",
                        .with = "in turn",
                        .properties = testing::with_sms(1, cuda::GpuProperties(emulated.gpu()->info()))});
}

// What rounding makes of the largest score of such a row is no exponent: the weights had been infinite.
TEST(EmulatedAttention, MasksOfLargeNumbersLeaveWeightsFinite) {
  const testing::EmulatedGpu emulated;
  testing::check_lines(
      "large masks",
      "attention(bf16[1,2,8], bf16[1,3,8], bf16[1,3,8], f32[2,3]=[-1e30,-3.4e38,-1e30,-3.4e38,-3.4e38,-3.4e38]) "
      "scale=0.25\n"
      "attention(f16[1,1,8], f16[1,130,8], f16[1,130,8], f32[1,1]=[-1e30]) scale=0.25\n",
      emulated.compiler(), emulated.gpu(), {.recipes = "attention"});
}

TEST(CudaAttention, GivesTheReferencesResultsForRandomShapes) {
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  const auto asked = testing::shapes_asked_for();
  const size_t alike = asked ? 8 : 1;
  testing::check_lines("random", random_lines(testing::first_seed(), asked.value_or(60), 400, 32, alike), *compiler,
                       gpu, {.recipes = "attention", .one_config = asked.has_value(), .alike = alike});
}

TEST(CudaAttention, BlocksThatTakeTilesInTurnGiveTheSame) {
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  const int asked = testing::shapes_asked_for().value_or(20);
  testing::check_lines("in turn", kInTurn + random_lines(testing::first_seed(), asked, 400, 8, 8), *compiler, gpu,
                       {.recipes = "attention.hopper",
                        .with = "in turn",
                        .properties = testing::with_sms(1, cuda::GpuProperties(gpu->info()))});
}

}  // namespace
}  // namespace temper
