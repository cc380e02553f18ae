// SPDX-License-Identifier: Apache-2.0
// Writes the commands of Temper that do what a trtexec command does.
#pragma once
#include <string>
#include <vector>

#include "interop/trtexec_command.h"

namespace temper {

struct TemperCommands {
  std::vector<std::string> commands;     // to be run one after the other
  std::vector<std::string> differences;  // what they do not do, or do otherwise
};
TemperCommands temper_commands_for(const TrtexecCommand& command);

}  // namespace temper
