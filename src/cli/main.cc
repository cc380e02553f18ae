// SPDX-License-Identifier: Apache-2.0
// The program: THE list of verbs, the options that all of them have, and the exit code.
#include <fcntl.h>
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
#include "cli/help.h"
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
  const char* group;    // under which --help lists it
  const char* example;  // of --help
  void (*add)(Command&, Context&);
  const char* failed = "a check failed";  // what exit code 1 says
  bool runs = false;                      // it runs plans: --nvtx means something
  bool own_words = false;  // what stands behind it is not for CLI11: it reads Context::arguments itself, --help too
};

constexpr const char *kModels = "Models", *kPlans = "Plans", *kAccuracy = "INT8 and accuracy", *kSpeed = "Speed",
                     *kTensorRt = "From TensorRT", *kServing = "Serving", *kMachine = "This machine";

constexpr Verb verbs[] = {
    {"zoo", "write a sample model as ONNX", kModels, "temper zoo resnet50 -o resnet50.onnx", add_zoo},
    {"export", "export a model of PyTorch, Keras or TensorFlow to ONNX and check it against its framework", kModels,
     "temper export torchvision:resnet50 -o resnet50.onnx --shape 1x3x224x224", add_export, "the answers disagree"},
    {"inspect", "show what a model or plan holds: its graph, its layers, and why each tactic was chosen", kModels,
     "temper inspect resnet50.onnx", add_inspect},
    {"verify", "check a built model's outputs against the scalar reference", kModels, "temper verify resnet50.onnx",
     add_verify, "the answers disagree"},
    {"split", "write a model as two: what depends on some of its inputs alone, and the rest", kModels,
     "temper split unet.onnx --inputs states -o prompt.onnx --rest steps.onnx", add_split},
    {"build", "build a plan from an ONNX model, by measuring on this machine", kPlans,
     "temper build resnet50.onnx -o resnet50.plan --shapes image=1x3x224x224", add_build},
    {"run", "run a model on real inputs; print the best classes or save the outputs", kPlans,
     "temper run resnet50.plan --input photo.jpg --top 5", add_run, "a check failed", true},
    {"generate", "go on from a prompt with a language model, token by token", kPlans,
     "temper generate gpt2.plan --prompt-ids 7454,2402,257,640", add_generate, "a check failed", true},
    {"profile", "time a plan step by step, and show how far each step is from the machine's limits", kPlans,
     "temper profile resnet50.plan --top 10", add_profile, "a check failed", true},
    {"explain", "explain why a plan or a TensorRT engine is as fast as it is, and what to change", kPlans,
     "temper explain resnet50.plan", add_explain},
    {"kit", "put a model, its ranges and measured times into one folder that a device builds from", kPlans,
     "temper kit resnet50.onnx -o resnet50.kit --calibration ranges.json --precision int8", add_kit},
    {"calibrate", "find the value ranges for INT8, from data or from a TensorRT cache; check such caches", kAccuracy,
     "temper calibrate resnet50.onnx --data photos/ -o ranges.json", add_calibrate},
    {"quantize", "write the quantized model as ONNX (Q/DQ), from data, ranges or a TensorRT cache", kAccuracy,
     "temper quantize resnet50.onnx --data photos/ -o resnet50_int8.onnx", add_quantize},
    {"evaluate", "measure how often a model is right on labelled data, and how close it is to FP32", kAccuracy,
     "temper evaluate int8.plan --data photos/ --reference resnet50.onnx", add_evaluate},
    {"study", "build, evaluate and time one model in several precisions, side by side", kAccuracy,
     "temper study resnet50.onnx --data photos/ --precision fp32,int8 --max-drop 1% -o study", add_study},
    {"bench", "measure the speed of models or plans", kSpeed,
     "temper bench resnet50.onnx --batch 1,8 --json bench.json", add_bench, "a check failed", true},
    {"versus", "time your model in Temper and in other engines, in turns, with the answers compared", kSpeed,
     "temper versus resnet50.onnx --with onnxruntime,openvino", add_versus,
     "Temper is slower than one of the others, or answers differently"},
    {"compare", "compare plans or results by speed and outputs, with a verdict", kSpeed,
     "temper compare fp32.plan int8.plan --data photos/", add_compare,
     "the last is slower; with --strict, also unsure"},
    {"gate", "for CI: fail if a result is slower than its baseline by more than a limit", kSpeed,
     "temper gate baseline.json now.json --max-slowdown 3% --junit gate.xml", add_gate,
     "a result is slower than the limit allows, beyond doubt"},
    {"report", "show results, studies, profiles and explanations as one page, as images or as tables", kSpeed,
     "temper report bench.json profile.json -o report.html", add_report},
    {"import", "read the logs and command lines of trtexec into Temper's result format", kTensorRt,
     "temper import trtexec run.log -o run.json", add_import, "a run contradicts itself, or was not measured"},
    {"trtexec", "do what a command line of TensorRT's trtexec asks for, in its words; --help lists its flags",
     kTensorRt, "", add_trtexec, "", false, true},
    {"as-tensorrt", "run a command that finds Temper where it looks for TensorRT: trtexec, and Python's tensorrt",
     kTensorRt, "", add_as_tensorrt, "", false, true},
    {"serve", "serve plans by HTTP and gRPC: writes a model repository and becomes Triton's server", kServing,
     "temper serve resnet50.plan", add_serve},
    {"repository", "add versions to a model repository of Triton, each whole or not at all", kServing,
     "temper repository add models/ resnet50 resnet50.plan", add_repository},
    {"cache", "show, size and clear what Temper keeps between runs", kMachine, "temper cache --clear timings",
     add_cache},
    {"doctor", "show what Temper finds on this machine, and what is missing", kMachine, "temper doctor", add_doctor},
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

std::string no_such_verb(const std::string& word) {
  std::string names;
  for (const std::string& name : verb_names()) names += concat(names.empty() ? "" : ", ", name);
  return concat(
      word.empty() ? "a verb is needed" : concat("there is no verb '", word, "'", suggestion(word, verb_names())),
      "; the verbs are ", names, "; see temper --help");
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
    if (const CLI::Option* json = verb.get_option_no_throw("--json"); json && json->count() > 0 && !rest.empty())
      return concat(verb.get_name(), ": nothing is expected at '", rest.front(), "'; --json=", rest.front(),
                    " writes the tables there", see);
    return concat(verb.get_name(), ": ", std::string_view(error.what()), see);
  }
  const auto rest = app.remaining();
  return no_such_verb(rest.empty() ? "" : rest.front());
}

// What --json and its file are, before CLI11 sees the words: `--json` and `--json -` print to standard output, and
// `--json=FILE` writes there. bench takes `--json FILE`, too. `temper help VERB` is `temper VERB --help`.
struct GivenWords {
  std::vector<std::string> words;
  std::string json_file;
};
GivenWords words_of(int argc, char** argv) {
  GivenWords out;
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
      const std::string file = given[i].substr(7);
      if (!out.json_file.empty())
        fail(ErrorKind::usage, "--json=", out.json_file, " and ", given[i], " are two places to write to; give one");
      if (file != "-") out.json_file = file;
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
    printed_ = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    taken_ = std::tmpfile();
    if (!taken_ || dup2(fileno(taken_), STDOUT_FILENO) < 0)
      fail(ErrorKind::machine, "no temporary file can be made: ", std::strerror(errno));
  }
  bool is_given() const { return !path_.empty(); }
  // To standard output as it was before the file took its place.
  void print_beside(const std::string& text) const {
    if (!write_cleaned(printed_, text))
      fail(ErrorKind::machine, "what was printed could not be written: ", std::strerror(errno));
  }
  void write() const {
    if (path_.empty()) return;
    const std::string taken = concat("/proc/self/fd/", fileno(taken_));
    write_file_atomically({path_, kind_of_file(taken), false, "--json"}, read_file(taken));
  }

 private:
  std::string path_;
  FILE* taken_ = nullptr;
  int printed_ = -1;  // standard output as it was
};

// What --help and --version print.
std::string help_for(const CLI::App& app, const CLI::ParseError& asked) {
  if (dynamic_cast<const CLI::CallForHelp*>(&asked) == nullptr) return concat(std::string_view(asked.what()), "\n");
  const size_t width = terminal_width();
  const auto given = app.get_subcommands();
  if (given.empty()) return help_of_program(app, width);
  const auto verb = std::find_if(std::begin(verbs), std::end(verbs),
                                 [&](const Verb& one) { return one.name == given[0]->get_name(); });
  return help_of_verb(*given[0], verb->example, verb->failed, width);
}

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
  app.set_help_flag("-h,--help", "print this text, or that of a verb");
  app.set_version_flag("-V,--version", concat("temper ", version(), " (", revision(), ")"), "print the version");
  app.require_subcommand(1);
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
    CLI::App* sub = app.add_subcommand(verb.name, verb.summary)->group(verb.group);
    sub->set_help_flag("-h,--help", "print this text")->group(kEveryVerb);
    sub->add_flag("--json", context.json, "print tables as JSON; --json=FILE writes it there")->group(kEveryVerb);
    sub->add_flag("--quiet", quiet, "print only warnings and results")->group(kEveryVerb);
    sub->add_flag("-v,--verbose", verbose, "print more about each step, with times")->group(kEveryVerb);
    sub->add_option("--color", color, "when messages have colours; auto: on a terminal without NO_COLOR")
        ->check(CLI::IsMember({"auto", "always", "never"}))
        ->group(kEveryVerb);
    if (verb.runs)
      sub->add_flag("--nvtx", nvtx,
                    "name each step to a profiler by NVTX while it is launched, as TEMPER_NVTX=1 does: nsys profile "
                    "then shows the steps by their nodes")
          ->group(kEveryVerb);
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
      const GivenWords given = words_of(argc, argv);
      json_file.emplace(given.json_file, given.words);
      if (json_file->is_given())
        context.print_beside_json = [&](const std::string& text) { json_file->print_beside(text); };
      clean_standard_output();
      const bool own_words = argc > 1 && std::any_of(std::begin(verbs), std::end(verbs), [&](const Verb& verb) {
                               return verb.own_words && std::string_view(argv[1]) == verb.name;
                             });
      // Else --help would answer for a verb that there is not.
      const std::string first = given.words.empty() ? "-" : given.words[0];
      const std::vector<std::string> names = verb_names();
      if (!first.starts_with("-") && std::find(names.begin(), names.end(), first) == names.end())
        fail(ErrorKind::usage, no_such_verb(first));
      std::vector<const char*> words{argv[0]};
      for (const std::string& word : given.words) words.push_back(word.c_str());
      if (own_words) app.parse(2, argv);
      else app.parse(int(words.size()), words.data());
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() == 0) {  // --help, --version
        std::fputs(help_for(app, error).c_str(), stdout);
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
  if (context.exit_code > 1)
    return context.exit_code;  // of a program that a verb ran: nothing is known that a file could say
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
