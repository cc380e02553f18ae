// SPDX-License-Identifier: Apache-2.0
// Hands work over to Python: to the module `temper` of the python3 in the environment.
#pragma once
#include <cstdio>
#include <functional>
#include <optional>

#include "cli/verb.h"

namespace temper::cli {

// Options that the module parses for itself. The program keeps only `python`, the interpreter.
struct PythonFlags {
  std::string python = "python3", word;
  std::vector<std::string> words;
  bool flag = false;
};

// Options of a source model that export and verify share. `--python` is the program's own, all others are the module's:
// they are declared here for the help and for typing errors.
void add_source_options(Command& verb, PythonFlags& flags);

// Becomes `PYTHON -m temper VERB ARGUMENTS` with the arguments as the user gave them, less --python. Does not return,
// but with --json=FILE: it takes what that process prints then, and its exit code.
// Throws Error{unsupported} where that interpreter cannot be started; the module itself says what it lacks.
void hand_over_to_python(const std::string& python, Context& context);

// Runs `PYTHON -m temper WORDS` to its end; `line` gets each line of its standard output. Throws Error{unsupported}
// where the interpreter cannot be started or has no module, and Error{machine} where it fails.
void run_python(const std::string& python, const std::vector<std::string>& words,
                const std::function<void(const std::string&)>& line);

// A Python that answers: each line that it is told gives one line back. `PYTHON -m temper WORDS` must flush its lines.
class PythonTalk {
 public:
  // Throws Error{unsupported} where the interpreter cannot be started.
  PythonTalk(const std::string& python, const std::vector<std::string>& words);
  ~PythonTalk();  // it sees the end of its input, and is waited for
  PythonTalk(const PythonTalk&) = delete;
  PythonTalk& operator=(const PythonTalk&) = delete;
  std::optional<std::string> line();  // nothing where it has ended
  std::optional<std::string> ask(const std::string& line);

 private:
  int child_ = -1;
  FILE *to_ = nullptr, *from_ = nullptr;
};

// The interpreters that are tried where none is named: python3, and those that ./dev setup has made.
std::vector<std::string> usual_pythons();

}  // namespace temper::cli
