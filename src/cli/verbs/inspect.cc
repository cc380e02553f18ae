// SPDX-License-Identifier: Apache-2.0
// temper inspect: shows what a model, a plan or another file of Temper's holds.
#include <fstream>

#include "cli/inspect_file.h"
#include "cli/inspect_model.h"
#include "cli/inspect_plan.h"

namespace temper::cli {

namespace {
struct InspectFlags {
  std::string path;
  std::string passes = "off";
  ModelFlags flags;
  InspectModelOptions model;
  InspectPlanOptions plan;
};
}  // namespace

void add_inspect(Command& verb, Context& context) {
  auto options = std::make_shared<InspectFlags>();
  verb.add_option("model", options->path,
                  "an ONNX model, a plan, or another file that Temper writes or reads: ranges, results, profiles, "
                  "studies, timing and calibration caches")
      .required();
  verb.add_flag("--graph", options->model.graph, "models, plans: print the text of the graph instead of the summary");
  const size_t others = verb.get_options().size();
  verb.add_option("--passes", options->passes,
                  "models: graph to print: on for the graph after the passes, off (default) for the graph as imported")
      .check(one_of({"on", "off"}));
  add_device_flags(verb, options->flags);
  verb.add_option("--precision", options->flags.precision, "models: precision to count operations and memory in")
      .check(one_of({"fp32", "bf16", "fp16", "tf32"}))
      .capture_default_str();
  verb.add_option("--shapes", options->flags.shapes,
                  "models: shape of an input whose dimensions are open, NAME=SHAPE; the batch is 1 by default")
      .delimiter(',');
  verb.add_option("--dump-passes", options->model.dump_folder,
                  "models: folder to write the graph to after each pass that changes it");
  const std::vector<Option> all = verb.get_options();
  const auto of_models = std::make_shared<std::vector<Option>>(all.begin() + ptrdiff_t(others), all.end());
  verb.add_flag("--layers", options->plan.layers, "plans: print a table of the steps");
  verb.add_option("--why", options->plan.why,
                  "plans: for the node of this name, print which tactic was chosen, which were not, and why");
  verb.callback([options, of_models, graph = verb.get_option("--graph"), &context] {
    const bool of_plan = options->plan.layers || !options->plan.why.empty();
    options->model.passes = options->passes == "on";
    // Who asks for passes asks for the graph.
    options->model.graph |=
        options->model.passes || !options->model.dump_folder.empty() || !options->flags.disabled_passes.empty();
    const FileKind kind = kind_of_file(options->path);
    // A plan runs under the limit of instructions that it was built with, and says whether it does here.
    if (kind == FileKind::plan || knows_kind(kind))
      for (const Option& option : *of_models)
        if (option.given() && (kind != FileKind::plan || option.name() != "--isa"))
          fail(ErrorKind::usage, option.name(), " is of models; '", options->path, "' is ", words_of(kind));
    if (kind == FileKind::plan) {
      options->plan.graph = options->model.graph;
      options->plan.json = context.json;
      return inspect_plan(options->path, options->plan);
    }
    if (of_plan)
      fail(ErrorKind::usage, "--layers and --why look into a plan, and '", options->path,
           "' is none; make one with temper build");
    if (knows_kind(kind) && graph.given())
      fail(ErrorKind::usage, "--graph is of models and plans; '", options->path, "' is ", words_of(kind));
    if (knows_kind(kind)) return inspect_file(options->path, kind, context.json);
    if (kind == FileKind::other && std::ifstream(options->path).peek() == '{')
      fail(ErrorKind::bad_file, options->path, ": JSON, but of none of the schemas that inspect knows");
    inspect_model(options->path, options->model, options->flags, context);
  });
}

}  // namespace temper::cli
