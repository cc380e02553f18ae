// SPDX-License-Identifier: Apache-2.0
// temper zoo: writes a sample model as ONNX.
#include "zoo/zoo.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/log.h"
#include "cli/json_text.h"
#include "cli/outputs.h"
#include "cli/suggest.h"
#include "cli/verb.h"

namespace temper::cli {

namespace {

struct ZooFlags {
  std::string name, output;
  ZooOptions zoo;
  bool list = false, force = false;
};

void list(bool as_json) {
  if (as_json) {
    nlohmann::ordered_json json{{"models", nlohmann::ordered_json::array()}};
    for (const ZooEntry& entry : zoo_entries())
      json["models"].push_back({{"name", entry.name}, {"summary", entry.summary}});
    print_json(json);
    return;
  }
  for (const ZooEntry& entry : zoo_entries())
    std::printf("%-14s %s\n", std::string(entry.name).c_str(), std::string(entry.summary).c_str());
}

}  // namespace

void add_zoo(Command& verb, Context& context) {
  auto options = std::make_shared<ZooFlags>();
  verb.add_option("name", options->name, "name of the model to write; --list shows the names");
  verb.add_option("-o,--output", options->output, "the ONNX file to write");
  verb.add_option("--seed", options->zoo.seed, "seed for the weights (default 1)");
  verb.add_option("--opset", options->zoo.opset, "opset of the ONNX file, 13 to 22 (default 17)");
  add_force_flag(verb, options->force);
  verb.add_flag("--list", options->list, "list the sample models");
  const auto of_a_model = std::make_shared<std::vector<Option>>();
  for (const char* name : {"--output", "--seed", "--opset", "--force"}) of_a_model->push_back(verb.get_option(name));
  verb.callback([options, of_a_model, &context] {
    if (options->list && !options->name.empty())
      fail(ErrorKind::usage, "--list writes no model; leave it out, or '", options->name, "'");
    if (options->name.empty()) {
      for (const Option& option : *of_a_model)
        if (option.given())
          fail(ErrorKind::usage, option.name(), " is of a model that is written; a name is needed: temper zoo NAME -o ",
               options->output.empty() ? "FILE.onnx" : options->output);
      return list(context.json);
    }
    std::vector<std::string> known;
    for (const ZooEntry& entry : zoo_entries()) known.emplace_back(entry.name);
    if (std::find(known.begin(), known.end(), options->name) == known.end())
      fail(ErrorKind::usage, "there is no sample model '", options->name, "'", suggestion(options->name, known),
           "; temper zoo lists them");
    if (options->output.empty())
      fail(ErrorKind::usage, "an output file is needed: temper zoo ", options->name, " -o ", options->name, ".onnx");
    const Output output{options->output, FileKind::our_onnx, options->force, "-o"};
    check_files({{}, {}, {output}});
    const std::string bytes = zoo_model(options->name, options->zoo);
    write_file_atomically(output, bytes);
    log(LogLevel::info, options->output, ": ", options->name, ", ", bytes.size(), " bytes");
    if (context.json) print_json({{"name", options->name}, {"file", options->output}, {"bytes", bytes.size()}});
  });
}

}  // namespace temper::cli
