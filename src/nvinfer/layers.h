// SPDX-License-Identifier: Apache-2.0
// A layer that a program adds to a network by itself, and the ONNX nodes that say the same.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/graph.h"

namespace temper::nvinfer {

// A setting of a layer besides its inputs: integers (enumerations, dimensions, bits of axes), floats, text, weights.
using Setting = std::variant<std::vector<int64_t>, std::vector<double>, std::string, Tensor>;

struct Layer {
  std::string type;  // TensorRT's word: "CONVOLUTION"
  std::string name;
  std::vector<int> inputs;                               // tensors of the network; -1: absent
  std::vector<int> outputs;                              // tensors of the network
  std::map<std::string, Setting, std::less<>> settings;  // by the names in layers.cc
};

// How a network takes what programs leave open.
struct LayerRules {
  bool keeps_float_types = false;  // strongly typed; otherwise floats are f32, and flags of the build lower them
  bool integers_are_int32 =
      false;  // the release has no int64: of shapes that layers give, of a model's inputs and outputs
};

// Whether layers of that word are there; how many outputs they have. Throws Error{unsupported} for a word that is not.
size_t layer_outputs(std::string_view type);
// "Convolution", as default names of layers have it.
std::string title_of(std::string_view type);

// Adds the nodes of the layer to the graph; returns its outputs. `inputs` are those of the layer, absent ones without a
// value. Throws Error{usage} for settings or inputs that do not fit, and Error{unsupported}, with the layer's setting,
// for what is not there.
std::vector<ValueId> add_layer(Graph& graph, const Layer& layer, const std::vector<ValueId>& inputs,
                               const LayerRules& rules);

// Integers of a setting that the program did not give and that follow from the rank of input 0: the axis of a
// concatenation, the axes of a softmax. Nothing for others.
std::optional<std::vector<int64_t>> setting_by_rank(const Layer& layer, std::string_view setting, int64_t rank);

}  // namespace temper::nvinfer
