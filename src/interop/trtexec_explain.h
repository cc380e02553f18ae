// SPDX-License-Identifier: Apache-2.0
// Explains old trtexec commands: what each flag meant, what became of it, how another version says it, and how Temper
// does.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "interop/trtexec_command.h"

namespace temper {

struct ExplainedFlag {
  std::string text;  // as written, "--workspace=4096"
  std::string meaning;
  std::string releases;  // "8.6.1 to 10.16", "since 10.0.1", and what a release does with it that no longer wants it
  std::string in_temper;
};

struct TrtexecExplanation {
  std::vector<ExplainedFlag> flags;      // in the order of the command
  std::string releases;                  // that accept the whole command: "8.6.1 to 10.16", "none"
  std::vector<std::string> commands;     // of Temper, to be run one after the other
  std::vector<std::string> differences;  // what they do not do, or do otherwise
};
TrtexecExplanation explain_trtexec(const TrtexecCommand& command);

struct TrtexecTranslation {
  std::string release;  // "10.16"
  std::string command;
  std::vector<std::string> lost;  // what cannot be expressed there: flag, then why and what to do
  std::vector<std::string> remarks;
};
// `to` and `from`: "8.6", "10" (its last release), "11", or a release such as "10.3". 11.0 turned defaults round, so
// what a command leaves out is written out where the target's default differs. Without `from` the flags decide; where
// they fit both sides, it is read as a command of 10.x or before, and a remark says so. Throws Error{usage} for other
// versions.
TrtexecTranslation translate_trtexec(const TrtexecCommand& command, std::string_view to, std::string_view from = "");

}  // namespace temper
