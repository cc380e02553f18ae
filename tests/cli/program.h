// SPDX-License-Identifier: Apache-2.0
// The program as a user calls it.
#pragma once
#include <sys/wait.h>

#include "../data/helpers.h"

namespace temper {

struct Outcome {
  int code = -1;  // -1: a signal ended it
  std::string out, err;
};

// Runs `temper ARGUMENTS` in `folder` with a cache folder of its own; `before` is shell text in front ("ulimit -f 8;").
inline Outcome temper(const std::string& folder, const std::string& arguments, const std::string& before = "") {
  const std::string command = "cd '" + folder + "' && export XDG_CACHE_HOME='" + folder + "cache' && " + before + " '" TEMPER_PROGRAM "' " +
                              arguments + " >out.txt 2>err.txt";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(folder + "out.txt"), read_file(folder + "err.txt")};
}

}  // namespace temper
