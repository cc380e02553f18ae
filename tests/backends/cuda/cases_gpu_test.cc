// SPDX-License-Identifier: Apache-2.0
// Every line of tests/cases on every recipe that supports it, with every configuration, on a GPU, against the
// reference.
#include "../../draw.h"
#include "backends/cuda/gemm/gemm.h"
#include "check_cases.h"
#include "random_blocks.h"

namespace temper {
namespace {

using testing::case_files;
using testing::Tolerance;
using testing::tolerance_of;

class CudaCases : public ::testing::TestWithParam<std::string> {};

TEST_P(CudaCases, AgreeWithTheReferenceOnEveryRecipe) {
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  testing::check_cases(GetParam(), *compiler, gpu);
}

INSTANTIATE_TEST_SUITE_P(Files, CudaCases, ::testing::ValuesIn(case_files()),
                         [](const auto& each) { return each.param; });

TEST(CudaMatmulRows, ReadWeightsInBlocksOfRandomShapes) {
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  testing::check_lines("random", testing::random_blocked_products(testing::shapes_asked_for().value_or(12)), *compiler,
                       gpu, {.recipes = "cuda.matmul.rows", .one_config = true});
}

// For every tile, also those that would not be chosen for such sizes.
const char* const kProducts[] = {
    "matmul(f16[300,1000], f16[1000,528]*, f32[528]*) epilogue=\"(2) 2=add.f32(0,1) 3=relu.f32(2) 4=cast.f16(3)\"",
    "matmul(bf16[300,1000], bf16[1000,520]*) epilogue=\"(1)\"",
    "matmul(u8[300,2000]{0..256}, i8[2000,530]*{-128..128}) epilogue=\"(1)\"",
    "matmul(f32[300,300], f32[300,300]*) epilogue=\"(1)\"",
    "conv(f16[3,64,13,13], f16[328,64,3,3]*, f32[328,1,1]*, f16[3,328,13,13]) strides=[1,1] pads=[1,1,1,1] "
    "dilations=[1,1] epilogue=\"(3) 3=add.f32(0,1) 4=cast.f32(2) 5=add.f32(3,4) 6=relu.f32(5) 7=cast.f16(6)\"",
    "conv(i8[3,192,13,13]{-128..128}, i8[320,192,3,3]*{-128..128}, f32[320,1,1]*{-5000..5000}) strides=[2,2] "
    "pads=[1,1,1,1] dilations=[1,1] epilogue=\"(2) 2=cast.f32(0) 3=add.f32(2,1) 4=constant.f32[0.00031] "
    "5=mul.f32(3,4) 6=round.f32(5) 7=cast.i8(6)\"",
};

TEST(CudaGemm, EveryTileGivesTheReferencesResult) {
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  const cuda::Stream stream(gpu);
  std::string lines;
  for (const char* problem : kProducts) lines += concat(problem, '\n');
  for (const KernelCase& line : parse_cases(lines)) {
    const std::vector<Tensor> inputs = make_case_inputs(line, 1);
    const Problem problem = make_case_problem(line, inputs, 1);
    const std::vector<TensorType> types{problem.outputs[0].type};
    const Tensor want = reference(line.op, inputs, types).at(0);
    const cuda::Recipe* recipe = nullptr;
    for (const cuda::Recipe* candidate : cuda::recipes())
      if (candidate->name == "cuda.matmul.mma" || candidate->name == "cuda.conv.gemm")
        if (candidate->supports(problem).yes()) recipe = candidate;
    ASSERT_NE(recipe, nullptr);
    const cuda::GpuProperties properties(gpu->info());
    Config config = recipe->configs(problem, properties).at(0);
    cuda::GemmShape shape{problem.inputs[0].type.dtype, problem.inputs[1].type.dtype, 300, 320, 1 << 20};
    const auto tiles = cuda::gemm_tiles(shape, 1000, properties);
    EXPECT_GT(tiles.size(), 4u);
    std::vector<cuda::Recipe::Work> works;
    std::vector<cuda::KernelSource> sources;
    for (const std::string& tile : tiles) {
      config.text = tile;
      works.push_back(recipe->work(problem, config, properties));
      sources.push_back(works.back().jobs.at(0).source);
    }
    testing::Cubins cubins(*compiler, gpu->info().architecture());
    cubins.prepare(sources);
    for (size_t i = 0; i < tiles.size(); ++i) {
      SCOPED_TRACE(concat(line.text, ' ', tiles[i]));
      const Tensor got = testing::run_recipe(stream, cubins, problem, config, works[i], inputs).at(0);
      const Tolerance t = tolerance_of(want.dtype());
      EXPECT_EQ(testing::difference(got, want, t.relative, t.absolute), "");
    }
  }
}

}  // namespace
}  // namespace temper
