// SPDX-License-Identifier: Apache-2.0
#include "cli/command.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <optional>

#include "base/concat.h"
#include "base/parse.h"

namespace temper::cli {

namespace {

// `complaint` says what is wrong with a text, or nothing; --help shows the `kind`.
Check text_check(std::function<std::string(std::string&)> complaint, const std::string& kind) {
  return {std::make_shared<const CLI::Validator>(std::move(complaint), kind)};
}

}  // namespace

Check whole_number(int64_t least) {
  return text_check(
      [least](const std::string& text) {
        const auto value = parse_number<int64_t>(text);
        return value && *value >= least ? std::string()
                                        : concat("'", text, "' is not a whole number of at least ", least);
      },
      least > 0 ? "POSITIVE" : "NONNEGATIVE");
}
Check whole_number(int64_t least, int64_t most) {
  return text_check(
      [least, most](const std::string& text) {
        const auto value = parse_number<int64_t>(text);
        return value && *value >= least && *value <= most
                   ? std::string()
                   : concat("'", text, "' is not a whole number from ", least, " to ", most);
      },
      "");
}
Check positive_number() {
  return text_check(
      [](const std::string& text) {
        const auto value = parse_number<double>(text);
        const bool fits = value && std::isfinite(*value) && *value > 0;
        return fits ? std::string() : concat("'", text, "' is not a number above 0");
      },
      "POSITIVE");
}
Check one_of(std::initializer_list<const char*> words) {
  return {std::make_shared<const CLI::Validator>(CLI::IsMember(words))};
}

Option Option::check(const Check& check) const { return Option(option_->check(*check.validator)); }
Option Option::required() const { return Option(option_->required()); }
Option Option::type_name(const std::string& name) const { return Option(option_->type_name(name)); }
Option Option::group(const std::string& name) const { return Option(option_->group(name)); }
Option Option::each(std::function<void(const std::string&)> function) const {
  option_->each(std::move(function));
  return *this;
}
Option Option::delimiter(char character) const { return Option(option_->delimiter(character)); }
Option Option::expected(int least, int most) const { return Option(option_->expected(least, most)); }
Option Option::type_size(int words) const { return Option(option_->type_size(words)); }
Option Option::allow_extra_args(bool allowed) const { return Option(option_->allow_extra_args(allowed)); }
Option Option::capture_default_str() const { return Option(option_->capture_default_str()); }
Option Option::needs(const std::string& name) const { return Option(option_->needs(name)); }
Option Option::needs(const Option& other) const { return Option(option_->needs(other.option_)); }
Option Option::excludes(const std::string& name) const { return Option(option_->excludes(name)); }
bool Option::given() const { return bool(*option_); }
std::string Option::name() const { return option_->get_name(); }
std::string Option::group() const { return option_->get_group(); }

template <class T>
Option Command::add_option(const std::string& name, T& value, const std::string& help) {
  return Option(app_->add_option(name, value, help)->group(group_));
}
template Option Command::add_option(const std::string&, std::string&, const std::string&);
template Option Command::add_option(const std::string&, int&, const std::string&);
template Option Command::add_option(const std::string&, int64_t&, const std::string&);
template Option Command::add_option(const std::string&, uint64_t&, const std::string&);
template Option Command::add_option(const std::string&, double&, const std::string&);
template Option Command::add_option(const std::string&, std::vector<std::string>&, const std::string&);
template Option Command::add_option(const std::string&, std::vector<int64_t>&, const std::string&);
template Option Command::add_option(const std::string&, std::vector<int>&, const std::string&);
template Option Command::add_option(const std::string&, std::vector<double>&, const std::string&);
template Option Command::add_option(const std::string&, std::optional<int>&, const std::string&);
template Option Command::add_option(const std::string&, std::optional<uint64_t>&, const std::string&);

Option Command::add_flag(const std::string& name, bool& value, const std::string& help) {
  return Option(app_->add_flag(name, value, help)->group(group_));
}
bool Command::has_option(const std::string& name) const { return app_->get_option_no_throw(name) != nullptr; }
bool Command::given(const std::string& name) const { return has_option(name) && get_option(name).given(); }
Option Command::get_option(const std::string& name) const { return Option(app_->get_option(name)); }
std::vector<Option> Command::get_options() const {
  std::vector<Option> out;
  for (CLI::Option* option : app_->get_options()) out.emplace_back(option);
  return out;
}
void Command::remove_option(const std::string& name) { app_->remove_option(app_->get_option(name)); }
Command Command::add_option_group(const std::string& name, const std::string& help) {
  return Command(*app_->add_option_group(name, help));
}
Command Command::in(const std::string& group) const {
  Command same = *this;
  same.group_ = group;
  return same;
}
void Command::footer(const std::string& text) { app_->footer(text); }
void Command::callback(std::function<void()> function) { app_->callback(std::move(function)); }

}  // namespace temper::cli
