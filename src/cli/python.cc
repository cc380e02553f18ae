// SPDX-License-Identifier: Apache-2.0
#include "cli/python.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/child_process.h"
#include "base/file.h"

namespace temper::cli {

namespace {

// Finds the module as `python3 -m temper` would, but not in the current folder, where anything may lie. A checkout and
// an installation carry it beside the program, for an interpreter that it was not installed into.
constexpr const char* kStart = R"(
import importlib.util, runpy, sys
beside = sys.argv.pop(1)
if sys.path and sys.path[0] == '':
    del sys.path[0]
def there():
    try:
        return importlib.util.find_spec('temper.export') is not None
    except ImportError:
        return False
if not there():
    for name in [n for n in sys.modules if n.split('.')[0] == 'temper']:
        del sys.modules[name]
    sys.path[:0] = [beside] if beside else []
    if not there():
        print(f"temper: {sys.executable} has no module 'temper'; install Temper's Python package into it, "
              "or name another interpreter with --python", file=sys.stderr)
        sys.exit(4)
runpy.run_module('temper', run_name='__main__', alter_sys=True)
)";

std::filesystem::path program() {
  std::error_code error;
  auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) fail(ErrorKind::machine, "/proc/self/exe cannot be read: ", error.message());
  return path;
}

std::string module_beside(const std::filesystem::path& program) {
  for (const char* folder : {"python", "../python", "../share/temper/python"}) {
    const auto candidate = (program.parent_path() / folder).lexically_normal();
    std::error_code error;
    if (std::filesystem::exists(candidate / "temper/versus/contest.py", error)) return candidate.string();
  }
  return {};
}

// A Python that runs Temper's module with these words. It is made before a fork: between that and the other program
// nothing may be allocated.
class CommandLine {
 public:
  CommandLine(const std::string& python, const std::string& beside, const std::vector<std::string>& words)
      : words_{python, "-c", kStart, beside} {
    words_.insert(words_.end(), words.begin(), words.end());
    argv_.reserve(words_.size() + 1);
    for (std::string& word : words_) argv_.push_back(word.data());
    argv_.push_back(nullptr);
  }
  CommandLine(const CommandLine&) = delete;
  // Returns, with errno, only where the interpreter cannot be started.
  void execute() const { execvp(argv_[0], argv_.data()); }

 private:
  std::vector<std::string> words_;
  std::vector<char*> argv_;
};

constexpr int kNotStarted = 127;  // the exit code of a child that could not become the interpreter, as of a shell

// What the child ended with; -1: a signal.
int ended_with(pid_t child) {
  const int status = wait_for_end(child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

void add_source_options(Command& verb, PythonFlags& flags) {
  verb.add_option("--batch", flags.word, "size of the first axis (1)").type_name("N");
  verb.add_option("--dynamic", flags.word,
                  "axes whose size stays open, separated by commas: batch, height, width, sequence")
      .type_name("AXES");
  verb.add_option("--shape", flags.words,
                  "shape of an input, e.g. 1x3x224x224 or ids=1x16:int64; give it once for each input")
      .type_name("[NAME=]SHAPE[:TYPE]")
      .allow_extra_args(false);
  verb.add_option("--weights", flags.word,
                  "weights to load: a state dict or weights file, or a name that the library downloads: DEFAULT or "
                  "IMAGENET1K_V1 of torchvision, 'pretrained' of timm, 'imagenet' of Keras; by default the weights are "
                  "random and nothing is downloaded")
      .type_name("FILE|NAME");
  verb.add_option("--lora", flags.word,
                  "PyTorch modules: a LoRA adapter in a folder that peft saved, which is merged into the weights")
      .type_name("FOLDER");
  verb.add_flag("--past", flags.flag,
                "language models of transformers: take past keys and values and give them back, which build --cache "
                "makes caches of");
  verb.add_flag("--half", flags.flag, "PyTorch modules: convert weights, inputs and outputs to fp16");
  verb.add_option("--temper", flags.word, "program of Temper that the check runs; by default this one")
      .type_name("PROGRAM");
  verb.add_option("--python", flags.python, "Python interpreter that has the framework")
      .type_name("PROGRAM")
      .capture_default_str();
}

void hand_over_to_python(const std::string& python, Context& context) {
  const std::filesystem::path self = program();
  std::vector<std::string> words;
  bool names_program = false;
  for (size_t i = 0; i < context.arguments.size(); ++i) {
    const std::string& word = context.arguments[i];
    if (word == "--python" || word == "--color") ++i;  // the program's own
    else if (word.rfind("--json=", 0) == 0) words.emplace_back("--json");
    else if (word.rfind("--python=", 0) != 0 && word.rfind("--color=", 0) != 0) words.push_back(word);
    names_program |= word == "--temper" || word.rfind("--temper=", 0) == 0;
  }
  if (!names_program) words.insert(words.end(), {"--temper", self.string()});
  const CommandLine command(python, module_beside(self), words);
  const auto not_started = [&](const std::string& cause) {
    fail(ErrorKind::unsupported, "'", python, "' cannot be started", cause,
         "; --python names the interpreter that has the framework, like --python venv/bin/python");
  };
  if (!context.print_beside_json) {
    command.execute();
    not_started(concat(" (", std::strerror(errno), ")"));
  }
  // The file is written by this process, when that one has ended.
  const pid_t child = fork();
  if (child < 0) fail(ErrorKind::machine, "no process can be started: ", std::strerror(errno));
  if (child == 0) {
    command.execute();
    _exit(kNotStarted);
  }
  context.exit_code = ended_with(child);
  if (context.exit_code == kNotStarted) not_started("");
  if (context.exit_code < 0) fail(ErrorKind::machine, "'", python, "' was ended by a signal");
}

void run_python(const std::string& python, const std::vector<std::string>& words,
                const std::function<void(const std::string&)>& line) {
  const CommandLine command(python, module_beside(program()), words);
  int ends[2];
  if (pipe(ends) != 0) fail(ErrorKind::machine, "no pipe to a Python can be made: ", std::strerror(errno));
  const pid_t child = fork();
  if (child < 0) fail(ErrorKind::machine, "no process can be started: ", std::strerror(errno));
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    command.execute();
    _exit(kNotStarted);
  }
  close(ends[1]);
  if (FILE* const out = fdopen(ends[0], "r")) {
    std::string text;
    for (int c; (c = std::fgetc(out)) != EOF;)
      if (c != '\n') text += char(c);
      else line(std::exchange(text, {}));
    std::fclose(out);
  }
  const int code = ended_with(child);
  if (code == kNotStarted)
    fail(ErrorKind::unsupported, "'", python,
         "' cannot be started; --python names a Python, like --python venv/bin/python");
  if (code == int(ErrorKind::unsupported)) fail(ErrorKind::unsupported, "'", python, "' has no module of Temper");
  if (code != 0) fail(ErrorKind::machine, "'", python, "' failed");
}

PythonTalk::PythonTalk(const std::string& python, const std::vector<std::string>& words) {
  const CommandLine command(python, module_beside(program()), words);
  int there[2], back[2];
  if (pipe2(there, O_CLOEXEC) != 0) fail(ErrorKind::machine, "no pipe to a Python can be made: ", std::strerror(errno));
  if (pipe2(back, O_CLOEXEC) != 0) {
    close(there[0]), close(there[1]);
    fail(ErrorKind::machine, "no pipe to a Python can be made: ", std::strerror(errno));
  }
  child_ = fork();
  if (child_ == 0) {
    dup2(there[0], STDIN_FILENO);
    dup2(back[1], STDOUT_FILENO);
    const int nowhere = open("/dev/null", O_WRONLY);  // what it lacks is an answer, too
    if (nowhere >= 0) dup2(nowhere, STDERR_FILENO);
    command.execute();
    _exit(kNotStarted);
  }
  close(there[0]), close(back[1]);
  to_ = fdopen(there[1], "w"), from_ = fdopen(back[0], "r");
  if (child_ < 0) fail(ErrorKind::machine, "no process can be started: ", std::strerror(errno));
}

PythonTalk::~PythonTalk() {
  if (to_) std::fclose(to_);
  if (from_) std::fclose(from_);
  if (child_ > 0) wait_for_end(child_);
}

std::optional<std::string> PythonTalk::line() {
  std::string text;
  for (int c; (c = std::fgetc(from_)) != EOF;) {
    if (c == '\n') return text;
    text += char(c);
  }
  return std::nullopt;
}

std::optional<std::string> PythonTalk::ask(const std::string& line) {
  if (std::fputs((line + "\n").c_str(), to_) < 0 || std::fflush(to_) != 0) return std::nullopt;
  return this->line();
}

std::vector<std::string> usual_pythons() {
  std::vector<std::string> pythons{"python3"};
  try {
    for (const char* name : {"/venv/bin/python", "/venv-frameworks/bin/python"})
      if (std::string path = cache_folder() + name; std::filesystem::exists(path)) pythons.push_back(std::move(path));
  } catch (const Error&) {  // no cache folder, or one that others may write to
  }
  return pythons;
}

}  // namespace temper::cli
