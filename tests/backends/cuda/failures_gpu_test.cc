// SPDX-License-Identifier: Apache-2.0
// Calls of a real driver that fail one after the other, while plans are built, loaded and run.
#include "../../plan/helpers.h"
#include "optimize/build_engine.h"
#include "run_cuda_tactic.h"

namespace temper {
namespace {

using cuda::planned_failures;

std::shared_ptr<Engine> build() {
  BuildOptions options;
  options.device = "cuda:0";
  options.device_settings = {testing::cuda_search().folders};
  options.precision = "fp16";
  options.measure = false;
  return build_engine(small_graph("2"), info_of("cuda:0"), options);
}

// Plans the n-th call of each kind to fail, with growing steps until it is not reached any more.
void fail_many(const std::function<void()>& work) {
  work();
  for (auto* countdown : {&planned_failures().allocate, &planned_failures().launch, &planned_failures().other}) {
    int failed = 0;
    for (int64_t n = 1;; n += 1 + n / 6) {
      countdown->store(n);
      bool threw = false;
      try {
        work();
      } catch (const Error& error) {
        threw = true;
        EXPECT_EQ(error.kind(), ErrorKind::machine) << error.what();
      }
      const bool reached = countdown->exchange(0) <= 0;
      EXPECT_EQ(threw, reached) << "call " << n;
      ASSERT_LT(n, 100000);
      if (!reached) break;
      ++failed;
    }
    std::printf("  %d calls failed\n", failed);
  }
  EXPECT_NO_THROW(work());
}

TEST(CudaEngineFailures, WhileAPlanIsBuilt) {
  TEMPER_NEEDS_MACHINE(machine);
  TEMPER_NEEDS_NVRTC(compiler);
  fail_many([] { build(); });
}

TEST(CudaEngineFailures, WhileAPlanIsLoadedAndRuns) {
  TEMPER_NEEDS_MACHINE(machine);
  TEMPER_NEEDS_NVRTC(compiler);
  const Tensor file = file_bytes(*build());
  const std::vector<Tensor> inputs{noise({2, 3, 8, 8}, 4)};
  std::vector<Tensor> want;
  const int64_t before = machine->gpu()->memory().free;
  fail_many([&] {
    const auto engine =
        std::make_shared<const Engine>(read_plan(file.raw(), nullptr, {.settings = {testing::cuda_search().folders}}));
    Session session(engine);
    session.run(inputs);
    const std::vector<Tensor> got = session.run(inputs);
    if (want.empty()) want = got;
    EXPECT_TRUE(got[0].same_bits(want[0]));
  });
  // Libraries keep some memory once they have run.
  EXPECT_GT(machine->gpu()->memory().free, before - (int64_t(256) << 20));
}

TEST(CudaEngineFailures, ASessionAnswersAgain) {
  TEMPER_NEEDS_MACHINE(machine);
  TEMPER_NEEDS_NVRTC(compiler);
  const auto engine = build();
  const std::vector<Tensor> inputs{noise({2, 3, 8, 8}, 4)};
  Session session(engine);
  const Tensor want = session.run(inputs)[0];
  for (auto* countdown : {&planned_failures().launch, &planned_failures().other})
    for (int64_t n = 1; n < 10; ++n) {
      countdown->store(n);
      try {
        session.run(inputs);
      } catch (const Error& error) { EXPECT_EQ(error.kind(), ErrorKind::machine); }
      countdown->store(0);
      EXPECT_TRUE(session.run(inputs)[0].same_bits(want)) << n;
    }
}

}  // namespace
}  // namespace temper
