// SPDX-License-Identifier: Apache-2.0
// Figures of profiles: where the time of one plan goes.
#include <algorithm>
#include <set>

#include "base/count_of.h"
#include "base/quote.h"
#include "report/figures.h"
#include "report/text.h"

namespace temper::figures {
namespace {

constexpr size_t kMostBars = 25;

std::string limit_text(const ProfileRow& row) {
  const double arithmetic = row.of_arithmetic_peak.value_or(0), memory = row.of_memory_peak.value_or(0);
  if (arithmetic <= 0 && memory <= 0) return "n/a";
  std::string share = percent(std::max(arithmetic, memory));
  share.replace(share.rfind(' '), 1, "\u00a0");  // the number and its sign stay on one line
  return concat(arithmetic >= memory ? "arithmetic " : "memory ", share);
}

}  // namespace

void add_profile(std::vector<Figure>& figures, const ReportedProfile& profile, const std::string& suffix) {
  Figure figure{concat("profile", suffix),
                concat(printable(file_name_of(profile.plan)), ": time of each step, in milliseconds"),
                "",
                "",
                {{{"#"},
                  {"step", false},
                  {"op", false},
                  {"ms"},
                  {"share"},
                  {"bytes"},
                  {"Gop/s"},
                  {"GB/s"},
                  {"of the nearer limit", false},
                  {"precision", false},
                  {"tactic", false}},
                 {}}};
  figure.text = concat(count_of(profile.rows.size(), "step"), " on ", profile.device, ", ", profile.precision, ", ",
                       count_of(profile.threads, "thread"), "; ", format_number(profile.run_ms), " ms a whole run, ",
                       format_number(profile.steps_ms), " ms in the steps when they are timed one by one (",
                       count_of(profile.runs, "run"), " of each).");
  std::vector<size_t> order;
  for (size_t i = 0; i < profile.rows.size(); ++i) {
    const ProfileRow& row = profile.rows[i];
    order.push_back(i);
    const bool timed = row.ms > 0;
    figure.table.rows.push_back(
        {concat(i + 1), row.node, row.op, format_number(row.ms), percent(row.share), format_bytes(double(row.bytes)),
         timed && row.operations && *row.operations > 0 ? format_number(*row.operations / row.ms / 1e6) : "n/a",
         timed ? format_number(double(row.bytes) / row.ms / 1e6) : "n/a", limit_text(row),
         row.precision_in == row.precision_out ? row.precision_out : concat(row.precision_in, " → ", row.precision_out),
         row.tactic});
  }
  if (order.empty()) {
    figure.text += " There is no picture: the plan has no steps.";
    figures.push_back(std::move(figure));
    return;
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return profile.rows[a].ms > profile.rows[b].ms; });
  order.resize(std::min(order.size(), kMostBars));
  double drawn = 0;
  Json values = Json::array(), colors = Json::array(), names = Json::array();
  std::vector<std::string> precisions;
  for (size_t i : order) {
    const ProfileRow& row = profile.rows[i];
    drawn += row.share;
    if (std::find(precisions.begin(), precisions.end(), row.precision_out) == precisions.end())
      precisions.push_back(row.precision_out);
    values.push_back({{"step", concat(i + 1, "  ", shortened(printable(row.node), 34))},
                      {"node", row.node},
                      {"ms", row.ms},
                      {"share", percent(row.share)},
                      {"op", row.op},
                      {"tactic", row.tactic},
                      {"limit", limit_text(row)},
                      {"precision", row.precision_out}});
  }
  for (size_t i = 0; i < precisions.size(); ++i) names.push_back(precisions[i]), colors.push_back(color(i));
  const Json legend{{"title", "precision out"}, {"orient", "top"}};
  figure.spec = filled_spec(profile_spec(), {{"height", 20 * values.size()},
                                             {"values", values},
                                             {"precisions", names},
                                             {"colors", colors},
                                             {"legend", precisions.size() > 1 ? legend : Json(nullptr)}});
  if (order.size() < profile.rows.size())
    figure.text += concat(" The picture shows the ", order.size(), " longest, ", percent(drawn),
                          " of the time; the number is the step's place in the table.");
  figures.push_back(std::move(figure));
}

}  // namespace temper::figures
