// SPDX-License-Identifier: Apache-2.0
// Lines of tests/cases on every configuration that a tactic has for them.
#pragma once
#include <algorithm>

#include "lowered_cases.h"
#include "run_cuda_tactic.h"

namespace temper::testing {

struct Counts {
  int lines = 0, runs = 0;
};

// Compares with the reference, within the tolerance of the result's dtype or `of_largest` times the largest number of
// it; counts the line, unless the tactic refuses it, and its runs. `original` is the line as it stands in the file.
inline void expect_agreement(const Tactic& tactic, const Device& device, const KernelCase& original,
                             const KernelCase& line, double of_largest, Counts& counts) {
  const std::vector<Tensor> inputs = make_case_inputs(line, uint64_t(original.line));
  const Problem problem = make_case_problem(line, inputs, 1);
  SCOPED_TRACE(concat("line ", original.line, ": ", line.text));
  if (const Support support = tactic.supports(problem, device); !support.yes()) {
    std::printf("  %d refused: %s\n", original.line, support.reason.c_str());
    return;
  }
  ++counts.lines;
  std::vector<TensorType> types;
  for (const Port& port : problem.outputs) types.push_back(port.type);
  const std::vector<Tensor> want = reference(line.op, inputs, types);
  const auto configs = tactic.configs(problem, device);
  EXPECT_FALSE(configs.empty());
  for (const Config& config : configs) {
    SCOPED_TRACE(config.text);
    const auto got = run_cuda_tactic(tactic, problem, config, inputs, device);
    ASSERT_EQ(got.size(), 1u);
    Tolerance t = tolerance_of(want[0].dtype());
    t.absolute = std::max(t.absolute, of_largest * largest(want[0]));
    EXPECT_EQ(difference(got[0], want[0], t.relative, t.absolute), "");
    ++counts.runs;
  }
}

inline void expect_runs(const Counts& counts, DType dtype) {
  std::printf("%s: %d lines, %d runs\n", std::string(name_of(dtype)).c_str(), counts.lines, counts.runs);
  EXPECT_GT(counts.runs, 0);
}

}  // namespace temper::testing
