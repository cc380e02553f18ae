// SPDX-License-Identifier: Apache-2.0
#include "interop/layer_file.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/checked.h"
#include "base/json_struct.h"
#include "interop/layer_json.h"
#include "interop/layer_kind.h"

namespace temper {

namespace {

constexpr size_t kMaxLayers = 10'000;  // the largest engines have some thousands; what follows is quadratic
constexpr double kMaxMs = 3e9;
constexpr int64_t kMaxDim = int64_t(1) << 40;

// Nothing where it is absent or null. `object` must outlive it.
std::optional<JsonInput> member(const JsonInput& object, const char* name) {
  const auto it = object.json().find(name);
  if (it == object.json().end() || it->is_null()) return std::nullopt;
  return JsonInput(*it, object, name);
}
std::string text_or(const JsonInput& object, const char* name, std::string otherwise = "") {
  const auto value = member(object, name);
  return value ? value->text() : otherwise;
}
std::vector<int64_t> dims_or(const JsonInput& object, const char* name) {
  const auto value = member(object, name);
  if (!value) return {};
  std::vector<int64_t> dims;
  read_json(*value, dims);
  for (int64_t d : dims)
    if (d < -1 || d > kMaxDim) fail(ErrorKind::bad_file, name, " holds ", d, ", which is no size");
  return dims;
}
bool are_known(const std::vector<int64_t>& dims) {
  return std::all_of(dims.begin(), dims.end(), [](int64_t d) { return d >= 0; });
}
int64_t product(const std::vector<int64_t>& dims) {
  int64_t count = 1;
  for (int64_t d : dims) count = checked_mul(count, d);
  return count;
}
int64_t bytes_for(int64_t count, int bits) { return ceil_div(checked_mul<int64_t>(count, bits), int64_t(8)); }

LayerTensor read_tensor(const JsonInput& json) {
  if (!json.json().is_object()) fail(ErrorKind::bad_file, "a tensor that is no object");
  LayerTensor tensor;
  tensor.name = text_or(json, "Name");
  tensor.dims = dims_or(json, "Dimensions");
  tensor.format = text_or(json, "Format/Datatype", text_or(json, "Format"));
  // 11.x splits the two, and spells the second one in two ways.
  tensor.precision = precision_in(text_or(json, "Datatype", text_or(json, "DataType", tensor.format)));
  const int bits = bits_of(tensor.precision);
  if (bits && member(json, "Dimensions") && are_known(tensor.dims))
    tensor.bytes = bytes_for(product(tensor.dims), bits);
  return tensor;
}

std::vector<LayerTensor> read_tensors(const JsonInput& layer, const char* name) {
  std::vector<LayerTensor> tensors;
  if (const auto list = member(layer, name))
    for (size_t i = 0; i < list->list().size(); ++i)
      tensors.push_back(read_tensor(JsonInput(list->list()[i], *list, i)));
  return tensors;
}

bool is_mean(const std::string& name) {
  return name.find("AveragePool") != name.npos || name.find("ReduceMean") != name.npos;
}

struct Weights {
  std::string precision;
  int64_t count = 0;
};
Weights read_weights(const JsonInput& layer, const char* name) {
  const auto json = member(layer, name);
  if (!json || !json->json().is_object()) return {};
  const auto count = member(*json, "Count");
  return {precision_in(text_or(*json, "Type")), count ? count->integer(0, int64_t(1) << 48) : 0};
}

// A convolution's from its own fields, a product's from the size of its weights; nothing where that does not tell.
std::optional<int64_t> operations(const JsonInput& json, const EngineLayer& layer, const Weights& weights) {
  if (layer.inputs.empty() || layer.outputs.empty()) return std::nullopt;
  const auto &in = layer.inputs[0].dims, &out = layer.outputs[0].dims;
  if (in.size() < 2 || out.size() < 2 || !are_known(in) || !are_known(out)) return std::nullopt;
  if (layer.kind == LayerKind::convolution && text_or(json, "ParameterType") == "Convolution") {
    const std::vector<int64_t> kernel = dims_or(json, "Kernel");
    const auto groups = member(json, "Groups");
    const int64_t g = groups ? groups->integer(1, kMaxDim) : 1;
    if (kernel.empty() || !are_known(kernel)) return std::nullopt;
    const bool transposed = layer.op.find("Deconv") != layer.op.npos;
    const auto &sums = transposed ? in : out, &terms = transposed ? out : in;
    return checked_mul<int64_t>(2, checked_mul(product(sums), checked_mul(terms[1] / g, product(kernel))));
  }
  if (layer.kind == LayerKind::matmul && weights.count > 0 && out.back() > 0 && weights.count % out.back() == 0)
    return checked_mul<int64_t>(2, checked_mul(product(out), weights.count / out.back()));
  return std::nullopt;
}

void add_merged(EngineLayer& layer, const JsonInput& json) {
  // "[ONNX Layer: a]" one after the other, with a separator that differs between releases.
  constexpr std::string_view mark = "[ONNX Layer: ";
  const auto metadata = member(json, "Metadata");
  if (!metadata || !metadata->json().is_string()) return;
  const std::string& text = metadata->text();
  std::vector<std::string> names;
  for (size_t at = text.find(mark); at != text.npos; at = text.find(mark, at)) {
    at += mark.size();
    names.push_back(text.substr(at, text.find(']', at) - at));
  }
  if (names.size() > 1) layer.merged = names;
}

EngineLayer read_layer(const JsonInput& json) {
  if (json.json().is_string()) return layer_of_name(json.text());
  if (!json.json().is_object()) fail(ErrorKind::bad_file, "it is neither a name nor an object");
  EngineLayer layer = layer_of_name(text_or(json, "Name"));
  layer.op = text_or(json, "LayerType", layer.op);
  layer.tactic = text_or(json, "TacticName");
  layer.inputs = read_tensors(json, "Inputs");
  layer.outputs = read_tensors(json, "Outputs");
  add_merged(layer, json);
  const bool fused = member(json, "ConvWeights").has_value();
  const Weights weights = read_weights(json, fused ? "ConvWeights" : "Weights");
  const Weights bias = read_weights(json, fused ? "ConvBias" : "Bias");
  // Shapes and masks are inputs as well; what it works on are numbers.
  auto precision = [](const std::vector<LayerTensor>& tensors) {
    for (const LayerTensor& t : tensors)
      if (is_float(t.precision) || is_low(t.precision)) return t.precision;
    return tensors.empty() ? std::string() : tensors[0].precision;
  };
  layer.from = precision(layer.inputs);
  layer.to = precision(layer.outputs);
  if (layer.from.empty()) layer.from = weights.precision;
  layer.kind = layer_kind(layer, text_or(json, "ParameterType"), text_or(json, "Origin"));
  if (layer.kind == LayerKind::reformat && is_float(layer.from) && is_low(layer.to)) layer.kind = LayerKind::quantize;
  if (layer.kind == LayerKind::reformat && is_low(layer.from) && is_float(layer.to)) layer.kind = LayerKind::dequantize;
  const bool reduces = layer.kind == LayerKind::pooling || layer.kind == LayerKind::reduction;
  layer.average = reduces && (text_or(json, "PoolingType") == "AVERAGE" || is_mean(layer.name));
  if (is_product(layer.kind)) {
    // Tensor cores round the operands to 19 bits: neither FP32 nor chosen by a lower precision.
    if (layer.from == "fp32" && layer.tactic.find("tf32") != layer.tactic.npos) layer.from = "tf32";
    const size_t operands = weights.count > 0 || layer.kind == LayerKind::convolution ? 1 : 2;
    for (size_t i = operands; i < layer.inputs.size() && layer.addend < 0; ++i)
      if (!layer.outputs.empty() && !layer.inputs[i].dims.empty() && layer.inputs[i].dims == layer.outputs[0].dims)
        layer.addend = int(i);
    layer.operations = operations(json, layer, weights);
  }
  int64_t bytes =
      checked_add(bytes_for(weights.count, bits_of(weights.precision)), bytes_for(bias.count, bits_of(bias.precision)));
  bool all = !layer.inputs.empty() || !layer.outputs.empty();
  for (const auto* tensors : {&layer.inputs, &layer.outputs})
    for (const LayerTensor& t : *tensors) {
      all = all && t.bytes;
      bytes = checked_add(bytes, t.bytes.value_or(0));
    }
  if (all) layer.bytes = bytes;
  return layer;
}

// Names of "Bindings", which are texts, or of "I/O Tensors", which are objects.
std::set<std::string> read_bindings(const JsonInput& file) {
  std::set<std::string> names;
  for (const char* key : {"Bindings", "I/O Tensors"})
    if (const auto list = member(file, key))
      for (size_t i = 0; i < list->list().size(); ++i) {
        const JsonInput entry(list->list()[i], *list, i);
        names.insert(entry.json().is_object() ? text_or(entry, "Name") : entry.text());
      }
  return names;
}

}  // namespace

std::string precision_in(std::string_view format) {
  static const std::map<std::string_view, const char*> words{
      {"fp32", "fp32"},     {"float", "fp32"},   {"float32", "fp32"}, {"kfloat", "fp32"}, {"tf32", "tf32"},
      {"fp16", "fp16"},     {"half", "fp16"},    {"float16", "fp16"}, {"khalf", "fp16"},  {"bf16", "bf16"},
      {"bfloat16", "bf16"}, {"kbf16", "bf16"},   {"fp8", "fp8"},      {"kfp8", "fp8"},    {"float8", "fp8"},
      {"fp4", "fp4"},       {"kfp4", "fp4"},     {"float4", "fp4"},   {"int8", "int8"},   {"kint8", "int8"},
      {"uint8", "uint8"},   {"kuint8", "uint8"}, {"int4", "int4"},    {"kint4", "int4"},  {"int32", "int32"},
      {"kint32", "int32"},  {"int64", "int64"},  {"kint64", "int64"}, {"bool", "bool"},   {"kbool", "bool"}};
  std::string word;
  for (size_t i = 0; i <= format.size(); ++i) {
    char c = i < format.size() ? format[i] : ' ';
    if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
      word += c;
      continue;
    }
    if (const auto found = words.find(word); found != words.end()) return found->second;
    word.clear();
  }
  return "";
}

std::optional<LayerFileKind> layer_file_kind(std::string_view text) {
  const size_t start = text.find_first_not_of(" \t\r\n");
  if (start == text.npos) return std::nullopt;
  if (text[start] == '{')
    return text.find("\"Layers\"") == text.npos ? std::nullopt : std::optional(LayerFileKind::layers);
  if (text[start] != '[') return std::nullopt;
  const std::string_view first = text.substr(start, std::min<size_t>(4096, text.find('}', start) - start));
  auto has = [&](std::string_view key) { return first.find(key) != first.npos; };
  if (has("\"computeMs\"") || has("\"latencyMs\"")) return LayerFileKind::times;
  if (has("\"count\"") || has("\"averageMs\"")) return LayerFileKind::profile;
  return std::nullopt;
}

EngineLayer layer_of_name(const std::string& name) {
  EngineLayer layer;
  layer.name = name;
  constexpr std::string_view plus = " + ";
  for (size_t at = 0; at <= name.size();) {
    const size_t end = std::min(name.find(plus, at), name.size());
    if (end > at) layer.merged.push_back(name.substr(at, end - at));
    at = end + plus.size();
  }
  if (layer.merged.size() < 2) layer.merged.clear();
  layer.kind = layer_kind(layer, "", "");
  layer.average = (layer.kind == LayerKind::pooling || layer.kind == LayerKind::reduction) && is_mean(name);
  return layer;
}

LayerInfo read_layer_info(std::string_view text) {
  const strict::Json json = parse_layer_json(text, "the layer information");
  const JsonInput file(json, "", "");
  const auto list = json.is_object() ? member(file, "Layers") : std::nullopt;
  if (!list) fail(ErrorKind::bad_file, "this is no file of trtexec --exportLayerInfo: it has no list \"Layers\"");
  const auto& layers = list->list();
  if (layers.empty()) fail(ErrorKind::bad_file, "the layer information lists no layer");
  if (layers.size() > kMaxLayers) fail(ErrorKind::bad_file, "the layer information lists ", layers.size(), " layers");
  LayerInfo info;
  EngineLayers& engine = info.engine;
  for (size_t i = 0; i < layers.size(); ++i) {
    info.detailed = info.detailed || layers[i].is_object();
    engine.layers.push_back(
        with_context([&] { return concat("layer ", i); }, [&] { return read_layer(JsonInput(layers[i], "", "")); }));
  }
  std::set<std::string> read, written;
  for (const EngineLayer& layer : engine.layers) {
    for (const LayerTensor& t : layer.inputs) read.insert(t.name);
    for (const LayerTensor& t : layer.outputs) written.insert(t.name);
  }
  const std::set<std::string> bindings = read_bindings(file);
  for (const std::string& name : read)
    if (!written.contains(name)) engine.inputs.push_back(name);
  for (const std::string& name : written)
    if (bindings.contains(name) || !read.contains(name)) engine.outputs.push_back(name);
  if (!info.detailed)
    engine.notes.push_back(
        "the layer file holds names alone: precisions and sizes need a build with --profilingVerbosity=detailed");
  return info;
}

LayerProfile read_layer_profile(std::string_view text) {
  const strict::Json file = parse_layer_json(text, "the layer profile");
  LayerProfile profile;
  const auto& records = JsonInput(file, "the layer profile", "").list();
  if (records.size() > kMaxLayers) fail(ErrorKind::bad_file, "the layer profile lists ", records.size(), " layers");
  for (size_t i = 0; i < records.size(); ++i)
    with_context([&] { return concat("record ", i); },
                 [&] {
                   const JsonInput record(records[i], "", "");
                   if (!record.json().is_object()) fail(ErrorKind::bad_file, "it is no object");
                   if (const auto count = member(record, "count"); i == 0 && count && !member(record, "name")) {
                     profile.runs = count->integer(0, std::numeric_limits<int64_t>::max());
                     return;
                   }
                   LayerTime layer{text_or(record, "name"), -1};
                   if (layer.name.empty()) fail(ErrorKind::bad_file, "it names no layer");
                   for (const char* key : {"medianMs", "averageMs"})
                     if (const auto ms = member(record, key); ms && layer.ms < 0) {
                       layer.ms = ms->number();
                       if (layer.ms < 0) fail(ErrorKind::bad_file, key, " is ", layer.ms, ", a negative time");
                       if (layer.ms > kMaxMs) fail(ErrorKind::bad_file, key, " is ", layer.ms, ", more than a month");
                     }
                   if (layer.ms < 0) fail(ErrorKind::bad_file, "it has neither medianMs nor averageMs");
                   profile.layers.push_back(std::move(layer));
                 });
  if (profile.layers.empty()) fail(ErrorKind::bad_file, "the layer profile lists no layer");
  return profile;
}

}  // namespace temper
