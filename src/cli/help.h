// SPDX-License-Identifier: Apache-2.0
// Prints the text of --help: usage, an example, options in groups, exit codes, in the width of the terminal.
#pragma once
#include <cstddef>
#include <string>

// No header of CLI11's is needed for what writes its help itself.
namespace CLI {
class App;
}  // namespace CLI

namespace temper::cli {

constexpr const char* kEveryVerb = "Options of every verb";  // their group, which comes last

// `width`: code points of a line, 0 for any number. `example`: one command, "" for none. `failed`: what exit code 1
// says.
std::string help_of_verb(const CLI::App& verb, const std::string& example, const std::string& failed, size_t width);
// A line of such a list: the name, and in a column of their own the words.
std::string help_entry(const std::string& name, const std::string& text, size_t width);
// The verbs in the groups that they are in.
std::string help_of_program(const CLI::App& program, size_t width);

}  // namespace temper::cli
