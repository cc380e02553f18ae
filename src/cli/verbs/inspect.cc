// SPDX-License-Identifier: Apache-2.0
// temper inspect: shows what a model or plan holds.
#include <cstdio>

#include "cli/inspect_plan.h"
#include "cli/model.h"
#include "onnx/import.h"
#include "passes/pass.h"

namespace temper::cli {

namespace {
struct Options {
  std::string model, memory_limit;
  bool graph = false;
  std::string passes = "off";
  PassOptions pass_options;
  std::vector<std::string> disabled;
  InspectPlanOptions plan;
};
}  // namespace

void add_inspect(Command& verb, Context& context) {
  auto options = std::make_shared<Options>();
  verb.add_option("model", options->model, "an ONNX model or a plan").required();
  verb.add_flag("--graph", options->graph, "print the graph of the model");
  verb.add_option("--passes", options->passes,
                  "graph to print: on for the graph after the passes, off (default) for the graph as imported")
      .check(one_of({"on", "off"}));
  verb.add_option("--disable", options->disabled, "passes to skip, separated by commas").delimiter(',');
  add_memory_flag(verb, options->memory_limit);
  verb.add_option("--dump-passes", options->pass_options.dump_folder,
                  "folder to write the graph to after each pass that changes it");
  verb.add_flag("--layers", options->plan.layers, "plans: print a table of the steps");
  verb.add_option("--why", options->plan.why,
                  "plans: for the node of this name, print which tactic was chosen, which were not, and why");
  verb.callback([options, &context] {
    if (is_plan(options->model)) {
      options->plan.graph = options->graph;
      options->plan.json = context.json;
      return inspect_plan(options->model, options->plan);
    }
    if (options->plan.layers || !options->plan.why.empty())
      fail(ErrorKind::usage, "--layers and --why look into a plan, and '", options->model,
           "' is none; make one with temper build");
    ImportedModel model = import_onnx(options->model, {{}, memory_limit_of(options->memory_limit)});
    options->pass_options.disabled.insert(options->disabled.begin(), options->disabled.end());
    if (options->passes == "on" || !options->pass_options.dump_folder.empty() || !options->disabled.empty()) {
      options->pass_options.memory_limit = memory_limit_of(options->memory_limit);
      run_passes(model.graph, options->pass_options);
    }
    std::fputs(print(model.graph).c_str(), stdout);
  });
}

}  // namespace temper::cli
