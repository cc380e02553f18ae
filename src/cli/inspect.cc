// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "cli/verb.h"
#include "onnx/import.h"

namespace temper::cli {

namespace {
struct Options {
  std::string model;
  bool graph = false;
};
}  // namespace

void add_inspect(CLI::App& verb, Context& context) {
  auto options = std::make_shared<Options>();
  verb.add_option("model", options->model, "an ONNX model or a plan")->required();
  verb.add_flag("--graph", options->graph, "print the graph");
  verb.callback([options] {
    const ImportedModel model = import_onnx(options->model);
    std::fputs(print(model.graph).c_str(), stdout);
  });
}

}  // namespace temper::cli
