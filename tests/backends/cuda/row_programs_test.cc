// SPDX-License-Identifier: Apache-2.0
// Normalisation and softmax with programs around them, on shapes that are drawn: lengths around powers of two, odd
// ones, one element, few and many rows, dtypes in all pairs, broadcasts of every kind. TEMPER_EMULATED=N takes N shapes
// where there is no GPU, all takes 400.
#include <algorithm>
#include <random>

#include "../../draw.h"
#include "check_cases.h"
#include "emulated_gpu.h"

namespace temper {
namespace {

std::string drawn_lines(int count, uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](int n) { return int(random() % uint32_t(n)); };
  const auto one_of = [&](std::initializer_list<std::string_view> list) {
    return *(list.begin() + below(int(list.size())));
  };
  std::string out;
  for (int i = 0; i < count; ++i) {
    const int power = 1 << below(12), n = std::max(1, below(3) == 0   ? power
                                                      : below(3) == 0 ? power + 1
                                                                      : 1 + below(2500));
    const int rows = 1 + below(below(4) == 0 ? 900 : 9);
    const std::string_view in = one_of({"f16", "bf16", "f32"}), to = one_of({"f16", "bf16", "f32"}),
                           scale = one_of({"f16", "f32"});
    const bool softmax = below(3) == 0, residual = below(4) == 0, image = !softmax && below(3) == 0;
    const int groups = 1 + below(4), channels = groups * (1 + below(12)), height = 1 + below(9), width = 1 + below(9);
    const std::string shape =
        image ? concat(1 + below(3), ',', channels, ',', height, ',', width) : concat(rows, ',', n);
    const std::string row = image ? concat(channels, ",1,1") : below(5) == 0 ? concat(rows, ",1") : concat(n);
    std::string line = concat(softmax ? "fused_softmax(" : "fused_normalize(", in, '[', shape, ']');
    if (residual) line += concat(", ", in, '[', shape, ']');
    line += concat(", ", scale, '[', row, "]) prologue=\"");
    // Sums of 16 bits are rounded to them, or are f32 behind the prologue.
    const std::string rounded = below(2) ? concat(" 5=cast.", in, "(4)") : "";
    if (residual) line += concat("(2) 2=cast.f32(0) 3=cast.f32(1) 4=add.f32(2,3)", rounded, '"');
    else line += "(1)\"";
    line += softmax ? " axis=1" : image ? concat(" axes=[1,2,3] groups=", groups) : " axes=[1]";
    if (!softmax && below(4) == 0) line += " center=false";
    line += concat(" epilogue=\"(2) 2=cast.f32(1) 3=", one_of({"mul", "add"}), ".f32(0,2) 4=cast.", to, "(3)\"");
    if (!softmax && residual && below(2)) line += " gives_input=true";
    out += line + '\n';
  }
  return out;
}

TEST(EmulatedRowPrograms, AgreeWithTheReferenceOnDrawnShapes) {
  const char* asked = std::getenv("TEMPER_EMULATED");
  const int count = !asked ? 4 : std::string(asked) == "all" ? 400 : std::atoi(asked);
  const testing::EmulatedGpu emulated;
  testing::check_lines("drawn rows", drawn_lines(count, 20), emulated.compiler(), emulated.gpu(),
                       {.recipes = "cuda.", .one_config = count < 20});
}

// So many rows that blocks go from one to the next: a warp for each, two warps (with one sum and with two), few
// threads.
constexpr const char* kManyRows =
    "fused_normalize(f16[2300,768], f32[768]*, f32[768]*) prologue=\"(1)\" axes=[1] epilogue=\"(3) 3=mul.f32(0,1) "
    "4=add.f32(3,2) 5=cast.f16(4)\"\n"
    "fused_normalize(bf16[1100,1200], bf16[1100,1200], f32[1200]) prologue=\"(2) 2=cast.f32(0) 3=cast.f32(1) "
    "4=add.f32(2,3) 5=cast.bf16(4)\" axes=[1] epilogue=\"(2) 2=mul.f32(0,1) 3=cast.bf16(2)\" gives_input=true\n"
    "fused_normalize(f16[1300,1200], f16[1200]*) prologue=\"(1)\" axes=[1] center=false epilogue=\"(2) 2=cast.f32(1) "
    "3=mul.f32(0,2) 4=cast.f16(3)\"\n"
    "fused_normalize(f32[1100,772], f16[772]) prologue=\"(2) 2=cast.f32(1) 3=add.f32(0,2)\" axes=[1] epilogue=\"(1) "
    "1=cast.f16(0)\"\n"
    "fused_softmax(f16[16000,128], f32[16000,1]) prologue=\"(1)\" axis=1 epilogue=\"(2) 2=add.f32(0,1) "
    "3=cast.f16(2)\"\n";

TEST(EmulatedRowPrograms, GoFromRowToRow) {
  const testing::EmulatedGpu emulated;
  testing::check_lines("many rows", kManyRows, emulated.compiler(), emulated.gpu(),
                       {.recipes = "cuda.", .one_config = true});
}
TEST(CudaRowPrograms, GoFromRowToRow) {
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  testing::check_lines("many rows", kManyRows, *compiler, gpu, {.recipes = "cuda."});
}

// Lines of which more threads for a row are offered, too, on a GPU of one SM: rows are few for warps with one each
// (residual sums as in BERT, rows that do not end at a vector), or fill the registers of a warp.
constexpr std::string_view kWideRows[] = {
    "fused_normalize(f16[5,1024], f16[5,1024], f32[1024]*, f32[1024]*) prologue=\"(2) 2=cast.f32(0) 3=cast.f32(1) "
    "4=add.f32(2,3)\" axes=[1] epilogue=\"(3) 3=mul.f32(0,1) 4=add.f32(3,2) 5=cast.f16(4)\"\n",
    "fused_normalize(bf16[3,777], f32[777]*) prologue=\"(1)\" axes=[1] epilogue=\"(2) 2=mul.f32(0,1) "
    "3=cast.bf16(2)\"\n",
    "fused_normalize(f32[8,300], f32[8,300]) prologue=\"(2) 2=add.f32(0,1)\" axes=[1] center=false epilogue=\"(1)\" "
    "gives_input=true\n",
    "fused_normalize(f16[20,1024], f16[20,1024], f32[1024]*, f32[1024]*) prologue=\"(2) 2=cast.f32(0) 3=cast.f32(1) "
    "4=add.f32(2,3)\" axes=[1] epilogue=\"(3) 3=mul.f32(0,1) 4=add.f32(3,2) 5=cast.f16(4)\"\n"};
const testing::CaseChoice kWide{.recipes = "cuda.normalize", .with = "wide", .properties = testing::with_sms(1)};
std::string wide_lines() {
  std::string out;
  for (std::string_view line : kWideRows) out += line;
  return out;
}

bool is_wide_offered(std::string_view line, int sms) {
  const auto lines = parse_cases(std::string(line));
  const auto inputs = make_case_inputs(lines[0], 1);
  const auto configs =
      testing::recipe_named("cuda.normalize").configs(make_case_problem(lines[0], inputs, 1), testing::with_sms(sms));
  return std::any_of(configs.begin(), configs.end(), [](const Config& config) { return config.text == "wide"; });
}
TEST(RowPrograms, OfferMoreThreadsForARowWhereRowsAreFewOrFillTheRegisters) {
  for (std::string_view line : kWideRows) EXPECT_TRUE(is_wide_offered(line, 1)) << line;
  EXPECT_FALSE(is_wide_offered(kWideRows[0], 132)) << "they have them unasked";
  EXPECT_FALSE(
      is_wide_offered("fused_normalize(f16[20,768], f32[768]*) prologue=\"(1)\" axes=[1] epilogue=\"(2) "
                      "2=mul.f32(0,1) 3=cast.f16(2)\"\n",
                      1))
      << "each warp has room for what rows have in common";
}

TEST(EmulatedRowPrograms, ShareARowAmongMoreThreads) {
  const testing::EmulatedGpu emulated;
  testing::check_lines("wide rows", wide_lines(), emulated.compiler(), emulated.gpu(), kWide);
}
TEST(CudaRowPrograms, ShareARowAmongMoreThreads) {
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  testing::check_lines("wide rows", wide_lines(), *compiler, gpu, kWide);
}

TEST(CudaRowPrograms, AgreeWithTheReferenceOnDrawnShapes) {
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  testing::check_lines("drawn rows", drawn_lines(400, 21), *compiler, gpu, {.recipes = "cuda."});
}

// Groups of channels, in images of up to so many positions: odd sizes, all dtypes, groups within and across vectors,
// each channel by itself, long rows, with and without what stands around them.
std::string drawn_groups(int count, uint32_t seed, int positions) {
  std::mt19937 random(seed);
  const auto below = [&](int n) { return int(random() % uint32_t(n)); };
  const auto one_of = [&](std::initializer_list<std::string_view> list) {
    return *(list.begin() + below(int(list.size())));
  };
  std::string out;
  for (int i = 0; i < count; ++i) {
    const int groups = 1 + below(below(3) == 0 ? 32 : 5), most = std::max(1, 160 / groups),
              channels = groups * (1 + below(below(2) ? most : std::min(most, 10))), height = 1 + below(positions / 8),
              width = 1 + below(std::max(1, positions / height)), batch = 1 + below(3);
    const std::string_view in = one_of({"f16", "f16", "bf16", "f32", "i8"}), to = one_of({"f16", "bf16", "f32", "i8"}),
                           scale = one_of({"f16", "f32"});
    const bool residual = in != "i8" && channels / groups * height * width <= 24000 && below(4) == 0;
    const int form = below(6);  // 0: each channel by itself, 1: a long row
    const std::string shape = form == 1 ? concat(batch, ',', channels * height * width)
                                        : concat(batch, ',', channels, ',', height, ',', width);
    std::string line = concat("fused_normalize(", in, '[', shape, in == "i8" ? "]{-128..128}" : "]");
    if (residual) line += concat(", ", in, '[', shape, ']');
    line += concat(", ", scale, '[', form == 1 ? concat(channels * height * width) : concat(channels, ",1,1"),
                   "]*) prologue=\"");
    if (in == "i8") line += "(1) 1=cast.f32(0) 2=constant.f32[0.031] 3=mul.f32(1,2)\"";
    else if (residual) line += concat("(2) 2=cast.f32(0) 3=cast.f32(1) 4=add.f32(2,3) 5=cast.", in, "(4)\"");
    else line += "(1)\"";
    line += form == 0 ? " axes=[2,3]" : form == 1 ? " axes=[1]" : concat(" axes=[1,2,3] groups=", groups);
    if (below(5) == 0) line += " center=false";
    line += concat(" epilogue=\"(2) 2=cast.f32(1) 3=mul.f32(0,2) 4=sigmoid.f32(3) 5=mul.f32(3,4) ",
                   to == "i8" ? "6=constant.f32[31.7] 7=mul.f32(5,6) 8=round.f32(7) 9=cast.i8(8)\""
                              : concat("6=cast.", to, "(5)\""));
    if (residual && below(2)) line += " gives_input=true";
    out += line + '\n';
  }
  return out;
}

// GPUs on which other forms are chosen: clusters, those that hold a part, one block of a GPU without clusters; and a
// text for clusters that is compiled for such a GPU.
struct OfGpu {
  int capability;
  cuda::GpuProperties properties;
};
const OfGpu kGroupGpus[] = {
    {90, testing::kH100},
    {90, cuda::GpuProperties({.major = 9, .minor = 0, .sms = 4, .l2_bytes = 50 << 20, .shared_per_block = 24 << 10})},
    {80, cuda::GpuProperties({.major = 8, .minor = 0, .sms = 8, .l2_bytes = 50 << 20, .shared_per_block = 48 << 10})},
    {80, testing::kH100}};

TEST(EmulatedRowPrograms, NormaliseDrawnGroups) {
  const char* asked = std::getenv("TEMPER_EMULATED");
  const int count = !asked ? 2 : std::string(asked) == "all" ? 100 : std::atoi(asked);
  uint32_t seed = 30;
  for (const OfGpu& of : kGroupGpus) {
    const testing::EmulatedGpu emulated(of.capability);
    testing::check_lines("drawn groups", drawn_groups(count, seed++, 600), emulated.compiler(), emulated.gpu(),
                         {.recipes = "cuda.normalize", .one_config = count < 20, .properties = of.properties});
  }
}
TEST(CudaRowPrograms, NormaliseDrawnGroups) {
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  testing::check_lines("drawn groups",
                       drawn_groups(testing::shapes_asked_for().value_or(60), uint32_t(testing::first_seed()), 20000),
                       *compiler, gpu, {.recipes = "cuda.normalize"});
}

// All lines of fused.cases that are of rows: TEMPER_EMULATED=N takes N kernels.
TEST(EmulatedRowPrograms, AgreeWithTheReferenceOnTheirCases) {
  const char* asked = std::getenv("TEMPER_EMULATED");
  const size_t most = !asked ? 4 : std::string(asked) == "all" ? SIZE_MAX : size_t(std::atoi(asked));
  const testing::EmulatedGpu emulated;
  const std::string all = read_file(concat(paths::source_folder(), "/tests/cases/fused.cases"));
  std::string lines;
  for (size_t at = 0, end; (end = all.find('\n', at)) != std::string::npos; at = end + 1)
    if (const std::string line = all.substr(at, end + 1 - at);
        line.starts_with("reference fused_normalize") || line.starts_with("reference fused_softmax"))
      lines += line;
  testing::check_lines("rows", lines, emulated.compiler(), emulated.gpu(), {.most = most});
}

}  // namespace
}  // namespace temper
