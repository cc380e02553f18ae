// SPDX-License-Identifier: Apache-2.0
// Networks as bytes: CBOR, with the parser's model and the weights of layers in it.
#include <nlohmann/json.hpp>
#include <utility>

#include "base/file.h"
#include "nvinfer/network.h"
#include "nvinfer/types.h"
#include "onnx/initializers.h"

namespace temper::nvinfer {

namespace {

using Json = nlohmann::json;

Json binary_of(std::string_view bytes) { return Json::binary({bytes.begin(), bytes.end()}); }
std::string text_of(const Json& binary) { return {binary.get_binary().begin(), binary.get_binary().end()}; }

Json json_of(const Setting& setting) {
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&setting)) return {{"ints", *ints}};
  if (const auto* reals = std::get_if<std::vector<double>>(&setting)) return {{"reals", *reals}};
  if (const auto* text = std::get_if<std::string>(&setting)) return {{"text", *text}};
  const Tensor& tensor = std::get<Tensor>(setting);
  const auto raw = tensor.raw();
  return {{"dtype", type_number(tensor.dtype())},
          {"weights", binary_of({reinterpret_cast<const char*>(raw.data()), raw.size()})}};
}

Setting setting_of(const Json& json) {
  if (json.contains("ints")) return json["ints"].get<std::vector<int64_t>>();
  if (json.contains("reals")) return json["reals"].get<std::vector<double>>();
  if (json.contains("text")) return json["text"].get<std::string>();
  const DType dtype = *type_of_number(json.at("dtype").get<int>());
  const auto& bytes = json.at("weights").get_binary();
  Tensor tensor(dtype, {int64_t(bytes.size()) / size_of(dtype)});
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<uint8_t*>(tensor.raw_mutable()));
  return tensor;
}

}  // namespace

std::string Network::model_bytes() const {
  if (!parsed_) return "";
  std::string bytes = source_.bytes.empty() ? read_file(source_.path) : source_.bytes;
  float_initializers(bytes);  // refuses weights in other files
  return bytes;
}

std::string Network::saved() const {
  Json json = {{"name", name_},
               {"keeps_float_types", rules_.keeps_float_types},
               {"edited", edited_},
               {"integers_are_int32", rules_.integers_are_int32},
               {"inputs", inputs_},
               {"outputs", outputs_},
               {"tensors", Json::array()},
               {"layers", Json::array()}};
  if (parsed_) json["model"] = binary_of(model_bytes());
  for (const Held& tensor : tensors_)
    json["tensors"].push_back({tensor.name, tensor.dtype ? type_number(*tensor.dtype) : -1, tensor.layer,
                               tensor.is_added_input, tensor.dims, tensor.dim_names});
  for (const Layer& layer : layers_) {
    Json settings = Json::object();
    for (const auto& [name, setting] : layer.settings) settings[name] = json_of(setting);
    json["layers"].push_back({layer.type, layer.name, layer.inputs, layer.outputs, settings});
  }
  const std::vector<uint8_t> bytes = Json::to_cbor(json);
  return {bytes.begin(), bytes.end()};
}

Network Network::restored(std::string_view saved, const std::map<std::string, Tensor>& replaced) {
  const Json json = Json::from_cbor(saved);
  Network network({json.at("keeps_float_types").get<bool>(), json.at("integers_are_int32").get<bool>()});
  if (json.contains("model")) {
    std::vector<std::string> errors;
    if (!network.parse(with_initializers(text_of(json["model"]), replaced), "", errors))
      fail(ErrorKind::unsupported, errors.at(0));
  }
  network.name_ = json.at("name").get<std::string>();
  if (!json.at("edited").get<bool>()) return network;
  network.edit(Edit::graph);
  json.at("inputs").get_to(network.inputs_);
  json.at("outputs").get_to(network.outputs_);
  network.tensors_.clear();
  for (const Json& row : json.at("tensors")) {
    Held& tensor = network.tensors_.emplace_back();
    row.at(0).get_to(tensor.name);
    tensor.dtype = type_of_number(row.at(1).get<int>());
    row.at(2).get_to(tensor.layer);
    row.at(3).get_to(tensor.is_added_input);
    row.at(4).get_to(tensor.dims);
    row.at(5).get_to(tensor.dim_names);
  }
  const std::vector<Layer> of_model = std::exchange(network.layers_, {});
  for (const Json& row : json.at("layers")) {
    Layer& layer = network.layers_.emplace_back();
    row.at(0).get_to(layer.type);
    row.at(1).get_to(layer.name);
    row.at(2).get_to(layer.inputs);
    row.at(3).get_to(layer.outputs);
    for (const auto& [name, setting] : row.at(4).items()) {
      layer.settings[name] = setting_of(setting);
      if (const auto it = replaced.find(concat(layer.name, ".", name)); it != replaced.end())
        layer.settings[name] = it->second;
    }
    const size_t index = network.layers_.size() - 1;
    if (index < of_model.size() && layer.inputs != of_model[index].inputs) network.rewired_.insert(int(index));
  }
  return network;
}

}  // namespace temper::nvinfer
