// SPDX-License-Identifier: Apache-2.0
// The program: THE list of verbs, the options that all of them have, and the exit code.
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "base/log.h"
#include "base/quote.h"
#include "base/version.h"
#include "bench/serve_timings.h"
#include "cli/clean_output.h"
#include "cli/exit_code.h"
#include "cli/verb.h"
#include "optimize/build_engine.h"

namespace temper::cli {

bool is_terminal() { return isatty(STDERR_FILENO) != 0; }

namespace {

struct Verb {
  const char* name;
  const char* summary;
  void (*add)(Command&, Context&);
};

constexpr Verb verbs[] = {
    {"export", "export a model of PyTorch, Keras or TensorFlow to ONNX and check it against its framework", add_export},
    {"build", "build a plan from an ONNX model, by measuring on this machine", add_build},
    {"run", "run a model on real inputs; print the best classes or save the outputs", add_run},
    {"calibrate", "find the value ranges for INT8, from data or from a TensorRT cache; check such caches",
     add_calibrate},
    {"evaluate", "measure how often a model is right on labelled data, and how close it is to FP32", add_evaluate},
    {"study", "build, evaluate and time one model in several precisions, side by side", add_study},
    {"compare", "compare plans or results by speed and outputs, with a verdict", add_compare},
    {"gate", "for CI: fail if a result is slower than its baseline by more than a limit", add_gate},
    {"verify", "check a built model's outputs against the scalar reference", add_verify},
    {"inspect", "show what a model or plan holds: its graph, its layers, and why each tactic was chosen", add_inspect},
    {"zoo", "write a sample model as ONNX", add_zoo},
    {"bench", "measure the speed of models or plans", add_bench},
    {"import", "read the logs and command lines of trtexec into Temper's result format", add_import},
    {"profile", "time a plan step by step, and show how far each step is from the machine's limits", add_profile},
    {"explain", "explain why a plan or a TensorRT engine is as fast as it is, and what to change", add_explain},
    {"report", "show results, studies, profiles and explanations as one page, as images or as tables", add_report},
    {"doctor", "show what Temper finds on this machine, and what is missing", add_doctor},
};

// Standard output is flushed first: in a log that takes both streams, a message must not stand in the middle of a
// table.
void to_spdlog(LogLevel level, std::string_view message) {
  std::fflush(stdout);
  clear_progress();
  const auto to = level == LogLevel::debug  ? spdlog::level::debug
                  : level == LogLevel::info ? spdlog::level::info
                                            : spdlog::level::warn;
  spdlog::log(to, "{}", message);
}

// Says what is wrong with the command line, and where its options are described.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
  if (const auto verbs_given = app.get_subcommands(); !verbs_given.empty()) {
    const std::string& verb = verbs_given.front()->get_name();
    return concat(verb, ": ", std::string_view(error.what()), "; see temper ", verb, " --help");
  }
  std::string names;
  for (const Verb& verb : verbs) names += concat(names.empty() ? "" : ", ", std::string_view(verb.name));
  const auto rest = app.remaining();
  return concat(rest.empty() ? "a verb is needed" : concat("there is no verb '", rest.front(), "'"), "; the verbs are ",
                names, "; see temper --help");
}

int run(int argc, char** argv) {
  CLI::App app{"Temper: from a trained ONNX model to the fastest correct way to run it on this machine"};
  app.set_version_flag("--version", concat("temper ", version(), " (", revision(), ")"));
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 done; 1 a check failed; 2 wrong usage; 3 a file is missing, damaged or not what it should be;\n"
      "4 not supported, or a plan made for another machine or version; 5 the machine failed (memory, disk, device)");
  Context context;
  context.command = "temper";
  context.arguments.assign(argv + 1, argv + argc);
  for (int i = 1; i < argc; ++i) context.command += " " + shell_quoted(argv[i]);
  bool quiet = false, verbose = false;
  for (const Verb& verb : verbs) {
    CLI::App* sub = app.add_subcommand(verb.name, verb.summary);
    sub->add_flag("--json", context.json, "print tables as JSON");
    sub->add_flag("--quiet", quiet, "print only warnings and results");
    sub->add_flag("-v,--verbose", verbose, "print more about each step, with times");
    sub->parse_complete_callback([&] {
      spdlog::set_level(quiet ? spdlog::level::warn : verbose ? spdlog::level::debug : spdlog::level::info);
      if (verbose) spdlog::set_pattern("%T.%e %^%l%$: %v");  // what takes long is seen from the times
      context.verbosity = quiet ? -1 : verbose ? 1 : 0;
    });
    Command command(*sub);
    verb.add(command, context);
  }
  const char* no_color = std::getenv("NO_COLOR");  // no-color.org: any value but an empty one
  spdlog::set_default_logger(spdlog::stderr_color_mt(
      "temper", no_color && *no_color ? spdlog::color_mode::never : spdlog::color_mode::automatic));
  spdlog::set_pattern("%^%l%$: %v");
  set_log_callback(to_spdlog);
  clean_standard_output();
  const int failed = exit_code_of([&] {
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() == 0) {  // --help, --version
        std::ostringstream text;
        app.exit(error, text, text);
        std::fputs(text.str().c_str(), stdout);
        return;
      }
      fail(ErrorKind::usage, usage_error(app, error));
    }
  });
  if (!finish_standard_output() && !failed) {
    std::fprintf(stderr, "temper: what was printed could not be written: %s\n", std::strerror(errno));
    return int(ErrorKind::machine);
  }
  return failed ? failed : context.exit_code;
}

}  // namespace
}  // namespace temper::cli

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == temper::kServeTimings)  // started by a build: no verb of users
    std::_Exit(temper::serve_timings({argv + 2, argv + argc}));
  std::signal(SIGXFSZ, SIG_IGN);  // a file over the limit of ulimit is an error of write(), not the end
  temper::cli::claim_exit();
  // Libraries, GPUs' above all, take up to a tenth of a second to clean up at a regular end, and the system does it as
  // well.
  const int code = temper::cli::run(argc, argv);
  std::fflush(nullptr);
  std::_Exit(code);
}
