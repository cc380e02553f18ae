// SPDX-License-Identifier: Apache-2.0
// The program: THE list of verbs, the options that all of them have, and the exit code.
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <sstream>

#include "base/file.h"
#include "base/log.h"
#include "base/quote.h"
#include "base/version.h"
#include "bench/serve_timings.h"
#include "cli/clean_output.h"
#include "cli/complete.h"
#include "cli/exit_code.h"
#include "cli/suggest.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "optimize/build_engine.h"
#include "plan/step_ranges.h"

namespace temper::cli {

bool is_terminal() { return isatty(STDERR_FILENO) != 0; }

namespace {

struct Verb {
  const char* name;
  const char* summary;
  void (*add)(Command&, Context&);
  bool runs = false;       // it runs plans: --nvtx means something
  bool own_words = false;  // what stands behind it is not for CLI11: it reads Context::arguments itself, --help too
};

constexpr Verb verbs[] = {
    {"export", "export a model of PyTorch, Keras or TensorFlow to ONNX and check it against its framework", add_export},
    {"build", "build a plan from an ONNX model, by measuring on this machine", add_build},
    {"run", "run a model on real inputs; print the best classes or save the outputs", add_run, true},
    {"calibrate", "find the value ranges for INT8, from data or from a TensorRT cache; check such caches",
     add_calibrate},
    {"quantize", "write the quantized model as ONNX (Q/DQ), from data, ranges or a TensorRT cache", add_quantize},
    {"evaluate", "measure how often a model is right on labelled data, and how close it is to FP32", add_evaluate},
    {"study", "build, evaluate and time one model in several precisions, side by side", add_study},
    {"compare", "compare plans or results by speed and outputs, with a verdict", add_compare},
    {"gate", "for CI: fail if a result is slower than its baseline by more than a limit", add_gate},
    {"verify", "check a built model's outputs against the scalar reference", add_verify},
    {"inspect", "show what a model or plan holds: its graph, its layers, and why each tactic was chosen", add_inspect},
    {"zoo", "write a sample model as ONNX", add_zoo},
    {"bench", "measure the speed of models or plans", add_bench, true},
    {"versus", "time your model in Temper and in other engines, in turns, with the answers compared", add_versus},
    {"import", "read the logs and command lines of trtexec into Temper's result format", add_import},
    {"profile", "time a plan step by step, and show how far each step is from the machine's limits", add_profile, true},
    {"explain", "explain why a plan or a TensorRT engine is as fast as it is, and what to change", add_explain},
    {"trtexec", "do what a command line of TensorRT's trtexec asks for, in its words; --help lists its flags",
     add_trtexec, false, true},
    {"as-tensorrt", "run a command that finds Temper where it looks for TensorRT: trtexec, and Python's tensorrt",
     add_as_tensorrt, false, true},
    {"serve", "serve plans by HTTP and gRPC: writes a model repository and becomes Triton's server", add_serve},
    {"repository", "add versions to a model repository of Triton, each whole or not at all", add_repository},
    {"report", "show results, studies, profiles and explanations as one page, as images or as tables", add_report},
    {"cache", "show, size and clear what Temper keeps between runs", add_cache},
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

std::vector<std::string> verb_names() {
  std::vector<std::string> names;
  for (const Verb& verb : verbs) names.emplace_back(verb.name);
  return names;
}

// Says what is wrong with the command line, and where its options are described.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
  if (const auto verbs_given = app.get_subcommands(); !verbs_given.empty()) {
    const CLI::App& verb = *verbs_given.front();
    const std::string see = concat("; see temper ", verb.get_name(), " --help");
    std::vector<std::string> known;
    for (const CLI::Option* option : verb.get_options())
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    const std::vector<std::string> rest = verb.remaining();
    for (const std::string& word : rest) {
      const std::string name = word.substr(0, word.find('='));
      if (name.starts_with("--"))
        return concat(verb.get_name(), ": there is no option '", name, "'", suggestion(name, known), see);
    }
    return concat(verb.get_name(), ": ", std::string_view(error.what()), see);
  }
  std::string names;
  for (const std::string& name : verb_names()) names += concat(names.empty() ? "" : ", ", name);
  const auto rest = app.remaining();
  return concat(rest.empty() ? "a verb is needed"
                             : concat("there is no verb '", rest.front(), "'", suggestion(rest.front(), verb_names())),
                "; the verbs are ", names, "; see temper --help");
}

// Lines of help in the width of the terminal: what an option means stands in a column of its own.
std::string fitted_help(const std::string& text, size_t width) {
  constexpr size_t kColumn = 30;  // CLI11's
  std::string out;
  for (size_t at = 0, end; at < text.size(); at = end + 1) {
    end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    if (!width || width_of(line) <= width) {
      out += line + "\n";
      continue;
    }
    const bool is_option = line.size() > kColumn && line.starts_with("  ") && line[kColumn - 1] == ' ';
    out += is_option ? wrapped(line.substr(kColumn), kColumn, line.substr(0, kColumn), width)
                     : wrapped(line, 0, "", width);
  }
  return out;
}

// What --json and its file are, before CLI11 sees the words: `--json` and `--json -` print to standard output, and
// `--json=FILE` writes there. bench takes `--json FILE`, too. `temper help VERB` is `temper VERB --help`.
struct Words {
  std::vector<std::string> words;
  std::string json_file;
};
Words words_of(int argc, char** argv) {
  Words out;
  std::vector<std::string> given(argv + 1, argv + argc);
  if (!given.empty() && given[0] == "help") {
    given.erase(given.begin());
    given.insert(given.begin() + !given.empty(), "--help");
  }
  // What stands behind such a verb is for it, or for the command that it runs.
  if (!given.empty() && std::any_of(std::begin(verbs), std::end(verbs),
                                    [&](const Verb& verb) { return verb.own_words && given[0] == verb.name; }))
    return {given, ""};
  const bool is_bench = !given.empty() && given[0] == "bench";
  for (size_t i = 0; i < given.size(); ++i) {
    const bool has_next = i + 1 < given.size();
    if (given[i] == "--json" && is_bench) {
      out.words.emplace_back("--json");
      if (!has_next || (given[i + 1].starts_with("-") && given[i + 1] != "-")) out.words.emplace_back("-");
    } else if (given[i] == "--json" && has_next && given[i + 1] == "-") {
      out.words.emplace_back("--json");
      ++i;
    } else if (given[i].starts_with("--json=") && !is_bench) {
      out.words.emplace_back("--json");
      if (const std::string file = given[i].substr(7); file != "-") out.json_file = file;
    } else out.words.push_back(given[i]);
  }
  return out;
}

// Takes what is printed to standard output for a file: all of it, once the verb is done.
class JsonFile {
 public:
  JsonFile(std::string path, const std::vector<std::string>& words) : path_(std::move(path)) {
    if (path_.empty()) return;
    std::error_code error;
    for (const std::string& word : words)
      if (std::filesystem::equivalent(word.substr(word.find('=') == word.npos ? 0 : word.find('=') + 1), path_, error))
        fail(ErrorKind::usage, "--json '", path_, "' is one of the files of this command; name another one to write");
    if (kind_of_file(path_) == FileKind::other && !read_file(path_).starts_with('{'))
      fail(ErrorKind::usage, "--json '", path_, "' is a file that Temper did not write; name another one");
    taken_ = std::tmpfile();
    if (!taken_ || dup2(fileno(taken_), STDOUT_FILENO) < 0)
      fail(ErrorKind::machine, "no temporary file can be made: ", std::strerror(errno));
  }
  void write() const {
    if (path_.empty()) return;
    const std::string taken = concat("/proc/self/fd/", fileno(taken_));
    write_file_atomically({path_, kind_of_file(taken), false, "--json"}, read_file(taken));
  }

 private:
  std::string path_;
  FILE* taken_ = nullptr;
};

// What the shells' completions offer: the verbs with their options, as --help shows them.
std::vector<KnownVerb> known_verbs(const CLI::App& app) {
  std::vector<KnownVerb> known;
  for (const Verb& verb : verbs) {
    KnownVerb& one = known.emplace_back(KnownVerb{verb.name, verb.summary, {}});
    for (const CLI::Option* option : app.get_subcommand(verb.name)->get_options()) {
      KnownOption& words = one.options.emplace_back();
      for (const std::string& name : option->get_snames()) words.names.push_back("-" + name);
      for (const std::string& name : option->get_lnames()) words.names.push_back("--" + name);
      words.text = option->get_description();
      words.takes_value = option->get_items_expected_max() > 0;
      const std::string type = option->get_type_name();  // "TEXT:{on,off}"
      const size_t open = type.find('{'), close = type.find('}');
      if (open == type.npos || close == type.npos) continue;
      std::istringstream choices(type.substr(open + 1, close - open - 1));
      for (std::string choice; std::getline(choices, choice, ',');) words.choices.push_back(choice);
    }
  }
  return known;
}

int run(int argc, char** argv) {
  CLI::App app{"Temper: from a trained ONNX model to the fastest correct way to run it on this machine", "temper"};
  app.set_version_flag("-V,--version", concat("temper ", version(), " (", revision(), ")"));
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 done; 1 a check failed; 2 wrong usage; 3 a file is missing, damaged or not what it should be;\n"
      "4 not supported, or a plan made for another machine or version; 5 the machine failed (memory, disk, device)");
  Context context;
  context.command = "temper";
  context.arguments.assign(argv + 1, argv + argc);
  for (int i = 1; i < argc; ++i) context.command += " " + shell_quoted(argv[i]);
  bool quiet = false, verbose = false, nvtx = false;
  std::string color = "auto";
  const char* no_color = std::getenv("NO_COLOR");  // no-color.org: any value but an empty one
  const auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>(
      no_color && *no_color ? spdlog::color_mode::never : spdlog::color_mode::automatic);
  const auto set_color = [&](spdlog::color_mode mode) { sink->set_color_mode(mode); };
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("temper", sink));
  spdlog::set_pattern("%^%l%$: %v");
  for (const Verb& verb : verbs) {
    CLI::App* sub = app.add_subcommand(verb.name, verb.summary);
    sub->add_flag("--json", context.json, "print tables as JSON; --json=FILE writes it there");
    sub->add_flag("--quiet", quiet, "print only warnings and results");
    sub->add_flag("-v,--verbose", verbose, "print more about each step, with times");
    sub->add_option("--color", color,
                    "when messages have colours: always, never, or auto: on a terminal without NO_COLOR")
        ->check(CLI::IsMember({"auto", "always", "never"}));
    if (verb.runs)
      sub->add_flag("--nvtx", nvtx,
                    "name each step to a profiler by NVTX while it is launched, as TEMPER_NVTX=1 does: nsys profile "
                    "then shows the steps by their nodes");
    sub->parse_complete_callback([&, verb] {
      spdlog::set_level(quiet ? spdlog::level::warn : verbose ? spdlog::level::debug : spdlog::level::info);
      if (verbose) spdlog::set_pattern("%T.%e %^%l%$: %v");  // what takes long is seen from the times
      context.verbosity = quiet ? -1 : verbose ? 1 : 0;
      if (color != "auto") set_color(color == "always" ? spdlog::color_mode::always : spdlog::color_mode::never);
      const char* const wanted = std::getenv("TEMPER_NVTX");
      if (nvtx || (verb.runs && wanted && *wanted && std::string_view(wanted) != "0")) {
        const char* const injection = std::getenv("NVTX_INJECTION64_PATH");  // set by the profiler
        open_step_ranges(injection ? injection : "");
      }
    });
    Command command(*sub);
    verb.add(command, context);
  }
  if (argc > 1 && std::string_view(argv[1]) == "--complete") {  // asked by src/cli/completions, not by people
    set_log_callback([](LogLevel, std::string_view) {});
    return exit_code_of(
        [&] { std::fputs(text_of(offer_for(known_verbs(app), {argv + 2, argv + argc})).c_str(), stdout); });
  }
  set_log_callback(to_spdlog);
  std::optional<JsonFile> json_file;
  const int failed = exit_code_of([&] {
    try {
      const Words given = words_of(argc, argv);
      json_file.emplace(given.json_file, given.words);
      clean_standard_output();
      const bool own_words = argc > 1 && std::any_of(std::begin(verbs), std::end(verbs), [&](const Verb& verb) {
                               return verb.own_words && std::string_view(argv[1]) == verb.name;
                             });
      std::vector<const char*> words{argv[0]};
      for (const std::string& word : given.words) words.push_back(word.c_str());
      if (own_words) app.parse(2, argv);
      else app.parse(int(words.size()), words.data());
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() == 0) {  // --help, --version
        std::ostringstream text;
        app.exit(error, text, text);
        std::fputs(fitted_help(text.str(), terminal_width()).c_str(), stdout);
        return;
      }
      fail(ErrorKind::usage, usage_error(app, error));
    }
  });
  if (!finish_standard_output() && !failed) {
    std::fprintf(stderr, "temper: what was printed could not be written: %s\n", std::strerror(errno));
    return int(ErrorKind::machine);
  }
  if (failed) return failed;
  const int unwritten = exit_code_of([&] { json_file->write(); });
  return unwritten ? unwritten : context.exit_code;
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
