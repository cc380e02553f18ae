// SPDX-License-Identifier: Apache-2.0
// Writes a Graph as ONNX. Each op becomes the ONNX ops that mean exactly the same; a pointwise program becomes one node
// a step. The names of inputs, outputs and other values are kept where they are free; a value that is a graph output
// takes the output's name.
#pragma once
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace temper {

constexpr std::string_view kSourceKey = "temper.source_sha256";  // in the metadata of a model

// A serialized ModelProto in the lowest opset from 21 on that holds the graph, checked by ONNX's own checker with
// strict type inference. Throws Error{unsupported}, naming node and op, for what ONNX cannot say exactly, and for a
// model of more than kMaxModelBytes (onnx/read.h). `source_sha256`, where not empty, is recorded as what the graph was
// derived from (metadata "temper.source_sha256"), so that a comparison with the source knows that it is one model.
std::string onnx_bytes(const Graph& graph, const std::string& source_sha256 = "");

// The same as a file, written atomically. Only a model that Temper wrote is replaced, unless forced.
void write_onnx(const Graph& graph, const std::string& path, const std::string& source_sha256 = "", bool force = false);

}  // namespace temper
