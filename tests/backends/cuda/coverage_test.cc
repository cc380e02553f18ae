// SPDX-License-Identifier: Apache-2.0
// Which ops have kernels for GPUs: what docs/limits.md says is what the recipes say.
#include <gtest/gtest.h>

#include <set>

#include "../../paths.h"
#include "../case_files.h"
#include "backends/cuda/recipe.h"
#include "base/file.h"
#include "bench/cases.h"
#include "graph/op.h"
#include "largest_outputs.h"

namespace temper {
namespace {

// The words in backquotes in the first column of the table behind `heading`.
std::set<std::string> listed_in(std::string_view document, std::string_view heading) {
  std::set<std::string> out;
  const size_t at = document.find(heading);
  if (at == document.npos) return out;
  std::string_view rest = document.substr(document.find("\n|", at) + 1);
  while (rest.starts_with('|')) {
    const std::string_view row = rest.substr(0, rest.find('\n'));
    std::string_view column = row.substr(1, row.find('|', 1) - 1);
    for (size_t open; (open = column.find('`')) != column.npos;) {
      const size_t close = column.find('`', open + 1);
      out.emplace(column.substr(open + 1, close - open - 1));
      column.remove_prefix(close + 1);
    }
    rest.remove_prefix(std::min(rest.size(), row.size() + 1));
  }
  return out;
}

// An op has a kernel where some line of tests/cases is of it and some recipe takes that line.
TEST(CudaCoverage, EachOpHasAKernelOrStandsInTheListOfThoseThatHaveNone) {
  const std::set<std::string> without =
      listed_in(read_file(concat(paths::source_folder(), "/docs/limits.md")), "## What GPUs leave to the CPU");
  EXPECT_GE(without.size(), 3u) << "the list is not where this test looks for it";
  std::set<std::string> with;
  for (const std::string& file : testing::case_files())
    for (const KernelCase& line :
         parse_cases(read_file(concat(paths::source_folder(), "/tests/cases/", file, ".cases")))) {
      const std::string name(name_of(line.op));
      if (with.contains(name)) continue;
      const std::vector<Tensor> inputs = make_case_inputs(line, 1);
      const Problem problem = testing::with_largest_outputs(make_case_problem(line, inputs, 1));
      for (const cuda::Recipe* recipe : cuda::recipes())
        if (recipe->supports(problem).yes()) with.insert(name);
    }
  std::set<std::string> ops;
  for (const Op& op : all_ops()) ops.emplace(name_of(op));
  for (const std::string& op : ops)
    EXPECT_NE(with.contains(op), without.contains(op))
        << op
        << (with.contains(op) ? " has a kernel now: take it from the list" : " has neither a kernel nor a reason");
  for (const std::string& op : without) EXPECT_TRUE(ops.contains(op)) << "there is no op " << op;
}

}  // namespace
}  // namespace temper
