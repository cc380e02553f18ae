// SPDX-License-Identifier: Apache-2.0
// Every line of tests/cases on every recipe that supports it, with every configuration, on a GPU, against the
// reference.
#include "../case_files.h"
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

}  // namespace
}  // namespace temper
