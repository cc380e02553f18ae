// SPDX-License-Identifier: Apache-2.0
#include "report/theme.h"

#include <nlohmann/json.hpp>

#include "base/concat.h"
#include "base/error.h"

namespace temper {
namespace {

struct Color {
  const char *name, *light, *dark;
};
// c1 to c8 are told apart with every common colour blindness (Okabe and Ito's set, darkened on white and lightened on
// black until each has a contrast of 3:1 to the ground).
constexpr Color kColors[] = {
    {"ground", "#ffffff", "#14171a"}, {"panel", "#f6f7f8", "#1d2125"},        {"ink", "#16191d", "#e8eaed"},
    {"muted", "#5a6470", "#a3acb6"},  {"line", "#d5dae0", "#3a4149"},         {"grid", "#e6e9ed", "#2b3137"},
    {"alarm", "#b3261e", "#ff8a80"},  {"alarm-ground", "#fdeceb", "#3b1f1e"}, {"c1", "#0072b2", "#56b4e9"},
    {"c2", "#d55e00", "#ff8c3b"},     {"c3", "#008f68", "#2cc79a"},           {"c4", "#a0529c", "#d99bd6"},
    {"c5", "#a37700", "#f0c14b"},     {"c6", "#3d9bd1", "#9ad0f5"},           {"c7", "#7a4b1e", "#c99a6b"},
    {"c8", "#6b7280", "#9aa3af"},
};

std::string properties(const char* Color::* theme) {
  std::string css;
  for (const Color& color : kColors) css += concat("--", color.name, ":", color.*theme, ";");
  return css;
}

}  // namespace

std::string theme_css() {
  const std::string light = properties(&Color::light), dark = properties(&Color::dark);
  return concat(":root{color-scheme:light dark;", light, "}\n@media screen and (prefers-color-scheme:dark){:root{",
                dark, "}}\n");
}

std::string theme_config() {
  const nlohmann::ordered_json axis{{"labelColor", "var(--muted)"},
                                    {"titleColor", "var(--ink)"},
                                    {"gridColor", "var(--grid)"},
                                    {"domainColor", "var(--line)"},
                                    {"tickColor", "var(--line)"},
                                    {"labelFontSize", 12},
                                    {"titleFontSize", 12},
                                    {"titleFontWeight", 500},
                                    {"titlePadding", 8},
                                    {"labelLimit", 280}};
  const nlohmann::ordered_json config{{"background", nullptr},
                                      {"font", "system-ui, sans-serif"},
                                      {"axis", axis},
                                      {"axisX", {{"tickCount", {{"expr", "ceil(width / 110)"}}}}},
                                      {"view", {{"stroke", nullptr}}},
                                      {"text", {{"fontSize", 12}}},
                                      {"legend",
                                       {{"labelColor", "var(--ink)"},
                                        {"titleColor", "var(--ink)"},
                                        {"labelFontSize", 12},
                                        {"titleFontSize", 12},
                                        {"titleFontWeight", 500},
                                        {"labelLimit", 300}}}};
  return config.dump();
}

std::string with_fixed_colors(std::string spec) {
  constexpr std::string_view before = "var(--";
  for (size_t at = 0; (at = spec.find(before, at)) != std::string::npos;) {
    const size_t end = spec.find(')', at);
    const std::string_view name =
        std::string_view(spec).substr(at + before.size(), end == std::string::npos ? 0 : end - at - before.size());
    const Color* found = nullptr;
    for (const Color& color : kColors)
      if (name == color.name) found = &color;
    if (!found) {  // text out of a file that looks like one
      at += before.size();
      continue;
    }
    spec.replace(at, end + 1 - at, found->light);
  }
  return spec;
}

}  // namespace temper
