// SPDX-License-Identifier: Apache-2.0
// temper split: writes a model as two, what depends on some of its inputs alone and the rest.
#include "onnx/split.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "cli/json_text.h"
#include "cli/model.h"
#include "cli/outputs.h"
#include "cli/verb.h"

namespace temper::cli {

namespace {

struct SplitFlags {
  std::string model, first, rest;
  ModelFlags flags;  // its limits
  std::vector<std::string> inputs;
  bool force = false;
};

void split(const SplitFlags& options, const Context& context) {
  const Output first{options.first, FileKind::our_onnx, options.force, "-o"},
      rest{options.rest, FileKind::our_onnx, options.force, "--rest"};
  const SplitModel parts = split_onnx_file(options.model, options.inputs, first, rest, limits_of(options.flags));
  if (context.json) {
    const nlohmann::ordered_json json{{"first", options.first},        {"rest", options.rest},
                                      {"between", parts.between},      {"inputs_of_rest", parts.inputs_of_rest},
                                      {"nodes", parts.nodes},          {"first_nodes", parts.first_nodes},
                                      {"rest_nodes", parts.rest_nodes}};
    print_json(json);
    return;
  }
  log(LogLevel::info, options.first, ": ", parts.first_nodes, " of ", parts.nodes, " nodes; ", options.rest, ": ",
      parts.rest_nodes, "; ", parts.between.size(), parts.between.size() == 1 ? " value goes" : " values go",
      " from one to the other");
  for (const std::string& input : parts.inputs_of_rest)
    log(LogLevel::info, "'", input, "' is an input of ", options.rest, ", too, for its shape or what only moves it");
}

}  // namespace

void add_split(Command& verb, Context& context) {
  auto options = std::make_shared<SplitFlags>();
  verb.add_option("model", options->model, "an ONNX model").required();
  verb.add_option("--inputs", options->inputs,
                  "inputs, separated by commas, that stay as they are from run to run, as a prompt does")
      .delimiter(',')
      .required()
      .type_name("NAMES");
  verb.add_option("-o,--output", options->first, "the ONNX file for what depends on these inputs alone")
      .required()
      .type_name("FIRST.onnx");
  verb.add_option("--rest", options->rest, "the ONNX file for everything else, which takes what the first one gives")
      .required()
      .type_name("REST.onnx");
  add_size_flags(verb, options->flags);
  add_force_flag(verb, options->force);
  verb.callback([options, &context] { split(*options, context); });
}

}  // namespace temper::cli
