// SPDX-License-Identifier: Apache-2.0
// Models that take floats become models that take pictures as cameras and decoders give them: u8, [batch, height,
// width, channels]. Scale, mean, std and the change of layout are the model's first step then, and a request carries a
// quarter of the bytes.
#pragma once
#include <string>

#include "optimize/build_engine.h"

namespace temper {

// The name of the value that takes the place of the model's own input; its range is that input's.
std::string prepared_name(const std::string& input);

// The model with the inputs of `options.input_pictures` taken as pictures ("": each input that can be). How they are
// prepared is what options.preprocess, the ranges or info.preprocess say, in this order; what they do not say is as
// data/preprocess.h has it, which becomes a note. Channels stay in the order that the model takes. Pixels become
// pixel * (scale / std) - mean / std in f32, at most a few units in the last place from what preprocess_image makes.
// `options` gets the inputs' names, and the shapes that are said of the model's inputs as those of the pictures;
// info.preprocess what is left to do outside. Throws Error{usage} for an input that is not there or takes no pictures.
Graph take_pictures(const Graph& graph, EngineInfo& info, BuildOptions& options);

}  // namespace temper
