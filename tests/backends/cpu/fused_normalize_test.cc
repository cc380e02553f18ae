// SPDX-License-Identifier: Apache-2.0
// Rows that go through normalisation and programs together have the bits of the steps apart.
#include <gtest/gtest.h>

#include "../run_tactic.h"
#include "backends/cpu/cpu.h"
#include "bench/cases.h"

namespace temper {
namespace {

// The first output of the tactic `name` in the plain layout, with inputs of its own or those given.
Tensor run(const std::string& text, std::string_view name, std::vector<Tensor>& inputs) {
  const KernelCase test = parse_cases(text).at(0);
  if (inputs.empty()) inputs = make_case_inputs(test, 1);
  const Problem problem = make_case_problem(test, inputs, 2);
  const Device device = cpu_device();
  for (const Tactic* tactic : find_backend("cpu").tactics()) {
    if (tactic->name != name) continue;
    EXPECT_TRUE(tactic->supports(problem, device).yes());
    for (const Config& config : tactic->configs(problem, device))
      if (config.outputs.at(0) == Layout::plain)
        return testing::run_tactic(*tactic, problem, config, inputs, device).at(0);
  }
  fail(ErrorKind::usage, "no tactic ", name);
}

TEST(FusedNormalize, HasTheBitsOfNormalisationAndProgramApart) {
  for (const std::string shape : {"f32[101,96]", "f32[7,768]", "f32[3,5,40]"}) {
    SCOPED_TRACE(shape);
    const std::string n = shape.substr(shape.rfind(',') + 1), scale = concat("f32[", n.substr(0, n.size() - 1), "]");
    const std::string axis = std::to_string(std::count(shape.begin(), shape.end(), ','));
    const std::string program = "(2) 2=mul.f32(0,1) 3=add.f32(2,1)";
    std::vector<Tensor> inputs;
    const Tensor fused = run(concat("fused_normalize(", shape, ", ", scale, ") prologue=\"(1)\" axes=[", axis,
                                    "] epilogue=\"", program, "\""),
                             "cpu.fused_normalize", inputs);
    std::vector<Tensor> rows{inputs[0]};
    std::vector<Tensor> behind{run(concat("normalize(", shape, ") axes=[", axis, "]"), "cpu.normalize", rows),
                               inputs[1]};
    EXPECT_TRUE(fused.same_bits(
        run(concat("pointwise(", shape, ", ", scale, ") program=\"", program, "\""), "cpu.pointwise", behind)));
  }
}

}  // namespace
}  // namespace temper
