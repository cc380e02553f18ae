// SPDX-License-Identifier: Apache-2.0
#include "program.h"

#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>

#include "../paths.h"

namespace temper {

std::string without_load(const std::string& text) {
  std::string kept;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    const std::string line = text.substr(at, end - at);
    if (line.find("other processes used") == line.npos) kept += line;
    at = end;
  }
  return kept;
}

Outcome temper(const std::string& folder, const std::string& arguments, const std::string& before) {
  const std::string command = "cd '" + folder + "' && export XDG_CACHE_HOME='" + folder + "cache' && " + before + " '" +
                              paths::program() + "' " + arguments + " >out.txt 2>err.txt";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(folder + "out.txt"),
          without_load(read_file(folder + "err.txt"))};
}

}  // namespace temper
