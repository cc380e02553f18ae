// SPDX-License-Identifier: Apache-2.0
// Every line of tests/cases on every recipe that supports it, with every configuration, on a GPU, against the
// reference.
#include "../case_files.h"
#include "backends/cuda/matmul/gemm.h"
#include "base/file.h"
#include "bench/cases.h"
#include "run_recipe.h"

namespace temper {
namespace {

using testing::case_files;
using testing::Tolerance;
using testing::tolerance_of;

class CudaCases : public ::testing::TestWithParam<std::string> {};

TEST_P(CudaCases, AgreeWithTheReferenceOnEveryRecipe) {
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  struct Run {
    const KernelCase* line;
    const std::vector<Tensor>* inputs;
    Problem problem;
    const cuda::Recipe* recipe;
    Config config;
    cuda::Recipe::Work work;
  };
  const auto lines = parse_cases(read_file(concat(TEMPER_SOURCE_DIR, "/tests/cases/", GetParam(), ".cases")));
  std::vector<std::vector<Tensor>> inputs;
  for (const KernelCase& line : lines) inputs.push_back(make_case_inputs(line, uint64_t(line.line)));
  std::vector<Run> runs;
  std::vector<cuda::KernelSource> sources;
  for (size_t l = 0; l < lines.size(); ++l) {
    const Problem problem = make_case_problem(lines[l], inputs[l], 1);
    for (const cuda::Recipe* recipe : cuda::recipes()) {
      if (!recipe->supports(problem).yes()) continue;
      const auto configs = recipe->configs(problem);
      EXPECT_FALSE(configs.empty()) << recipe->name << " supports it but offers nothing: " << lines[l].text;
      for (const Config& config : configs) {
        runs.push_back({&lines[l], &inputs[l], problem, recipe, config, recipe->work(problem, config)});
        for (const cuda::Job& job : runs.back().work.jobs) sources.push_back(job.source);
      }
    }
  }
  testing::Cubins cubins(*compiler, gpu->info().architecture());
  cubins.prepare(sources);
  if (HasFailure()) return;
  const cuda::Stream stream(gpu);
  const KernelCase* last = nullptr;
  std::vector<Tensor> want;
  for (const Run& run : runs) {
    SCOPED_TRACE(concat(GetParam(), ".cases:", run.line->line, ": ", run.line->text, "\n", run.recipe->name, " '",
                        run.config.text, "' ", name_of(run.config.outputs[0])));
    if (run.line != last) {
      std::vector<TensorType> types;
      for (const Port& port : run.problem.outputs) types.push_back(port.type);
      want = reference(run.line->op, *run.inputs, types);
      last = run.line;
    }
    const std::vector<Tensor> got = testing::run_recipe(stream, cubins, run.problem, run.config, run.work, *run.inputs);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      const Tolerance t = tolerance_of(want[i].dtype());
      EXPECT_EQ(testing::difference(got[i], want[i], t.relative, t.absolute), "") << "output " << i;
    }
  }
  std::printf("%s: %zu lines, %zu runs\n", GetParam().c_str(), lines.size(), runs.size());
}

INSTANTIATE_TEST_SUITE_P(Files, CudaCases, ::testing::ValuesIn(case_files()),
                         [](const auto& info) { return info.param; });

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
    Config config = recipe->configs(problem).at(0);
    cuda::GemmShape shape{problem.inputs[0].type.dtype, problem.inputs[1].type.dtype, 300, 320, 1 << 20};
    const auto tiles = cuda::gemm_tiles(shape, 1000);
    EXPECT_GT(tiles.size(), 4u);
    std::vector<cuda::Recipe::Work> works;
    std::vector<cuda::KernelSource> sources;
    for (const std::string& tile : tiles) {
      config.text = tile;
      works.push_back(recipe->work(problem, config));
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
