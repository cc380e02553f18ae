// SPDX-License-Identifier: Apache-2.0
// temper import: reads measurements of other programs as results of Temper's own form.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/log.h"
#include "base/version.h"
#include "bench/table.h"
#include "cli/json_text.h"
#include "cli/outputs.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "interop/trtexec_explain.h"
#include "interop/trtexec_import.h"

namespace temper::cli {

namespace {

constexpr size_t kMaxLogBytes = size_t(1) << 28;

struct ImportFlags {
  std::string program, output, command, to, from;
  std::vector<std::string> paths, known;
  bool force = false;
};

std::map<std::string, std::string> pairs_of(const std::vector<std::string>& texts) {
  std::map<std::string, std::string> pairs;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
      fail(ErrorKind::usage, "--set ", text, ": write KEY=VALUE, for instance batch=32");
    if (!pairs.emplace(text.substr(0, equals), text.substr(equals + 1)).second)
      fail(ErrorKind::usage, "--set ", text.substr(0, equals), " is there twice");
  }
  return pairs;
}

void import_logs(const ImportFlags& options, Context& context) {
  check_files({{}, options.paths, {{options.output, FileKind::result, options.force, "-o"}}});
  std::vector<TrtexecFile> files;
  for (const std::string& path : options.paths) files.push_back({path, read_file(path, kMaxLogBytes)});
  const TrtexecImport imported = import_trtexec(files, pairs_of(options.known));
  // The machine of the runs is not this one: of the environment only what wrote the file is known.
  BenchResult result;
  result.environment.time = time_now_utc();
  result.environment.version = version();
  result.environment.revision = revision();
  result.runs = imported.runs;
  if (!options.output.empty()) save_result(options.output, result, options.force);
  if (context.json) std::fputs(to_json(result).c_str(), stdout);
  else print_table(summary_of(result.runs));
  for (const BenchRun& run : imported.runs) {
    const ImportedRun& from = *run.imported;
    if (from.consistent == false) {
      log(LogLevel::warning, from.source, ": its numbers contradict each other, so no verdict may rest on them");
      context.exit_code = int(ErrorKind::check_failed);
    }
    for (const std::string& warning : from.warnings) log(LogLevel::warning, from.source, ": ", warning);
  }
  for (const std::string& what : imported.left_out) {
    log(LogLevel::warning, "left out: ", what);
    context.exit_code = int(ErrorKind::check_failed);
  }
}

using Json = nlohmann::ordered_json;
void print_list(const char* title, const std::vector<std::string>& lines) {
  if (!lines.empty()) std::printf("\n%s\n", title);
  for (const std::string& line : lines) std::printf("  %s\n", line.c_str());
}

void explain(const ImportFlags& options, const Context& context) {
  const TrtexecCommand command = parse_trtexec_command(options.command);
  if (command.arguments.empty()) fail(ErrorKind::usage, "--command '", options.command, "' holds no flags of trtexec");
  if (!options.to.empty()) {
    const TrtexecTranslation there = translate_trtexec(command, options.to, options.from);
    if (context.json)
      return print_json(
          {{"release", there.release}, {"command", there.command}, {"lost", there.lost}, {"remarks", there.remarks}});
    std::printf("%s\n", there.command.c_str());
    print_list(concat("what trtexec ", there.release, " cannot express:").c_str(), there.lost);
    return print_list("remarks:", there.remarks);
  }
  const TrtexecExplanation what = explain_trtexec(command);
  if (context.json) {
    Json flags = Json::array();
    for (const ExplainedFlag& f : what.flags)
      flags.push_back({{"flag", f.text}, {"meaning", f.meaning}, {"releases", f.releases}, {"in_temper", f.in_temper}});
    return print_json({{"flags", flags},
                       {"releases", what.releases},
                       {"commands", what.commands},
                       {"differences", what.differences}});
  }
  Table table{{{"flag", false}, {"meaning", false}, {"in Temper", false}, {"releases", false}}, {}};
  for (const ExplainedFlag& f : what.flags) table.rows.push_back({f.text, f.meaning, f.in_temper, f.releases});
  print_table(table);
  std::printf("\nreleases that accept all of it: %s\n", what.releases.c_str());
  print_list("in Temper:", what.commands);
  print_list("what that does otherwise:", what.differences);
}

}  // namespace

void add_import(Command& verb, Context& context) {
  auto options = std::make_shared<ImportFlags>();
  verb.add_option("program", options->program, "program that wrote the logs: trtexec")
      .required()
      .check(one_of({"trtexec"}));
  verb.add_option("logs", options->paths,
                  "logs of trtexec 7.x to 11.x, and files of its --exportTimes, which are joined to their runs");
  verb.add_option("-o,--output", options->output, "the result file to write (docs/results.md)");
  add_force_flag(verb, options->force);
  verb.add_option("--set", options->known,
                  "facts that the logs do not contain, like batch=32,precision=fp16; keys: model, model_sha256, batch, "
                  "precision, device, device_name, transfers, cuda_graph, spin_wait, streams, tensorrt_version")
      .delimiter(',');
  const Option command = verb.add_option(
      "--command", options->command, "explain this command line of trtexec and translate it to Temper; no log is read");
  verb.add_option("--to", options->to,
                  "translate the command line to this version of trtexec instead: 8.6, 10, 11 or a release")
      .needs(command);
  verb.add_option("--from", options->from,
                  "version of trtexec that the command line is written for, if its flags leave that open")
      .needs(command);
  verb.callback([options, &context, command] {
    if (command.given()) {
      if (!options->paths.empty() || !options->output.empty() || !options->known.empty())
        fail(ErrorKind::usage, "--command explains a command line; logs, -o and --set belong to importing");
      return explain(*options, context);
    }
    if (options->paths.empty())
      fail(ErrorKind::usage,
           "give the logs to import, or a command line to explain: temper import trtexec --command \"trtexec "
           "--onnx=…\"");
    import_logs(*options, context);
  });
}

}  // namespace temper::cli
