// SPDX-License-Identifier: Apache-2.0
// Graph -> ONNX. Each op becomes the ONNX ops that mean exactly the same; a pointwise program becomes one node a step.
// The names of inputs, outputs and other values are kept where they are free; a value that is a graph output takes the
// output's name.
#pragma once
#include <string>

#include "graph/graph.h"

namespace temper {

// A serialized ModelProto in the lowest opset from 21 on that holds the graph, checked by ONNX's own checker with strict
// type inference. Throws Error{unsupported}, naming node and op, for what ONNX cannot say exactly, and for a model of more
// than kMaxModelBytes (onnx/read.h).
std::string onnx_bytes(const Graph& graph);

// The same as a file, written atomically.
void write_onnx(const Graph& graph, const std::string& path);

}  // namespace temper
