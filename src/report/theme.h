// SPDX-License-Identifier: Apache-2.0
// Colours and type, once for the page and for images.
#pragma once
#include <string>

namespace temper {

std::string theme_css();     // custom properties: light, dark where the reader prefers it, light on paper
std::string theme_config();  // Vega-Lite's config, with colours as "var(--ink)"
// Every "var(--…)" replaced by its colour of the light theme: images have no style sheet.
std::string with_fixed_colors(std::string spec);

}  // namespace temper
