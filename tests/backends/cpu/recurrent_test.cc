// SPDX-License-Identifier: Apache-2.0
// Random recurrent nets against the reference: whole batches and one thread or several, which share out batches,
// directions or the units of a step.
#include <gtest/gtest.h>

#include "../recurrent_nets.h"
#include "../run_tactic.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"

namespace temper {

extern const Tactic cpu_recurrent;

namespace {

using testing::Draw, testing::random_net;

void check(const testing::Net& net, int threads) {
  const Problem problem = testing::problem_of(net, threads);
  const std::vector<Tensor> want = testing::answer_of(net, problem);
  for (Isa isa : {Isa::base, Isa::avx2, Isa::avx512}) {
    if (isa > best_isa()) continue;
    set_isa(isa);
    const Device device = cpu_device();
    ASSERT_EQ(cpu_recurrent.supports(problem, device).reason, "");
    const auto got =
        testing::run_tactic(cpu_recurrent, problem, cpu_recurrent.configs(problem, device).at(0), net.inputs, device);
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_EQ(testing::difference(got[i], want[i], 1e-5, 1e-5), "") << problem.text() << " isa " << int(isa);
  }
  set_isa(best_isa());
}

TEST(CpuRecurrent, GivesTheReferencesResultsForRandomNets) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw{std::mt19937_64(seed)};
    const int64_t batch = draw.chance(30) ? 1 : draw(1, 40), hidden = draw(1, 70), steps = draw(0, 12);
    check(random_net(draw, batch, hidden, steps), int(draw(1, 3)));
  }
}

TEST(CpuRecurrent, ThreadsShareTheUnitsOfAStepWhereThereIsOneSequence) {
  Draw draw{std::mt19937_64(7)};
  for (int i = 0; i < 6; ++i) check(random_net(draw, 1, 800, 4), 2);
}

}  // namespace
}  // namespace temper
