// SPDX-License-Identifier: Apache-2.0
// A verb is a function that adds its options to a CLI11 subcommand and sets its callback. THE verb list is in main.cc.
#pragma once
#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.h"

namespace temper::cli {

struct Context {
  bool json = false;                   // --json: tables as JSON on standard output
  int verbosity = 0;                   // -1 --quiet, 0, 1 -v
  std::string command;                 // as the user gave it, quoted for a shell: results keep it
  std::vector<std::string> arguments;  // as they were given, without the program's name
  int exit_code = 0;                   // a verb sets 1 where a check failed; errors set their own
};

// Where standard error is a terminal, progress is redrawn in place; elsewhere it is plain lines.
bool is_terminal();
void clear_progress();  // of the line that is shown, if any: messages begin where it did

// For the numbers of options: at least `least`. CLI11's own checks print the largest double in their messages.
CLI::Validator whole_number(int64_t least);

void add_build(CLI::App& verb, Context& context);
void add_bench(CLI::App& verb, Context& context);
void add_calibrate(CLI::App& verb, Context& context);
void add_compare(CLI::App& verb, Context& context);
void add_doctor(CLI::App& verb, Context& context);
void add_evaluate(CLI::App& verb, Context& context);
void add_explain(CLI::App& verb, Context& context);
void add_export(CLI::App& verb, Context& context);
void add_gate(CLI::App& verb, Context& context);
void add_import(CLI::App& verb, Context& context);
void add_inspect(CLI::App& verb, Context& context);
void add_profile(CLI::App& verb, Context& context);
void add_report(CLI::App& verb, Context& context);
void add_run(CLI::App& verb, Context& context);
void add_study(CLI::App& verb, Context& context);
void add_verify(CLI::App& verb, Context& context);
void add_zoo(CLI::App& verb, Context& context);

}  // namespace temper::cli
