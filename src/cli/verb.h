// SPDX-License-Identifier: Apache-2.0
// A verb is a function that adds its options to a command and sets its callback. THE verb list is in main.cc.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/command.h"

namespace temper::cli {

struct Context {
  bool json = false;                   // --json: tables as JSON on standard output
  int verbosity = 0;                   // -1 --quiet, 0, 1 -v
  std::string command;                 // as the user gave it, quoted for a shell: results keep it
  std::vector<std::string> arguments;  // as they were given, without the program's name
  // --json=FILE: prints lines to standard output, which the file leaves to them. Empty without it.
  std::function<void(const std::string&)> print_beside_json;
  int exit_code = 0;  // a verb sets 1 where a check failed; errors set their own
};

// Where standard error is a terminal, progress is redrawn in place; elsewhere it is plain lines.
bool is_terminal();
void clear_progress();  // of the line that is shown, if any: messages begin where it did

void add_build(Command& verb, Context& context);
void add_as_tensorrt(Command& verb, Context& context);
void add_bench(Command& verb, Context& context);
void add_cache(Command& verb, Context& context);
void add_calibrate(Command& verb, Context& context);
void add_compare(Command& verb, Context& context);
void add_doctor(Command& verb, Context& context);
void add_evaluate(Command& verb, Context& context);
void add_explain(Command& verb, Context& context);
void add_export(Command& verb, Context& context);
void add_gate(Command& verb, Context& context);
void add_generate(Command& verb, Context& context);
void add_import(Command& verb, Context& context);
void add_inspect(Command& verb, Context& context);
void add_kit(Command& verb, Context& context);
void add_profile(Command& verb, Context& context);
void add_quantize(Command& verb, Context& context);
void add_report(Command& verb, Context& context);
void add_repository(Command& verb, Context& context);
void add_run(Command& verb, Context& context);
void add_serve(Command& verb, Context& context);
void add_split(Command& verb, Context& context);
void add_study(Command& verb, Context& context);
void add_trtexec(Command& verb, Context& context);
void add_versus(Command& verb, Context& context);
void add_verify(Command& verb, Context& context);
void add_zoo(Command& verb, Context& context);

}  // namespace temper::cli
