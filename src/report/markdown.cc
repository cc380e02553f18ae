// SPDX-License-Identifier: Apache-2.0
// The report as markdown tables.
#include "base/concat.h"
#include "base/quote.h"
#include "report/report.h"
#include "report/text.h"

namespace temper {
namespace {

// Escapes what markdown or HTML would take for markup. '|' is the table's own affair.
std::string plain(std::string_view text) {
  std::string out;
  for (char c : printable(without_folders(text))) {
    if (c == '<') out += "&lt;";
    else if (c == '&') out += "&amp;";
    else if (c == '[' || c == ']' || c == '*' || c == '`' || c == '\\' || c == '_' || c == '~')
      out += concat("\\", std::string(1, c));
    else out += c;
  }
  return out;
}

std::string table_text(Table table) {
  for (auto& column : table.columns) column.name = plain(column.name);
  for (auto& row : table.rows)
    for (std::string& cell : row) cell = plain(cell);
  return markdown_table(table);
}

std::string list_text(const std::vector<Warned>& items) {
  std::string out;
  for (const Warned& item : items) out += concat("- **", plain(item.what), "**: ", plain(item.text), "\n");
  return out;
}

}  // namespace

std::string report_markdown(const Report& report) {
  std::string out;
  const auto section = [&](const std::string& title, const std::string& body) {
    if (!body.empty()) out += concat(out.empty() ? "" : "\n", "## ", plain(title), "\n\n", body);
  };
  if (const std::string verdict = verdict_of(report); !verdict.empty()) section("In short", plain(verdict) + "\n");
  if (const Table log = log_of(report); !log.rows.empty()) section("Runs", table_text(log));
  for (const Figure& figure : figures_of(report))
    section(figure.title, concat(plain(figure.text), "\n\n", table_text(figure.table)));
  section("Warnings", list_text(warnings_of(report)));
  if (const Table environment = environment_of(report); !environment.rows.empty())
    section("Environment", table_text(environment));
  std::string commands;
  // Indented by four: a fence could be closed by what stands inside.
  for (const Warned& command : commands_of(report))
    commands += concat(commands.empty() ? "" : "\n", plain(command.what), ":\n\n    ",
                       printable(without_folders(command.text)), "\n");
  section("Commands", commands);
  return out;
}

}  // namespace temper
