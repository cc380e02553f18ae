// SPDX-License-Identifier: Apache-2.0
// Products of bf16 where the CPU has no tiles: the rest of the tests runs on those where there are any.
#include <gtest/gtest.h>

#include "../../paths.h"
#include "../case_files.h"
#include "../run_tactic.h"
#include "backends/cpu/cpu.h"
#include "base/file.h"
#include "bench/cases.h"

namespace temper {
namespace {

TEST(Bf16, ProductsByPairsGiveTheReferencesResults) {
  Device device = cpu_device();
  if (!device.avx512_bf16) GTEST_SKIP() << "this CPU does not multiply bf16";
  device.amx = false;
  int checked = 0;
  for (const char* file : {"matmul", "attention"})
    for (const KernelCase& line :
         parse_cases(read_file(concat(paths::source_folder(), "/tests/cases/", file, ".cases")))) {
      SCOPED_TRACE(concat(file, ".cases:", line.line, ": ", line.text));
      const std::vector<Tensor> inputs = make_case_inputs(line, uint64_t(line.line));
      const Problem problem = make_case_problem(line, inputs, 2);
      const Tactic& tactic = *find_tactic(concat("cpu.", file, ".bf16"));
      if (!tactic.supports(problem, device).yes()) continue;
      const std::vector<TensorType> types{problem.outputs[0].type};
      const Tensor want = reference(line.op, inputs, types).at(0);
      const Config config = tactic.configs(problem, device).at(0);
      const Tensor got = testing::run_tactic(tactic, problem, config, inputs, device).at(0);
      const testing::Tolerance t = testing::tolerance_of(want.dtype());
      EXPECT_EQ(testing::difference(got, want, t.relative, t.absolute), "");
      ++checked;
    }
  EXPECT_GT(checked, 10);
}

}  // namespace
}  // namespace temper
