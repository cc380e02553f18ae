// SPDX-License-Identifier: Apache-2.0
// temper gate: fails in CI where a result is slower than its baseline beyond doubt.
#include "bench/gate.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/quote.h"
#include "cli/config.h"
#include "cli/json_text.h"
#include "cli/outputs.h"
#include "cli/terminal.h"

namespace temper::cli {
namespace {

struct GateFlags {
  std::string baseline, result, max_slowdown = "3%", junit, annotations;
  bool strict = false, force = false;
  bool limit_given = false, config_given = false;
  ConfigFlags config;
};

// What is held against what.
struct Pair {
  std::string name;  // of the model in temper.toml; empty without
  ConfiguredGate gate;
};
std::vector<Pair> pairs_of(const GateFlags& options) {
  if (!options.baseline.empty() && options.config_given)
    fail(ErrorKind::usage, "--config and --only choose models of a file, and results are named; leave one of them out");
  if (!options.baseline.empty() && !options.result.empty())
    return {{"", {options.baseline, options.result, options.max_slowdown, options.strict}}};
  if (!options.baseline.empty()) fail(ErrorKind::usage, "a gate needs two results: the baseline, and the new one");
  std::vector<Pair> pairs;
  for (const ConfiguredModel& model : options.config.models("a gate", "BASELINE and RESULT")) {
    if (!model.gate) continue;
    Pair pair{model.name, *model.gate};
    if (pair.gate.result.empty()) pair.gate.result = model.output + "/result.json";
    if (pair.gate.baseline.empty())
      fail(ErrorKind::bad_file, options.config.path, ": [models.", printable(model.name),
           ".gate] names no baseline: baseline = \"FILE.json\"");
    for (const std::string& file : {pair.gate.baseline, pair.gate.result})
      if (!file_exists(file))
        fail(ErrorKind::bad_file, "'", file, "' is not there; ",
             file == pair.gate.result ? concat("temper study --only ", model.name, " writes it")
                                      : concat("keep a good result as the baseline: cp ", pair.gate.result, " ", file));
    pair.gate.strict |= options.strict;
    if (pair.gate.max_slowdown.empty() || options.limit_given) pair.gate.max_slowdown = options.max_slowdown;
    pairs.push_back(std::move(pair));
  }
  if (pairs.empty()) fail(ErrorKind::usage, "no model of '", options.config.path, "' has a table [models.NAME.gate]");
  return pairs;
}

void gate(const GateFlags& options, Context& context) {
  if (context.json && !context.print_beside_json && !options.annotations.empty())
    fail(ErrorKind::usage,
         "--json prints JSON alone, and --annotations are lines of the log; --json=FILE leaves the output to them");
  const std::vector<Pair> pairs = pairs_of(options);
  const Output junit{options.junit, FileKind::junit, options.force, "--junit"};
  UsedFiles files{{}, {}, {junit}};
  for (const Pair& pair : pairs) files.reads.insert(files.reads.end(), {pair.gate.baseline, pair.gate.result});
  check_files(files);
  std::vector<GatedResult> all;
  nlohmann::ordered_json json;
  for (const auto& [name, said] : pairs) {
    const double limit = share_of("--max-slowdown", said.max_slowdown);
    all.push_back(gate_results(said.baseline, load_result(said.baseline), said.result, load_result(said.result),
                               {limit, said.strict, options.force}));
    const GatedResult& gated = all.back();
    if (gated.failed()) context.exit_code = int(ErrorKind::check_failed);
    if (name.empty()) json = json_of(gated);
    else json[name] = json_of(gated);
    std::string annotations;
    if (!options.annotations.empty())
      annotations =
          annotations_of(gated, options.annotations == "github" ? AnnotationStyle::github : AnnotationStyle::azure);
    if (context.json) {
      if (!annotations.empty()) context.print_beside_json(annotations);
      continue;
    }
    if (!name.empty()) std::printf("%s%s\n", all.size() > 1 ? "\n" : "", printable(name).c_str());
    print_table(table_of(gated));
    print_text(concat("limit: ", said.max_slowdown,
                      " slower than the baseline; FAIL where the whole interval lies beyond it, PASS where none of it "
                      "does"));
    std::fputs(annotations.c_str(), stdout);
  }
  if (!junit.path.empty()) write_file_atomically(junit, junit_of(all));
  if (context.json) print_json(json);
}

}  // namespace

void add_gate(Command& verb, Context& context) {
  auto options = std::make_shared<GateFlags>();
  verb.add_option("baseline", options->baseline,
                  "the result to compare with (bench --json); by default what the file of --config says");
  verb.add_option("result", options->result, "the new result (bench --json)");
  options->config.add_to(verb);
  verb.add_option(
          "--max-slowdown", options->max_slowdown,
          "slowdown of the median latency that is allowed; exit code 1 if the result is slower than that beyond doubt")
      .capture_default_str();
  verb.add_flag("--strict", options->strict,
                "exit code 1 also if the answer is uncertain, or if a run of the baseline is missing");
  verb.add_option("--junit", options->junit, "XML file to save the answers to, as JUnit writes results of tests");
  verb.add_option("--annotations", options->annotations,
                  "print what did not pass in the form that this service reads from the log: github or azure")
      .check(one_of({"github", "azure"}));
  verb.add_flag("--force", options->force,
                "compare runs that differ in device, threads, shapes, model, ..., and mark the verdict; replace a file "
                "of another kind");
  verb.callback([options, verb, &context] {
    options->limit_given = verb.given("--max-slowdown");
    options->config_given = verb.given("--config") || verb.given("--only");
    gate(*options, context);
  });
}

}  // namespace temper::cli
