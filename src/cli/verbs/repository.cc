// SPDX-License-Identifier: Apache-2.0
// temper repository: adds versions to a model repository of Triton, each whole or not at all.
#include "serve/repository.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cli/json_text.h"
#include "cli/verb.h"

namespace temper::cli {

void add_repository(Command& verb, Context& context) {
  struct RepositoryFlags {
    std::string action, repository;
    ServedModel model;
  };
  auto options = std::make_shared<RepositoryFlags>();
  verb.add_option("action", options->action, "what to do: add").required().check(one_of({"add"}));
  verb.add_option("repository", options->repository, "folder of the repository, which is made where it is missing")
      .required();
  verb.add_option("name", options->model.name, "name of the model").required();
  verb.add_option("plans", options->model.plans,
                  "the plan; several for machines of several kinds, of which the server takes the one for its own")
      .required();
  verb.add_option("--version", options->model.version, "number of the version; by default one more than the latest")
      .check(whole_number(1));
  verb.add_option(
          "--instances", options->model.instances,
          "instances of a new model; by default as many as the threads of a run fit into the cores, and 2 on a GPU")
      .check(whole_number(1, 1024));
  verb.add_option("--max-delay", options->model.max_delay_us,
                  "microseconds that a request of a new model waits for others to be joined with (0)")
      .check(whole_number(0));
  verb.add_option("--labels", options->model.labels,
                  "file with a class name of a new model in each line, for the server's classification extension");
  verb.add_flag(
      "--encoded-pictures", options->model.encoded_pictures,
      "clients of a new model send JPEG or PNG files, prepared as the plan remembers, in the place of pixels");
  verb.footer(
      "A server that polls the repository, or is told to load the model, finds the version whole. What a model's "
      "config.pbtxt says stays: options of a new model are refused beside it.");
  verb.callback([options, &context] {
    for (const std::string& plan : options->model.plans)
      if (kind_of_file(plan) != FileKind::plan)
        fail(ErrorKind::bad_file, "'", plan,
             file_exists(plan) ? "' is no plan; temper build makes one" : "' is not there");
    const std::string folder = add_to_repository(options->repository, options->model, true);
    if (context.json) print_json({{"schema", "temper.repository/1"}, {"folder", folder}});
    else std::printf("%s\n", folder.c_str());
  });
}

}  // namespace temper::cli
