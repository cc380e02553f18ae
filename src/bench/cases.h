// SPDX-License-Identifier: Apache-2.0
// Reads problems from text, one a line (tests/cases/*.cases). The grammar is that of Problem::text():
//   conv(f32[2,3,17,17], f32[8,3,3,3]*) strides=[2,2] pads=[1,1,1,1] dilations=[1,1]
//   reshape(f32[2,6], i64[2]*=[3,4])
//   gather(f32[5,3], i64[4]{0..5}) axis=0
// '*' marks a constant, '+' an input without numbers below zero. '=[...]' gives the elements; of '{0..5}' they are
// integers from 0 up to but not including 5. '_' is an absent input; '#' starts a comment; a line that begins with
// "reference " needs the reference backend today.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "backends/tactic.h"

namespace temper {

struct CaseInput {
  TensorType type;
  bool present = true, constant = false, no_negatives = false;
  Tensor value;               // defined where the line gives the elements
  int64_t low = 0, high = 0;  // low < high: the range of the elements
};

struct KernelCase {
  int line = 0;
  std::string text;
  bool reference_only = false;
  Op op;
  std::vector<CaseInput> inputs;
};

// Throws Error{bad_file} with the number of the line.
std::vector<KernelCase> parse_cases(std::string_view text);

// Values by `seed`: floats are multiples of 1/4 in [-4, 4], so that sums and products of them are exact; integers lie
// in
// [-8, 8] ([0, 15] for unsigned ones). Absent inputs are undefined tensors.
std::vector<Tensor> make_case_inputs(const KernelCase& kernel_case, uint64_t seed);
// `inputs` (of make_case_inputs) must outlive the problem: constants point to them.
Problem make_case_problem(const KernelCase& kernel_case, const std::vector<Tensor>& inputs, int threads);

}  // namespace temper
