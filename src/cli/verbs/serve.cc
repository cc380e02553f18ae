// SPDX-License-Identifier: Apache-2.0
// temper serve: writes a model repository of plans and becomes Triton's server, which serves it.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/log.h"
#include "base/quote.h"
#include "cli/json_text.h"
#include "cli/verb.h"
#include "plan/file.h"
#include "serve/repository.h"
#include "serve/triton.h"

namespace temper::cli {

namespace {

struct ServeFlags {
  std::vector<std::string> plans;
  std::string repository;
  int instances = 0;
  int64_t max_delay_us = -1;
  bool encoded_pictures = false, dry_run = false;
  TritonOptions triton;
};

// NAME=FILE, or a file whose name is the model's. The same name again adds a plan for another machine.
std::vector<ServedModel> models_of(const ServeFlags& options) {
  std::vector<ServedModel> models;
  for (const std::string& word : options.plans) {
    const size_t equals = std::filesystem::exists(word) ? word.npos : word.find('=');
    const std::string plan = equals == word.npos ? word : word.substr(equals + 1);
    const std::string name = equals == word.npos ? model_name_of(plan) : word.substr(0, equals);
    check_model_name(name);
    if (!is_plan(plan))
      fail(ErrorKind::bad_file, "'", plan, "' is no plan; temper build ", shell_quoted(plan), " -o ", name,
           ".plan makes one of a model");
    ServedModel* model = nullptr;
    for (ServedModel& known : models)
      if (known.name == name) model = &known;
    if (!model)
      model = &models.emplace_back(
          ServedModel{name, {}, 1, options.instances, options.max_delay_us, "", options.encoded_pictures});
    model->plans.push_back(plan);
  }
  return models;
}

// A repository of its own for each port, which one server of a machine can have; what was there before goes.
std::string write_repository(const ServeFlags& options) {
  const std::vector<ServedModel> models = models_of(options);
  const bool own = options.repository.empty();
  std::string folder = own ? concat(cache_folder(), "/serve/", options.triton.port) : options.repository;
  if (!own && std::filesystem::exists(folder) && !std::filesystem::is_empty(folder))
    fail(ErrorKind::usage, "--repository '", folder,
         "' is not empty; temper repository add adds to one, and "
         "temper serve --repository ",
         shell_quoted(folder), " without plans serves it");
  if (own) {
    make_private_folder(cache_folder() + "/serve");
    std::error_code error;
    std::filesystem::remove_all(folder, error);
    if (error) fail(ErrorKind::machine, "'", folder, "' cannot be written anew: ", error.message());
  }
  for (const ServedModel& model : models) {
    add_to_repository(folder, model, model.plans.size() > 1);
    log(LogLevel::info, model.name, ": http://", options.triton.address, ":", options.triton.port, "/v2/models/",
        model.name, "/infer");
  }
  return folder;
}

void serve(const ServeFlags& options, const Context& context) {
  if (context.json && !options.dry_run)
    fail(ErrorKind::usage, "--json is for --dry-run; without it this program becomes tritonserver, which prints none");
  if (options.plans.empty() && options.repository.empty())
    fail(ErrorKind::usage, "serve needs a plan (digits.plan, or name=FILE.plan), or --repository with models in it");
  if (!options.plans.empty() || !std::filesystem::is_directory(options.repository)) {
    if (options.plans.empty()) fail(ErrorKind::bad_file, "--repository '", options.repository, "' is no folder");
  }
  if (options.plans.empty())
    for (const auto& [given, option] : {std::pair(options.instances > 0, "--instances"),
                                        {options.max_delay_us >= 0, "--max-delay"},
                                        {options.encoded_pictures, "--encoded-pictures"}})
      if (given)
        fail(ErrorKind::usage, option,
             " is of plans that are served; a repository's config.pbtxt says it for its models; leave ", option,
             " out, or edit that file");
  TritonOptions triton = options.triton;
  try {
    triton.program = find_server(triton.program);  // before anything is written
  } catch (const Error&) {
    if (!options.dry_run || !triton.program.empty()) throw;
    triton.program = "tritonserver";  // wherever the command will be run
  }
  const std::string repository = options.plans.empty() ? options.repository : write_repository(options);
  std::vector<std::string> words = serve_command(repository, triton);
  if (options.dry_run && context.json) {
    const nlohmann::ordered_json json{{"schema", "temper.serve/1"}, {"repository", repository}, {"command", words}};
    print_json(json);
    return;
  }
  std::string line;
  for (const std::string& word : words) line += concat(line.empty() ? "" : " ", shell_quoted(word));
  if (options.dry_run) {
    std::printf("%s\n", line.c_str());
    return;
  }
  log(LogLevel::info,
      options.triton.address == "127.0.0.1" ? "this machine alone reaches it; --address 0.0.0.0 opens it to all: " : "",
      line);
  std::fflush(nullptr);
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  fail(ErrorKind::machine, "'", words[0], "' cannot be started: ", std::strerror(errno));
}

}  // namespace

void add_serve(Command& verb, Context& context) {
  auto options = std::make_shared<ServeFlags>();
  verb.add_option("plans", options->plans,
                  "plans to serve; NAME=FILE gives the model another name than the file's, and the "
                  "same NAME again a plan for another machine");
  verb.add_option("--port", options->triton.port, "port of HTTP; gRPC has the next one, metrics the one after that")
      .check(whole_number(1, 65533))
      .capture_default_str();
  verb.add_option("--address", options->triton.address, "address to listen on").capture_default_str();
  verb.add_option(
          "--instances", options->instances,
          "instances of each model; by default as many as the threads of a run fit into the cores, and 2 on a GPU")
      .check(whole_number(1, 1024));
  verb.add_option("--max-delay", options->max_delay_us,
                  "microseconds that a request waits for others to be joined with (0)")
      .check(whole_number(0));
  verb.add_flag("--encoded-pictures", options->encoded_pictures,
                "clients send JPEG or PNG files, prepared as the plans remember, in the place of pixels");
  verb.add_option("--repository", options->repository,
                  "folder to write the model repository to; without plans, one to serve; by default one in the cache");
  verb.add_option("--triton", options->triton.program,
                  "the program tritonserver; by default that of PATH, /opt/tritonserver or ./dev setup triton")
      .type_name("PROGRAM");
  verb.add_option("--backends", options->triton.backends,
                  "folder with the server's backends, temper among them; by default the one beside this program");
  verb.add_option("--exit-timeout", options->triton.exit_timeout_s,
                  "seconds that requests and connections are waited for at the end")
      .capture_default_str();
  verb.add_option(
          "--server-option", options->triton.more,
          "an option of tritonserver's own, such as --server-option=--log-verbose=1; may be given several times")
      .allow_extra_args(false)
      .type_name("OPTION");
  verb.add_flag("--dry-run", options->dry_run, "write the repository, print the command, and start nothing");
  verb.footer(
      "This program becomes tritonserver: signals, messages and the exit code are that program's. docs/serving.md has "
      "the rest.");
  verb.callback([options, &context] { serve(*options, context); });
}

}  // namespace temper::cli
