// SPDX-License-Identifier: Apache-2.0
// The program as a user calls it.
#pragma once
#include <sys/wait.h>

#include "../data/helpers.h"
#include "../paths.h"

namespace temper {

struct Outcome {
  int code = -1;  // -1: a signal ended it
  std::string out, err;
};

// Without the lines that say what other processes did meanwhile: no test may depend on a quiet machine.
inline std::string without_load(const std::string& text) {
  std::string kept;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    const std::string line = text.substr(at, end - at);
    if (line.find("other processes used") == line.npos) kept += line;
    at = end;
  }
  return kept;
}

// Runs `temper ARGUMENTS` in `folder` with a cache folder of its own; `before` is shell text in front ("ulimit -f 8;").
inline Outcome temper(const std::string& folder, const std::string& arguments, const std::string& before = "") {
  const std::string command = "cd '" + folder + "' && export XDG_CACHE_HOME='" + folder + "cache' && " + before + " '" +
                              paths::program() + "' " + arguments + " >out.txt 2>err.txt";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(folder + "out.txt"),
          without_load(read_file(folder + "err.txt"))};
}

}  // namespace temper
