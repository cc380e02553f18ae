// SPDX-License-Identifier: Apache-2.0
#include "runners.h"

#include "build/build.h"
#include "onnx/import.h"

namespace temper::conformance {

namespace {

Graph load(const std::string& model, bool passes) {
  Graph graph = import_onnx(model).graph;
  PassOptions options;
  options.all_disabled = !passes;
  run_passes(graph, options);
  return graph;
}

std::vector<Tensor> run_on_cpu(const std::string& model, bool passes, const std::vector<Tensor>& inputs) {
  Graph graph = import_onnx(model).graph;
  BuildOptions options;
  options.threads = 1;
  options.measure = false;
  options.segments = false;
  options.passes.all_disabled = !passes;
  for (size_t i = 0; i < inputs.size() && i < graph.inputs().size(); ++i) {
    const Value& input = graph.value(graph.inputs()[i]);
    if (!input.type.is_concrete()) options.shapes[input.name] = {inputs[i].dims(), inputs[i].dims(), inputs[i].dims()};
  }
  return Session(build_engine(std::move(graph), {}, options)).run(inputs);
}

}  // namespace

Runner make_runner(std::string_view mode, bool passes) {
  if (mode == "reference")
    return [passes](const std::string& model, const std::vector<Tensor>& inputs) { return run_reference(load(model, passes), inputs); };
  if (mode == "cpu")
    return [passes](const std::string& model, const std::vector<Tensor>& inputs) { return run_on_cpu(model, passes, inputs); };
  fail(ErrorKind::usage, "there is no mode '", mode, "'; modes: reference, cpu");
}

}  // namespace temper::conformance
