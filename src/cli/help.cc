// SPDX-License-Identifier: Apache-2.0
#include "cli/help.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

#include "base/concat.h"
#include "bench/table_fit.h"

namespace temper::cli {

namespace {

constexpr size_t kColumn = 30;  // what an option means stands from here on

// "N", "TEXT", "crop|stretch|letterbox": what stands behind a name. Empty for flags.
std::string value_of(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return "";
  std::string type = option.get_type_name();  // CLI11 puts the check behind it: "INT:POSITIVE", "TEXT:{a,b}"
  for (const auto& [cli11, shown] : {std::pair("UINT", "N"), {"INT", "N"}, {"FLOAT", "NUMBER"}, {"TEXT", "TEXT"}}) {
    if (type != cli11 && !type.starts_with(concat(cli11, ":"))) continue;
    const size_t open = type.find('{'), close = type.rfind('}');
    std::string choices = open < close && close != type.npos ? type.substr(open + 1, close - open - 1) : "";
    std::replace(choices.begin(), choices.end(), ',', '|');
    type = choices.empty() ? shown : choices;
    break;
  }
  const bool several = option.get_expected_max() > 1;
  return concat(type, !several ? "" : option.get_delimiter() ? ",..." : " ...");
}

// What CLI11 knows beside the description.
std::string conditions_of(const CLI::Option& option) {
  std::string text;
  const auto add = [&](const std::string& part) { text += concat(text.empty() ? "" : "; ", part); };
  const auto names = [](const std::set<CLI::Option*>& options) {
    std::vector<std::string> sorted;
    for (const CLI::Option* one : options) sorted.push_back(one->get_name());
    std::sort(sorted.begin(), sorted.end());
    std::string list;
    for (const std::string& name : sorted) list += concat(list.empty() ? "" : ", ", name);
    return list;
  };
  if (option.get_required()) add("required");
  if (!option.get_default_str().empty()) add("default " + option.get_default_str());
  if (!option.get_needs().empty()) add("with " + names(option.get_needs()));
  if (!option.get_excludes().empty()) add("not with " + names(option.get_excludes()));
  return text.empty() ? "" : concat(" (", text, ")");
}

std::string entry(const CLI::Option& option, bool positional, size_t width) {
  const std::string name = positional ? option.get_name(true, false) : option.get_name(false, true),
                    value = value_of(option);
  // Of an argument the name says what it is; that it may come several times does not follow from it.
  const bool several = option.get_expected_max() > 1;
  return help_entry(positional      ? concat(name, several ? " ..." : "")
                    : value.empty() ? name
                                    : concat(name, " ", value),
                    option.get_description() + conditions_of(option), width);
}

std::string title(const std::string& text) { return concat("\n", text, ":\n"); }

// Those of the verb itself come first, and what all verbs have last.
std::string option_groups(const CLI::App& verb, size_t width) {
  std::vector<std::string> groups = verb.get_groups();
  std::stable_sort(groups.begin(), groups.end(), [](const std::string& a, const std::string& b) {
    const auto rank = [](const std::string& name) { return name == "Options" ? 0 : name == kEveryVerb ? 2 : 1; };
    return rank(a) < rank(b);
  });
  const auto listed = [&](const std::string& group) {
    std::string text;
    for (const CLI::Option* option : verb.get_options())
      if (option->get_group() == group && option->nonpositional()) text += entry(*option, false, width);
    return text.empty() ? "" : title(group) + text;
  };
  std::string out, last;
  for (const std::string& group : groups) {
    if (group.empty()) continue;  // hidden
    (group == kEveryVerb ? last : out) += listed(group);
  }
  for (const CLI::App* part : verb.get_subcommands({})) {  // groups with a condition of their own
    if (!part->get_name().empty()) continue;
    out += title(part->get_group());
    if (!part->get_description().empty()) out += wrapped(part->get_description(), 2, "", width);
    for (const CLI::Option* option : part->get_options()) out += entry(*option, false, width);
  }
  return out + last;
}

std::string exit_codes(const std::string& failed, size_t width) {
  std::string out = "\nExit codes:\n";
  for (const auto& [code, meaning] :
       {std::pair("0", std::string("done")),
        {"1", failed},
        {"2", "wrong usage"},
        {"3", "a file is missing, damaged or not what it should be"},
        {"4", "not supported, not installed, or a plan made for another machine or version"},
        {"5", "the machine failed (memory, disk, device)"}})
    out += wrapped(meaning, 5, concat("  ", code, "  "), width);
  return out;
}

// Lines stay lines.
std::string wrapped_lines(const std::string& text, size_t width) {
  std::string out;
  for (size_t at = 0, end; at < text.size(); at = end + 1) {
    end = std::min(text.find('\n', at), text.size());
    out += wrapped(text.substr(at, end - at), 0, "", width);
  }
  return out;
}

}  // namespace

std::string help_entry(const std::string& name, const std::string& text, size_t width) {
  const std::string head = "  " + name;
  if (width_of(head) + 2 <= kColumn) return wrapped(text, kColumn, head, width);
  return head + "\n" + wrapped(text, kColumn, "", width);
}

std::string help_of_verb(const CLI::App& verb, const std::string& example, const std::string& failed, size_t width) {
  std::string usage = concat("temper ", verb.get_name(), " [OPTIONS]"), arguments;
  for (const CLI::Option* option : verb.get_options()) {
    if (!option->get_positional()) continue;
    const std::string name = concat(option->get_name(true, false), option->get_expected_max() > 1 ? "..." : "");
    usage += option->get_required() ? concat(" ", name) : concat(" [", name, "]");
    arguments += entry(*option, true, width);
  }
  return concat(wrapped(verb.get_description(), 0, "", width), wrapped(usage, 0, "Usage: ", width),
                example.empty() ? "" : concat(title("Example"), wrapped(example, 2, "", width)),
                arguments.empty() ? "" : title("Arguments"), arguments, option_groups(verb, width),
                verb.get_footer().empty() ? "" : concat("\n", wrapped_lines(verb.get_footer(), width)),
                exit_codes(failed, width));
}

std::string help_of_program(const CLI::App& program, size_t width) {
  std::string out = concat(wrapped(program.get_description(), 0, "", width), "Usage: temper VERB [OPTIONS]\n");
  std::string group;
  for (const CLI::App* verb : program.get_subcommands({})) {
    if (verb->get_group() != group) out += title(group = verb->get_group());
    out += help_entry(verb->get_name(), verb->get_description(), width);
  }
  out += title("Options");
  for (const CLI::Option* option : program.get_options()) out += entry(*option, false, width);
  out += "\ntemper VERB --help says all of a verb.\n";
  return out + exit_codes("a check failed", width);
}

}  // namespace temper::cli
