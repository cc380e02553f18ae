// SPDX-License-Identifier: Apache-2.0
// The report as one HTML page. Everything in it is inline, and its policy forbids it to load or run anything else:
// scripts are named by their hashes, so not even markup that came out of a file could run. Text from files is escaped
// all the same.
#include <algorithm>
#include <span>

#include "base/error.h"
#include "base/hash.h"
#include "base/parse.h"
#include "base/quote.h"
#include "base/version.h"
#include "report/report.h"
#include "report/text.h"
#include "report/theme.h"
#include "report/vega.h"

namespace temper {

// Embedded files (cmake/embed.cmake).
std::string_view report_page_css();
std::string_view report_page_js();

namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : printable(without_folders(text))) {
    if (c == '&') out += "&amp;";
    else if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '"') out += "&quot;";
    else if (c == '\'') out += "&#39;";
    else out += c;
  }
  return out;
}

// JSON inside <script type="application/json">: nothing in it may end the element or begin a comment. In JSON, '<'
// stands in strings only.
std::string escaped_json(const std::string& json) {
  std::string out;
  for (char c : json) {
    if (c == '<') out += "\\u003c";
    else out += c;
  }
  return out;
}

std::string sha256_source(std::string_view text) {
  const std::string digits = sha256_hex(std::as_bytes(std::span(text)));
  std::string bytes;
  for (size_t i = 0; i < digits.size(); i += 2)
    bytes += char(*parse_number<uint8_t>(std::string_view(digits).substr(i, 2), 16));
  constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out = "'sha256-";
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) group = group << 8 | (i + k < bytes.size() ? uint8_t(bytes[i + k]) : 0u);
    for (size_t k = 0; k < 4; ++k) out += i + k <= bytes.size() ? alphabet[group >> (18 - 6 * k) & 63] : '=';
  }
  return out + "'";
}

std::string html_table(const Table& table, const std::string& name) {
  if (table.rows.empty()) return "";
  std::string out = concat("<div class=\"scroll", table.rows.size() > 25 ? " tall" : "",
                           "\" tabindex=\"0\" role=\"region\" aria-label=\"", escaped(name), "\"><table><thead><tr>");
  for (const auto& column : table.columns)
    out += concat("<th scope=\"col\"", column.right ? " class=\"n\"" : "", ">", escaped(column.name), "</th>");
  out += "</tr></thead><tbody>\n";
  for (const auto& row : table.rows) {
    out += "<tr>";
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string& cell = row[c];
      std::string classes = table.columns[c].right ? "n" : cell.size() > 90 ? "long" : cell.size() > 24 ? "w" : "";
      if (cell.starts_with("n/a")) classes += " na";
      if (cell.ends_with(": not fit for a verdict") || cell.ends_with("(not fit for a verdict)") || cell == "OVER")
        classes += " bad";
      // The name of the column stands beside the cell where the screen is too narrow for a table (page.css).
      out += concat("<td", classes.empty() ? "" : concat(" class=\"", classes, "\""), " data-label=\"",
                    escaped(table.columns[c].name), "\">", escaped(cell), "</td>");
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

// Columns that say the same in every row, but for the first ones, become a line; so they are in nobody's way.
struct Folded {
  Table table;
  std::string same;
};
Folded folded(const Table& table, size_t kept) {
  Folded out;
  std::vector<size_t> stay;
  for (size_t c = 0; c < table.columns.size(); ++c) {
    const auto differs = [&](const std::vector<std::string>& row) { return row[c] != table.rows[0][c]; };
    if (c < kept || std::any_of(table.rows.begin(), table.rows.end(), differs)) stay.push_back(c);
    else if (!table.rows[0][c].empty())
      out.same += concat(out.same.empty() ? "" : " · ", table.columns[c].name, " ", table.rows[0][c]);
  }
  for (const size_t c : stay) out.table.columns.push_back(table.columns[c]);
  for (const auto& row : table.rows) {
    out.table.rows.emplace_back();
    for (const size_t c : stay) out.table.rows.back().push_back(row[c]);
  }
  return out;
}

std::string id_of(const std::string& name) {
  std::string id;
  for (char c : name) id += (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ? c : '-';
  return id;
}

std::string html_figure(const Figure& figure) {
  std::string out = concat("<section id=\"", id_of(figure.name), "\"><h2>", escaped(figure.title),
                           "</h2>\n<p class=\"text\">", escaped(figure.text), "</p>\n");
  if (!figure.spec.empty())
    out += concat("<figure><div class=\"chart\" role=\"img\" aria-label=\"", escaped(figure.title),
                  "; the table below has the numbers\"></div>\n<script type=\"application/json\">",
                  escaped_json(figure.spec), "</script></figure>\n");
  return out + html_table(figure.table, figure.title) + "</section>\n";
}

std::string html_list(const std::vector<Warned>& items) {
  std::string out = "<ul class=\"list\">\n";
  for (const Warned& item : items)
    out += concat("<li><strong>", escaped(item.what), ":</strong> ", escaped(item.text), "</li>\n");
  return out + "</ul>\n";
}

std::string models_of(const Report& report) {
  std::vector<std::string> models;
  const auto add = [&](const std::string& path) {
    if (const std::string name = file_name_of(path); std::find(models.begin(), models.end(), name) == models.end())
      models.push_back(name);
  };
  for (const ReportedStudy& study : report.studies) add(study.model);
  for (const ReportedResult& result : report.results)
    for (const BenchRun& run : result.result.runs) add(run.model);
  for (const ReportedProfile& profile : report.profiles) add(profile.plan);
  for (const ReportedExplanation& explanation : report.explanations)
    for (const ExplainedEngine& engine : explanation.engines) add(engine.name);
  for (const ReportedSuite& suite : report.suites)
    for (const SuiteRow& row : suite.rows) add(row.model);
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(models.size(), 3); ++i) text += concat(i ? ", " : "", models[i]);
  return models.size() > 3 ? concat(text, " and ", models.size() - 3, " more") : text;
}

std::string counted(size_t count, const char* one, const char* many) {
  return concat(count, " ", count == 1 ? one : many);
}

// "2026-05-01T12:30:00Z" -> "2026-05-01 12:30 UTC"
std::string day_of(const std::string& time) {
  return time.size() == 20 && time[10] == 'T' && time[19] == 'Z'
             ? concat(time.substr(0, 10), " ", time.substr(11, 5), " UTC")
             : time;
}

std::string lead_of(const Report& report) {
  size_t runs = 0;
  std::vector<std::string> machines;
  for (const ReportedResult& result : report.results) {
    runs += result.result.runs.size();
    const Environment& e = result.result.environment;
    for (const BenchRun& run : result.result.runs) {
      const std::string machine = run.imported && run.backend == "tensorrt"
                                      ? run.imported->device_name.value_or("a device that its log does not name")
                                      : e.cpu_model;
      if (!machine.empty() && std::find(machines.begin(), machines.end(), machine) == machines.end())
        machines.push_back(machine);
    }
  }
  std::string text;
  const auto part = [&](const std::string& words) { text += concat(text.empty() ? "" : " · ", words); };
  if (runs) part(counted(runs, "run", "runs"));
  if (!report.studies.empty()) part(counted(report.studies.size(), "study", "studies"));
  if (!report.profiles.empty()) part(counted(report.profiles.size(), "profile", "profiles"));
  if (!report.suites.empty()) part(counted(report.suites.size(), "suite", "suites"));
  size_t engines = 0;
  for (const ReportedExplanation& explanation : report.explanations) engines += explanation.engines.size();
  if (engines) part(counted(engines, "engine explained", "engines explained"));
  for (size_t i = 0; i < std::min<size_t>(machines.size(), 3); ++i) part(machines[i]);
  if (!report.results.empty()) part(day_of(report.results.front().result.environment.time));
  return text;
}

constexpr const char* kReading = R"(<section id="reading"><h2>How to read the figures</h2><dl>
<dt>median, p90, p95, p99</dt><dd>Half, 90 %, 95 % and 99 % of the runs took no longer. Nearest ranks: each is a time
that was measured. A percentile appears only when, with 99 % confidence, at least one sample lies beyond it: 44, 90
and 459 samples.</dd>
<dt>95 % interval of the median</dt><dd>From order statistics, for any distribution; wider where successive runs are
alike. Two runs whose intervals overlap may be equally fast; compare them in turns (temper compare) to know.</dd>
<dt>first (cold) run</dt><dd>The first call after loading. It is in none of the other figures.</dd>
<dt>throughput</dt><dd>Items per second: batch × runs per second, one run after the other (closed loop, one stream)
unless said otherwise. In an open loop requests come at a rate, ready or not, and latency counts from the moment one
was meant to be sent.</dd>
<dt>energy per item</dt><dd>What the GPU draws by its own word, or all of the CPU's packages by their counters (RAPL)
whoever works there, over items per second. Shown where the machine lets it be read.</dd>
<dt>n/a</dt><dd>Not measured, or too few samples to say; the reason stands beside it. Nothing is estimated.</dd>
<dt>max of 29</dt><dd>A percentile that another program took from so few queries that it is simply the largest of
them. Shown as its log has it, used in no verdict.</dd>
</dl></section>
)";

}  // namespace

std::string report_html(const Report& report) {
  if (vega_bundle().empty())
    fail(ErrorKind::unsupported,
         "this temper was built without Vega-Lite's JavaScript, which pages need; build it with ./dev build, or write "
         "--markdown or --csv");
  const std::vector<Figure> figures = figures_of(report);
  const std::string css = theme_css() + std::string(report_page_css());
  const std::string policy =
      concat("default-src 'none'; script-src ", sha256_source(vega_bundle()), " ", sha256_source(report_page_js()),
             "; style-src ", sha256_source(css), "; base-uri 'none'; form-action 'none'");
  const std::string title = concat("Measurements of ", models_of(report));

  std::string out = concat(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" "
      "content=\"",
      policy,
      "\">\n<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<meta name=\"referrer\" "
      "content=\"no-referrer\">\n<title>",
      escaped(title), "</title>\n<style>", css, "</style></head>\n<body>\n<header><h1>", escaped(title), "</h1>\n");
  if (const std::string verdict = verdict_of(report); !verdict.empty())
    out += concat("<p class=\"verdict\">", escaped(verdict), "</p>\n");
  out += concat("<p class=\"lead\">", escaped(lead_of(report)), "</p>\n");
  const std::vector<Warned> warnings = warnings_of(report);
  std::vector<Warned> unfit;
  for (const Warned& warning : warnings)
    if (warning.unfit) unfit.push_back(warning);
  if (!unfit.empty())
    out += concat("<div class=\"alarm\" role=\"note\"><h2>",
                  counted(unfit.size(), "run is not fit for a verdict", "runs are not fit for a verdict"), "</h2>",
                  html_list(unfit), "</div>\n");

  const Table log = log_of(report), environment = environment_of(report);
  const std::vector<Warned> commands = commands_of(report), notes = notes_of(report);
  out += "<nav aria-label=\"Contents\"><details><summary>Contents</summary><ul>";
  const auto entry = [&](const std::string& id, const std::string& name) {
    out += concat("<li><a href=\"#", id, "\">", escaped(name), "</a></li>");
  };
  if (!log.rows.empty()) entry("runs", "Runs");
  for (const Figure& figure : figures) entry(id_of(figure.name), figure.title.substr(0, figure.title.find(", in ")));
  if (!warnings.empty()) entry("warnings", concat("Warnings (", warnings.size(), ")"));
  if (!environment.rows.empty()) entry("environment", "Environment");
  if (!commands.empty()) entry("commands", "Commands");
  entry("reading", "How to read the figures");
  out +=
      "</ul></details></nav></header>\n<noscript><p>The pictures need JavaScript; the tables have the same "
      "numbers.</p></noscript>\n<main>\n";
  if (!log.rows.empty()) {
    // What names a run, median, interval and throughput stay in any case.
    const auto first = std::find_if(log.columns.begin(), log.columns.end(),
                                    [](const Table::Column& column) { return column.name == "remarks"; });
    const Folded runs = folded(log, size_t(first - log.columns.begin()));
    out += concat("<section id=\"runs\"><h2>Runs: latency in milliseconds, throughput in items per second</h2>\n",
                  html_table(runs.table, "Runs"),
                  runs.same.empty()
                      ? ""
                      : concat("<p class=\"text\">",
                               log.rows.size() > 1 ? "The same for all: " : "Also: ", escaped(runs.same), "</p>\n"),
                  "</section>\n");
  }
  for (const Figure& figure : figures) out += html_figure(figure);
  if (!warnings.empty())
    out += concat("<section id=\"warnings\"><h2>Warnings</h2>\n", html_list(warnings), "</section>\n");
  if (!environment.rows.empty())
    out += concat("<section id=\"environment\"><h2>Environment of the measurements</h2>\n",
                  html_table(environment, "Environment"), "</section>\n");
  if (!notes.empty())
    out += concat("<details><summary>Notes on single figures</summary>\n", html_list(notes), "</details>\n");
  if (!commands.empty()) {
    out += "<section id=\"commands\"><h2>Commands</h2>\n";
    for (const Warned& command : commands)
      out += concat("<p>", escaped(command.what), "</p><pre>", escaped(command.text), "</pre>\n");
    out += "</section>\n";
  }
  out += concat(kReading, "</main>\n<footer>Made by temper ", escaped(version()), " report from ");
  bool first = true;
  const auto file = [&](const std::string& name) {
    out += concat(first ? "" : ", ", "<code>", escaped(file_name_of(name)), "</code>"), first = false;
  };
  for (const auto& result : report.results) file(result.file);
  for (const auto& study : report.studies) file(study.file);
  for (const auto& profile : report.profiles) file(profile.file);
  for (const auto& explanation : report.explanations) file(explanation.file);
  for (const auto& suite : report.suites) file(suite.file);
  out += concat(
      ". Pictures by Vega-Lite (BSD-3-Clause, University of Washington Interactive Data Lab). This page loads nothing "
      "from anywhere.</footer>\n<script type=\"application/json\" id=\"theme\">",
      escaped_json(theme_config()), "</script>\n<script>", vega_bundle(), "</script>\n<script>", report_page_js(),
      "</script>\n</body></html>\n");
  return out;
}

}  // namespace temper
