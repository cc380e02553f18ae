// SPDX-License-Identifier: Apache-2.0
// Takes a trtexec command line apart.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace temper {

struct TrtexecArgument {
  std::string flag;   // "--onnx"; empty for a word that is no flag
  std::string value;  // behind '=', or the word
  bool has_value = false;
};

struct TrtexecCommand {
  std::vector<TrtexecArgument> arguments;

  bool has(std::string_view flag) const;
  std::optional<std::string> value(std::string_view flag) const;  // of its last use, as in trtexec
  std::optional<int64_t> integer(std::string_view flag) const;    // absent where it is no integer
};

// Reads the words of a command, without the word trtexec itself.
TrtexecCommand trtexec_command_of(const std::vector<std::string>& words);
// Splits as a shell would: quotes, backslashes, line continuations. What stands before the word trtexec (docker, sudo,
// variables) is left out; without that word everything counts. Stops at a shell's |, >, ; and &&.
TrtexecCommand parse_trtexec_command(std::string_view line);

using TrtexecShapes = std::map<std::string, std::vector<int64_t>>;
// "x:1x3x224x224,y:1" -> shapes by name. Absent where it is anything else.
std::optional<TrtexecShapes> parse_trtexec_shapes(std::string_view spec);

}  // namespace temper
