// SPDX-License-Identifier: Apache-2.0
// --isa and TEMPER_ISA: one machine stands in for older ones.
#include "backends/cpu/isa.h"

#include <gtest/gtest.h>

#include "../paths.h"
#include "program.h"

namespace temper {
namespace {

TEST(Isa, APlanRunsUnderTheLimitThatItWasBuiltWith) {
  if (best_isa() == Isa::base) GTEST_SKIP() << "this CPU has nothing that could be left out";
  const std::string folder = test_folder();
  const std::string model = concat(paths::source_folder(), "/models/digits_cnn.onnx");
  const Outcome built = temper(folder, concat("build '", model, "' -o limited.plan --no-measure --isa base"));
  ASSERT_EQ(built.code, 0) << built.err;
  const std::string bench = "bench limited.plan --iterations 2 --warmup 1";
  EXPECT_EQ(temper(folder, concat(bench, " --isa base")).code, 0);
  const Outcome without = temper(folder, bench);
  EXPECT_NE(without.code, 0);
  EXPECT_CONTAINS(without.err, "at most base");
}

TEST(Isa, AnUnknownLimitIsRefusedWithTheOnesThereAre) {
  const std::string folder = test_folder();
  const Outcome outcome = temper(folder, "build m.onnx -o p.plan --isa avx1024");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_CONTAINS(outcome.err, "avx1024");
  for (const std::string_view name : enum_names(IsaLevel{})) EXPECT_CONTAINS(outcome.err, std::string(name));
}

}  // namespace
}  // namespace temper
