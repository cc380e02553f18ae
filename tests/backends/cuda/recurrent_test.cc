// SPDX-License-Identifier: Apache-2.0
// Random recurrent nets on the GPU's kernels, one block or a cluster of them, against the reference. On the emulator a
// few small ones; on a GPU as many as TEMPER_RANDOM_SHAPES says, or 100, of up to 700 units.
#include "../recurrent_nets.h"
#include "all_configs.h"
#include "cuda_test_helpers.h"
#include "emulated_gpu.h"
#include "run_recipe.h"

namespace temper {
namespace {

using testing::Draw;

void check(const testing::Net& net, const cuda::Compiler& compiler, const cuda::GpuRef& gpu) {
  const Problem problem = testing::problem_of(net, 1);
  const std::vector<Tensor> want = testing::answer_of(net, problem);
  const cuda::Stream stream(gpu);
  const cuda::GpuProperties properties(gpu->info());
  int runs = 0;
  for (const cuda::Recipe* recipe : cuda::recipes()) {
    if (!recipe_supports(*recipe, problem, gpu->info().architecture()).yes()) continue;
    for (const Config& config : testing::all_configs(*recipe, problem, properties)) {
      SCOPED_TRACE(concat(problem.text(), '\n', recipe->name, ' ', config.text));
      const cuda::Recipe::Work work = recipe->work(problem, config, properties);
      std::vector<cuda::KernelSource> sources;
      for (const cuda::Job& job : work.jobs) sources.push_back(job.source);
      testing::Cubins cubins(compiler, gpu->info().architecture());
      cubins.prepare(sources);
      const std::vector<Tensor> got = testing::run_recipe(stream, cubins, problem, config, work, net.inputs);
      ++runs;
      for (size_t i = 0; i < want.size(); ++i)
        EXPECT_EQ(testing::difference(got[i], want[i], 1e-5, 1e-5), "") << "output " << i;
    }
  }
  EXPECT_GT(runs, 0);
}

TEST(EmulatedRecurrent, GivesTheReferencesResultsForRandomNets) {
  const testing::EmulatedGpu emulated;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw{std::mt19937_64(seed)};
    const int64_t batch = draw(1, 5), hidden = draw(1, 40), steps = draw(0, 5);
    check(testing::random_net(draw, batch, hidden, steps), emulated.compiler(), emulated.gpu());
  }
}

// 200 units and four gates are shared out among the blocks of a cluster.
TEST(EmulatedRecurrent, ClustersShareOutWideNets) {
  const testing::EmulatedGpu emulated;
  for (uint64_t seed : {3, 4, 5}) {
    Draw draw{std::mt19937_64(seed)};
    check(testing::random_net(draw, 2, 200, 3), emulated.compiler(), emulated.gpu());
  }
}

TEST(CudaRecurrent, GivesTheReferencesResultsForRandomNets) {
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  const uint64_t first = testing::first_seed();
  for (uint64_t seed = first; seed < first + uint64_t(testing::shapes_asked_for().value_or(100)); ++seed) {
    SCOPED_TRACE(seed);
    Draw draw{std::mt19937_64(seed)};
    const int64_t batch = draw.chance(30) ? 1 : draw(1, 70), hidden = draw(1, draw.chance(20) ? 700 : 260),
                  steps = draw(0, 20);
    check(testing::random_net(draw, batch, hidden, steps), *compiler, gpu);
  }
}

}  // namespace
}  // namespace temper
