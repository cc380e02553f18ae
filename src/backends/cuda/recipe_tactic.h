// SPDX-License-Identifier: Apache-2.0
// Makes tactics of recipes: they choose, compile, prepack, load and launch.
#pragma once
#include "backends/cuda/machine.h"
#include "backends/cuda/recipe.h"

namespace temper::cuda {

// The properties of the device's GPU.
GpuProperties properties_of(const Device& device);
// The problem without its constants, for callers that must not pack weights.
Problem without_constants(Problem problem);

// The recipe's configurations that are worth offering, except those that need more shared memory than the GPU has.
std::vector<Config> recipe_configs(const Recipe& recipe, const Problem& problem, const Device& device);
void compile_recipe(const Recipe& recipe, const Problem& problem, const Config& config, const Device& device);
Packed build_recipe(const Recipe& recipe, const Problem& problem, const Config& config, const Device& device);
std::unique_ptr<Kernel> load_recipe(const Recipe& recipe, const Problem& problem, const Config& config,
                                    const PackedView& packed, const Device& device);

// Loads the work's kernels for a session.
std::unique_ptr<Kernel> make_kernel(const Recipe::Work& work, const PackedView& packed, const Device& device);

// A tactic's functions are plain pointers, so the recipe is part of their type.
template <const Recipe& recipe>
const Tactic recipe_tactic{
    recipe.name,
    recipe.version,
    [](const Problem& problem, const Device& device) { return recipe_offered(recipe, problem, device.architecture); },
    [](const Problem& problem, const Device& device) { return recipe_configs(recipe, problem, device); },
    [](const Problem& problem, const Config& config, const Device& device) {
      return build_recipe(recipe, problem, config, device);
    },
    [](const Problem& problem, const Config& config, const PackedView& packed, const Device& device) {
      return load_recipe(recipe, problem, config, packed, device);
    },
    false,
    [](const Problem& problem, const Config& config, const Device& device) {
      compile_recipe(recipe, problem, config, device);
    },
    [](const Problem& problem, const Config& config) {
      return recipe.takes_parts && recipe.takes_parts(problem, config);
    },
    false,
    [](const Problem& problem, const Config& config, const Device& device) {
      return recipe.expected_clocks ? recipe.expected_clocks(problem, config, properties_of(device)) : -1.0;
    }};

}  // namespace temper::cuda
