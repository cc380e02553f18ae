// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "backends/cuda/recipe.h"

namespace temper::testing {

// The recipe of this name. Throws where there is none.
inline const cuda::Recipe& recipe_named(std::string_view name) {
  for (const cuda::Recipe* recipe : cuda::recipes())
    if (recipe->name == name) return *recipe;
  fail(ErrorKind::usage, "there is no recipe '", name, "'");
}

// What a recipe offers for a problem, and what it offers for others alone: kernels that read a residual by TMA store by
// it, too, where tiles are many, and tests have few; but not those of computed matrices, which may end within a tile,
// nor those of patches, whose tiles have rows that are no results, nor those that multiply for a shortcut.
inline std::vector<Config> all_configs(const cuda::Recipe& recipe, const Problem& problem,
                                       const cuda::GpuProperties& gpu) {
  constexpr std::string_view kStored = " stored", kNoResidual = "#define EXTRA_STAGES 0\n",
                             kOneMatrix = "#define MATRICES 0\n", kNoShortcut = "#define SHORTCUT 0\n";
  std::vector<Config> all;
  for (const Config& config : recipe.configs(problem, gpu)) {
    all.push_back(config);
    if (!recipe.name.ends_with(".pipeline") && !recipe.name.ends_with(".chain")) continue;
    if (config.text.ends_with(" patch")) continue;
    const auto jobs = recipe.work(problem, config, gpu).jobs;
    if (jobs.empty() || jobs[0].source.text.find(kNoResidual) != std::string::npos ||
        jobs[0].source.text.find(kOneMatrix) == std::string::npos ||
        jobs[0].source.text.find(kNoShortcut) == std::string::npos)
      continue;
    all.push_back(config);
    std::string& text = all.back().text;
    if (text.ends_with(kStored)) text.resize(text.size() - kStored.size());
    else text += kStored;
  }
  return all;
}

}  // namespace temper::testing
