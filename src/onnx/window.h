// SPDX-License-Identifier: Apache-2.0
// Attributes of sliding windows, read the same way for convolutions and pools.
#pragma once
#include "graph/ops/conv.h"
#include "graph/ops/pool.h"
#include "graph/ops/window.h"
#include "onnx/node.h"

namespace temper {

// kernel_shape, strides, dilations, pads, auto_pad and ceil_mode of a node. `kernel`, where given, is the truth and
// kernel_shape must agree with it.
ops::Window import_window(OnnxNode& node, std::optional<Dims> kernel = std::nullopt);

// The average pool of a node, by its attributes.
ops::Pool import_average_pool(OnnxNode& node);

// The conv op of a convolution node whose weights are input `weights`.
ops::Conv import_conv(OnnxNode& node, size_t weights);

// [N,spatial...,C] -> [N,C,spatial...], and back.
ValueId channels_to_front(OnnxNode& node, ValueId x);
ValueId channels_to_end(OnnxNode& node, ValueId x);

}  // namespace temper
