// SPDX-License-Identifier: Apache-2.0
#include "bench/explain_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/concat.h"
#include "base/quote.h"
#include "bench/table.h"
#include "bench/table_fit.h"

namespace temper {

namespace {

constexpr size_t kShownNames = 3;
constexpr double kSmallGain = 0.005;

std::string ms_text(double ms) { return concat(format_number(ms, 4), " ms"); }
std::string name_text(const std::string& precision) {
  return precision == "conversions" ? precision : upper(precision);
}

std::string shown(const std::string& name) {
  const std::string out = printable(name);
  constexpr size_t longest = 72;
  if (out.size() <= longest) return out;
  size_t cut = longest - 3;
  while (cut > 0 && (static_cast<unsigned char>(out[cut]) & 0xc0) == 0x80) --cut;  // not inside a character
  return concat(out.substr(0, cut), "...");
}

std::string gain_text(const Finding& f) {
  if (!f.gain_share) return "gain not known";
  return concat(f.at_most ? "at most " : "about ", percent(*f.gain_share),
                f.gain_ms ? concat(", ", format_number(*f.gain_ms, 3), " ms") : "");
}

std::string layers_text(const Finding& f, TextStyle style) {
  std::string text;
  auto shown = [&](const std::string& name) {
    if (style == TextStyle::terminal) return temper::shown(name);
    std::string quoted = concat('`', temper::shown(name), '`');  // stars and brackets in names are no markup
    std::replace(quoted.begin() + 1, quoted.end() - 1, '`', '\'');
    return quoted;
  };
  for (size_t i = 0; i < f.layers.size() && i < kShownNames; ++i) text += concat(i ? ", " : "", shown(f.layers[i]));
  if (f.layers.size() > kShownNames) text += concat(" and ", f.layers.size() - kShownNames, " more");
  return text;
}

std::string title(const std::string& text, TextStyle style, std::string_view mark = "## ") {
  return style == TextStyle::markdown ? concat(mark, text, "\n\n") : concat(text, "\n");
}

std::string head_of(const Explanation& e) {
  std::string text;
  if (e.run_ms) text += concat(ms_text(*e.run_ms), " a run (median of ", e.runs, ")");
  if (e.is_timed) text += concat(text.empty() ? "" : ", ", ms_text(e.layers_ms), " in the layers when each is timed");
  return text;
}

// How the text is laid out: markdown is left to whoever shows it.
struct Page {
  TextStyle style;
  size_t width;
  // The first line begins with `head`, the others stand behind `indent` blanks.
  std::string lines(const std::string& text, size_t indent, const std::string& head = "") const {
    return style == TextStyle::markdown ? concat(head, text, "\n") : wrapped(text, indent, head, width);
  }
  std::string table(const Table& table) const {
    return style == TextStyle::markdown ? markdown_table(table) + "\n" : terminal_table(table, width);
  }
};

std::vector<std::string> share_cells(const std::vector<TimeShare>& shares, size_t at, bool precision, bool timed) {
  if (at >= shares.size()) return {"", "", "", ""};
  const TimeShare& s = shares[at];
  return {precision ? name_text(s.name) : s.name, concat(s.layers), timed ? format_number(s.ms) : "n/a",
          timed ? percent(s.share) : "n/a"};
}

// Precisions and kinds side by side, or one below the other where there is no room for that.
std::string shares_text(const Explanation& e, const Page& page) {
  const auto columns = [](const char* name) {
    return std::vector<Table::Column>{{name, false}, {"layers"}, {"ms"}, {"share"}};
  };
  Table precisions{columns("precision"), {}}, kinds{columns("kind"), {}}, both = precisions;
  both.columns.emplace_back(Table::Column{"", false});
  both.columns.insert(both.columns.end(), kinds.columns.begin(), kinds.columns.end());
  for (size_t i = 0; i < std::max(e.precisions.size(), e.kinds.size()); ++i) {
    const std::vector<std::string> left = share_cells(e.precisions, i, true, e.is_timed),
                                   right = share_cells(e.kinds, i, false, e.is_timed);
    if (i < e.precisions.size()) precisions.rows.push_back(left);
    if (i < e.kinds.size()) kinds.rows.push_back(right);
    std::vector<std::string> row = left;
    row.emplace_back();
    row.insert(row.end(), right.begin(), right.end());
    both.rows.push_back(std::move(row));
  }
  const std::string wide = terminal_table(both);
  if (page.style == TextStyle::markdown || !page.width || width_of(wide.substr(0, wide.find('\n'))) <= page.width)
    return page.table(both);
  return concat(page.table(precisions), "\n", page.table(kinds));
}

std::string finding_text(const Finding& f, size_t number, const Page& page) {
  const bool markdown = page.style == TextStyle::markdown;
  const std::string bold = markdown ? "**" : "", indent = markdown ? "   - " : "   ";
  std::string out = page.lines(concat(bold, f.what, bold, ": ", gain_text(f)), 3, concat(number, ". ")), evidence;
  for (const std::string& line : f.evidence) evidence += concat(evidence.empty() ? "" : "; ", printable(line));
  auto line = [&](std::string_view name, const std::string& text) {
    if (!text.empty()) out += page.lines(text, name.empty() ? 3 : 5, concat(indent, name));
  };
  line("", evidence);
  line("change: ", f.change);
  line("estimated: ", f.estimate);
  line("layers: ", layers_text(f, page.style));
  return out;
}

}  // namespace

std::string text_of(const Explanation& e, TextStyle style, bool all, size_t width) {
  const Page page{style, width};
  const bool markdown = style == TextStyle::markdown;
  const std::string head = head_of(e), gap = markdown ? "\n" : "";
  std::string out = markdown ? concat("## ", shown(e.name), "\n\n", head, head.empty() ? "" : "\n\n")
                             : page.lines(concat(shown(e.name), head.empty() ? "" : ": ", head), 0);
  for (const Finding& f : e.findings)
    if (f.id == "reference_steps")
      out += page.lines(concat(f.what, ": ", layers_text(f, style), ", ", printable(f.evidence.at(0)), "."), 2,
                        "Defect: ") +
             gap;
  std::string asked;
  if (!e.asked.empty())
    asked =
        concat("Asked for ", upper(e.asked), e.asked_is_lowest ? " (the lowest seen; --asked says another). " : ". ");
  out += page.lines(asked + e.answer, 0) + gap;
  for (const std::string& note : e.notes) out += page.lines(printable(note) + ".", 2, "Note: ") + gap;
  out += concat("\n", shares_text(e, page), markdown ? "" : "\n");

  size_t number = 0, small = 0;
  for (const Finding& f : e.findings) {
    if (!all && f.gain_share && *f.gain_share < kSmallGain) {
      ++small;
      continue;
    }
    if (!number) out += title("What to change, by gain", style, "### ");
    out += finding_text(f, ++number, page);
  }
  if (number > 0) out += gap;
  if (!number) out += concat("Nothing found that would make it much faster.\n", gap);
  if (small)
    out +=
        concat(small, small == 1 ? " more finding is" : " more findings are", " worth less than 0.5 % (--all)\n", gap);
  if (number > 1) out += concat("Shares are of the time of all layers. Gains overlap: they do not add up.\n", gap);
  return out;
}

std::string text_of(const ExplainedSet& set, TextStyle style, size_t width) {
  const Page page{style, width};
  const bool markdown = style == TextStyle::markdown;
  Table table{{{"engine", false},
               {"asked", false},
               {"median ms", true, 9},
               {"speed", true, 9},
               {"layers ms", true, 6},
               {"reformats, Q/DQ", true, 7},
               {"wider outputs", true, 6},
               {"wider residuals", true, 4},
               {"wider average pools", true, 3}},
              {}};
  const Explanation* first = nullptr;
  for (const Explanation& e : set.engines) {
    const bool timed = e.run_ms && *e.run_ms > 0;
    if (!first && timed) first = &e;
    const ProductCounts& n = e.products;
    table.rows.push_back({shown(e.name), upper(e.asked), e.run_ms ? format_number(*e.run_ms) : "n/a",
                          timed ? concat(format_number(*first->run_ms / *e.run_ms, 3), "x") : "n/a",
                          e.is_timed ? format_number(e.layers_ms) : "n/a",
                          e.is_timed ? percent(e.conversions_share) : "n/a", concat(n.writing_wider, " of ", n.all),
                          concat(n.residuals_wider, " of ", n.residuals),
                          concat(n.averages_wider, " of ", n.averages)});
  }
  std::string out = concat(title("Side by side", style), page.table(table));
  out += "wider: of more bits than asked for\n\n";
  for (const std::string& answer : set.answers) out += page.lines(answer, markdown ? 2 : 0, markdown ? "- " : "");
  if (!set.answers.empty()) out += "\n";
  for (const EngineStep& step : set.steps) {
    out += page.lines(step.headline, markdown ? 2 : 0, markdown ? "- " : "");
    for (const std::string& why : step.why) out += page.lines(why, 4, markdown ? "  - " : "  ");
  }
  return out;
}

namespace {
using Json = nlohmann::ordered_json;
template <class T>
Json known(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}
Json shares_json(const std::vector<TimeShare>& shares, bool timed) {
  Json list = Json::array();
  for (const TimeShare& s : shares)
    list.push_back({{"name", s.name},
                    {"layers", s.layers},
                    {"ms", timed ? Json(s.ms) : Json(nullptr)},
                    {"share", timed ? Json(s.share) : Json(nullptr)}});
  return list;
}
}  // namespace

Json json_of(const Explanation& e) {
  const ProductCounts& n = e.products;
  Json findings = Json::array();
  for (const Finding& f : e.findings)
    findings.push_back({{"id", f.id},
                        {"what", f.what},
                        {"evidence", f.evidence},
                        {"change", f.change},
                        {"gain_share", known(f.gain_share)},
                        {"gain_ms", known(f.gain_ms)},
                        {"at_most", f.at_most},
                        {"estimate", f.estimate},
                        {"layers", f.layers}});
  const auto time = [&](double ms) { return e.is_timed ? Json(ms) : Json(nullptr); };
  return {{"name", e.name},
          {"source", e.is_plan ? "temper" : "tensorrt"},
          {"asked", e.asked.empty() ? Json(nullptr) : Json(e.asked)},
          {"asked_is_lowest_seen", e.asked_is_lowest},
          {"run_ms", known(e.run_ms)},
          {"runs", e.runs},
          {"enqueue_ms", known(e.enqueue_ms)},
          {"layers_ms", time(e.layers_ms)},
          {"answer", e.answer},
          {"precisions", shares_json(e.precisions, e.is_timed)},
          {"kinds", shares_json(e.kinds, e.is_timed)},
          {"conversions",
           {{"layers", e.conversions}, {"ms", time(e.conversions_ms)}, {"share", time(e.conversions_share)}}},
          {"products",
           {{"all", n.all},
            {"asked", n.asked},
            {"precision_known", n.known},
            {"tf32", n.tf32},
            {"writing_wider", n.writing_wider},
            {"wider_written", n.wider_written},
            {"for_residuals", n.for_residuals},
            {"for_average_pools", n.for_averages},
            {"for_outputs", n.for_outputs},
            {"for_others", n.for_others},
            {"residuals", n.residuals},
            {"residuals_wider", n.residuals_wider},
            {"average_pools", n.averages},
            {"average_pools_wider", n.averages_wider}}},
          {"findings", findings},
          {"notes", e.notes}};
}

Json json_of(const ExplainedSet& set) {
  Json engines = Json::array(), steps = Json::array();
  for (const Explanation& e : set.engines) engines.push_back(json_of(e));
  for (const EngineStep& s : set.steps)
    steps.push_back(
        {{"from", s.from}, {"to", s.to}, {"ratio", known(s.ratio)}, {"headline", s.headline}, {"why", s.why}});
  return {{"schema", "temper.explain/1"}, {"engines", engines}, {"steps", steps}, {"answers", set.answers}};
}

}  // namespace temper
