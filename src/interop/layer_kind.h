// SPDX-License-Identifier: Apache-2.0
// Classifies a layer of TensorRT by the kind of work that it does.
#pragma once
#include "bench/layers.h"

namespace temper {

// The kind of work of a layer of TensorRT, from its type and origin where the file has them (`layer.op`), else from
// its name.
LayerKind layer_kind(const EngineLayer& layer, std::string_view parameter_type, std::string_view origin);

}  // namespace temper
