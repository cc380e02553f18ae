// SPDX-License-Identifier: Apache-2.0
// The tests that ONNX ships (node, simple, pytorch-operator, pytorch-converted, light) and how one of them is judged.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "graph/tensor.h"
#include "onnx/import.h"

namespace temper::conformance {

struct Case {
  std::string name;    // "test_abs"
  std::string model;   // path of the .onnx file
  std::string folder;  // holds test_data_set_*; empty for the light models, whose input is a formula
  double rtol = 1e-3, atol = 1e-7;
};

// All cases of a suite below `root` (…/data), sorted by name. Throws Error{usage} for a suite that is not there.
std::vector<Case> list_cases(const std::string& root, const std::string& suite);

enum class Outcome { pass, wrong, refused, crashed };
constexpr std::array<std::string_view, 4> outcome_names = {"pass", "wrong", "refused", "crashed"};

struct Ran {
  std::vector<Tensor> outputs;       // in graph order
  std::vector<std::string> names;    // of these
  std::vector<std::string> on_host;  // ops that ran beside the device, for want of a kernel or of sizes
};

struct Verdict {
  Outcome outcome = Outcome::crashed;
  std::string message;  // of a pass: the ops that ran on the host, with commas
};

// How a way to run models looks to the judge: (model path, how it is imported, inputs in graph order). A sequence is
// its elements; the options say their shapes. It throws Error{unsupported} to refuse; every other exception counts as
// crashed.
using Runner =
    std::function<Ran(const std::string& model, const ImportOptions& options, const std::vector<Tensor>& inputs)>;

// Runs every data set of the case and compares by ONNX's own rule: shape and dtype equal, |a-b| <= atol + rtol*|b|,
// NaN equals NaN.
Verdict judge(const Case& test, const Runner& runner);

}  // namespace temper::conformance
