// SPDX-License-Identifier: Apache-2.0
// The options of a verb: what verbs use of CLI11. Its headers take seconds; command.cc, help.cc and main.cc alone
// compile them.
#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
class Validator;
}  // namespace CLI

namespace temper::cli {

// The form that an option's text must have. CLI11 refuses others with an error of usage; --help shows the kind.
struct Check {
  std::shared_ptr<const CLI::Validator> validator;
};
Check whole_number(int64_t least);
Check whole_number(int64_t least, int64_t most);
Check positive_number();  // CLI11's own check prints the largest double in its message
Check one_of(std::initializer_list<const char*> words);

// An option of a command, which owns it. Each function but the questions returns the option itself.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}
  Option check(const Check& check) const;
  Option required() const;
  Option type_name(const std::string& name) const;  // shown by --help in the place of TEXT or INT
  Option group(const std::string& name) const;      // under which --help lists it
  Option delimiter(char character) const;           // between the values of a list
  Option expected(int least, int most) const;       // how many values
  Option type_size(int words) const;                // how many words make one value
  Option allow_extra_args(bool allowed) const;      // whether a list takes more than one value without its name again
  Option capture_default_str() const;               // --help shows the value that the variable has now
  Option each(std::function<void(const std::string&)> function) const;  // called with the value, before the verb
  Option needs(const std::string& name) const;  // an error of usage where that option is not given, too
  Option needs(const Option& other) const;
  Option excludes(const std::string& name) const;  // an error of usage where that option is given, too

  bool given() const;  // on the command line
  std::string name() const;
  std::string group() const;
  bool operator==(const Option&) const = default;

 private:
  friend class Command;
  CLI::Option* option_;
};

// A verb, or a group of its options. It refers to what CLI11 owns, and may be copied.
class Command {
 public:
  explicit Command(CLI::App& app) : app_(&app) {}
  // `name`: "--batch", "-o,--output", or a word for an argument without a name. `value` is written when the command
  // line is read and must live until then. T: std::string, int, int64_t, uint64_t, double, or a vector of one of them
  // that a verb uses (the list is in command.cc).
  template <class T>
  Option add_option(const std::string& name, T& value, const std::string& help);
  Option add_flag(const std::string& name, bool& value, const std::string& help);
  bool has_option(const std::string& name) const;
  bool given(const std::string& name) const;  // the verb has that option, and the command line, too
  Option get_option(const std::string& name) const;
  std::vector<Option> get_options() const;
  void remove_option(const std::string& name);
  Command in(const std::string& group) const;  // the same; --help lists the options that it adds in that group
  Command add_option_group(const std::string& name, const std::string& help);
  void footer(const std::string& text);           // stands before the exit codes of --help
  void callback(std::function<void()> function);  // what the verb does

 private:
  CLI::App* app_;
  std::string group_ = "Options";
};

}  // namespace temper::cli
