// SPDX-License-Identifier: Apache-2.0
#include "runners.h"

#include "onnx/import.h"

namespace temper::conformance {

static std::vector<Tensor> run_by_reference(const std::string& model, const std::vector<Tensor>& inputs) {
  return run_reference(import_onnx(model).graph, inputs);
}

Runner make_runner(std::string_view mode) {
  if (mode == "reference") return run_by_reference;
  fail(ErrorKind::usage, "there is no mode '", mode, "'; modes: reference");
}

}  // namespace temper::conformance
