// SPDX-License-Identifier: Apache-2.0
// The program as a user calls it.
#pragma once
#include "../data/helpers.h"

namespace temper {

struct Outcome {
  int code = -1;  // -1: a signal ended it
  std::string out, err;
};

// Without the lines that say what other processes did meanwhile: no test may depend on a quiet machine.
std::string without_load(const std::string& text);

// Runs `temper ARGUMENTS` in `folder` with a cache folder of its own; `before` is shell text in front ("ulimit -f 8;").
Outcome temper(const std::string& folder, const std::string& arguments, const std::string& before = "");

}  // namespace temper
