// SPDX-License-Identifier: Apache-2.0
// Lines of tests/cases as the passes of lower precisions would leave them.
#pragma once
#include "bench/cases.h"
#include "graph/op.h"

namespace temper::testing {

inline double largest(const Tensor& tensor) {
  double out = 0;
  for (double value : tensor.to_doubles()) out = std::max(out, value < 0 ? -value : value);
  return out;
}

inline std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// The case in halves, with the epilogue as a pass would leave it: in f32, but for what is read and what is written.
inline KernelCase lowered(const KernelCase& original, DType dtype) {
  if (dtype == DType::f32) return original;
  const size_t at = original.text.find(" epilogue=");
  KernelCase line =
      parse_cases(replaced(original.text.substr(0, at), "f32[", concat(name_of(dtype), '[')) + " epilogue=\"(1)\"")
          .at(0);
  const Program& before = *epilogue_of(original.op);
  Program& program = *epilogue_of(line.op);
  program.inputs = before.inputs;
  std::vector<int> map;
  for (int i = 0; i < before.inputs; ++i)
    map.push_back(i == 0 ? 0 : program.push({Scalar::cast, DType::f32, {i, -1, -1}}));
  for (Step step : before.steps) {
    for (int a = 0; a < arity_of(step.op); ++a) step.args[size_t(a)] = map[size_t(step.args[size_t(a)])];
    map.push_back(program.push(step));
  }
  program.push({Scalar::cast, dtype, {map[size_t(before.result())], -1, -1}});
  return line;
}

}  // namespace temper::testing
