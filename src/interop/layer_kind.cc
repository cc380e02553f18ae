// SPDX-License-Identifier: Apache-2.0
#include "interop/layer_kind.h"

#include <utility>

namespace temper {

namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
  return out;
}

using Words = std::pair<std::string_view, LayerKind>;

// Part of the layer type, the first that fits. "ConvActPool" is a convolution, so that comes before pools.
constexpr Words kTypes[] = {{"noop", LayerKind::nothing},
                            {"constant", LayerKind::nothing},
                            {"signal", LayerKind::nothing},
                            {"wait", LayerKind::nothing},
                            {"dequantize", LayerKind::dequantize},
                            {"quantize", LayerKind::quantize},
                            {"reformat", LayerKind::reformat},
                            {"cast", LayerKind::reformat},
                            {"mha", LayerKind::attention},
                            {"attention", LayerKind::attention},
                            {"conv", LayerKind::convolution},
                            {"gemm", LayerKind::matmul},
                            {"matmul", LayerKind::matmul},
                            {"matrixmultiply", LayerKind::matmul},
                            {"matrix_multiply", LayerKind::matmul},
                            {"fullyconnected", LayerKind::matmul},
                            {"pool", LayerKind::pooling},
                            {"softmax", LayerKind::softmax},
                            {"normalization", LayerKind::normalization},
                            {"layernorm", LayerKind::normalization},
                            {"lrn", LayerKind::normalization},
                            {"reduce", LayerKind::reduction},
                            {"topk", LayerKind::reduction},
                            {"rnn", LayerKind::recurrent},
                            {"pointwise", LayerKind::pointwise},
                            {"elementwise", LayerKind::pointwise},
                            {"activation", LayerKind::pointwise},
                            {"unary", LayerKind::pointwise},
                            {"scale", LayerKind::pointwise},
                            {"select", LayerKind::pointwise},
                            {"shuffle", LayerKind::movement},
                            {"slice", LayerKind::movement},
                            {"concat", LayerKind::movement},
                            {"gather", LayerKind::movement},
                            {"scatter", LayerKind::movement},
                            {"resize", LayerKind::movement},
                            {"padding", LayerKind::movement},
                            {"squeeze", LayerKind::movement}};

// Kernels that the second compiler of TensorRT generates are named after what they do: "__myl_MulAddRelu", in
// abbreviations.
LayerKind generated(const EngineLayer& layer) {
  const std::string name = lower(layer.name);
  auto has = [&](std::string_view part) { return name.find(part) != name.npos; };
  const bool one = layer.inputs.size() == 1 && layer.outputs.size() == 1;
  if (has("mha") || has("fmha")) return LayerKind::attention;
  if (one && is_float(layer.from) && is_low(layer.to)) return LayerKind::quantize;
  if (one && is_low(layer.from) && is_float(layer.to)) return LayerKind::dequantize;
  if (has("softmax") || (has("exp") && has("max") && has("sum"))) return LayerKind::softmax;
  if (one && has("cast") && layer.from != layer.to) return LayerKind::reformat;
  for (std::string_view work : {"add", "mul", "sub", "div", "relu", "sigm", "tanh", "erf", "pow", "sqrt", "mean"})
    if (has(work)) return LayerKind::pointwise;
  for (std::string_view move : {"move", "resh", "tran", "conc", "slic", "repl", "gath"})
    if (has(move)) return LayerKind::movement;
  return LayerKind::pointwise;
}

// The names of ONNX operators in a layer's name. What it was merged from stands between " + ", weights' names among
// them, so that "conv1.weight + QuantizeLinear_7 + Conv_9" is a convolution: the heaviest counts.
LayerKind by_name(const EngineLayer& layer) {
  if (layer.name.starts_with("Reformatting CopyNode")) return LayerKind::reformat;
  auto has = [&](std::string_view part) { return layer.name.find(part) != layer.name.npos; };
  if (has("Conv_") || has("Conv") || has("[Convolution]")) return LayerKind::convolution;
  if (has("Gemm") || has("MatMul") || has("[Fully Connected]")) return LayerKind::matmul;
  if (layer.merged.empty()) {
    if (has("DequantizeLinear")) return LayerKind::dequantize;
    if (has("QuantizeLinear")) return LayerKind::quantize;
  }
  if (has("Pool")) return LayerKind::pooling;
  if (has("Softmax")) return LayerKind::softmax;
  if (has("Normalization")) return LayerKind::normalization;
  if (has("Reduce")) return LayerKind::reduction;
  for (std::string_view word : {"Add", "Mul", "Relu", "Sigmoid", "Sub", "Div", "Clip", "Tanh", "PWN("})
    if (has(word)) return LayerKind::pointwise;
  for (std::string_view word : {"Concat", "Slice", "Reshape", "Transpose", "Resize", "Gather", "squeeze", "[Shuffle]"})
    if (has(word)) return LayerKind::movement;
  return LayerKind::other;
}

}  // namespace

LayerKind layer_kind(const EngineLayer& layer, std::string_view parameter_type, std::string_view origin) {
  if (layer.op.empty()) return by_name(layer);
  // A scale that stands for a Q or DQ node converts, whatever runs it.
  if (origin == "QDQ") return LayerKind::reformat;
  const std::string type = lower(layer.op);
  if (type == "kgen") return generated(layer);
  if (type == "shape") return LayerKind::nothing;
  for (const auto& [word, kind] : kTypes)
    if (type.find(word) != type.npos) return kind;
  const std::string parameters = lower(parameter_type);
  for (const auto& [word, kind] : kTypes)
    if (!parameters.empty() && parameters.find(word) != parameters.npos) return kind;
  return type.find("foreign") != type.npos || type.find("plugin") != type.npos || type.find("myelin") != type.npos
             ? LayerKind::other
             : by_name(layer);
}

}  // namespace temper
