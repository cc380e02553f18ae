// SPDX-License-Identifier: Apache-2.0
// Gives the settings that TensorRT's layer for a node would have: programs read them from a parser's layers.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "nvinfer/layers.h"

namespace temper::nvinfer {

// TensorRT's word for a layer that does what the op does, "CONVOLUTION"; "" where none says the same.
std::string_view word_for(const Op& op);

// By the names of settings in layers.cc. Nothing for what the node does not tell exactly.
std::optional<Setting> setting_of(const Graph& graph, const Node& node, std::string_view name);

}  // namespace temper::nvinfer
