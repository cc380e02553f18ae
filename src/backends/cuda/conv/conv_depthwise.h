// SPDX-License-Identifier: Apache-2.0
// Functions that the two recipes of depthwise convolutions share.
#pragma once
#include "backends/cuda/recipe.h"

namespace temper::cuda {

// Channels in groups of one, small windows, and an epilogue that image_epilogue.h writes.
Support depthwise_supports(const Problem& problem);

// Images in channels_last, and inputs of the epilogue as it reads them.
Config depthwise_config(const Problem& problem, std::string text);

// Weights [C, 1, taps] as [taps, C].
void pack_taps(const Problem& problem, Recipe::Work& work);

// Parameters of the kernels: height and width of the input and the output, padding above and on the left.
void put_window(const Problem& problem, ParameterWriter& writer);

extern const Recipe conv_depthwise_matrix_recipe;

}  // namespace temper::cuda
