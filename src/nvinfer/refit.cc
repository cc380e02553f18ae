// SPDX-License-Identifier: Apache-2.0
#include "nvinfer/refit.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>

#include "onnx/initializers.h"

namespace temper::nvinfer {

namespace {

using Json = nlohmann::json;

constexpr std::string_view kMagic = "TEMPER REFIT 1\n\n";
enum Role { kKernel, kBias, kShift, kScale, kConstant };

// By the settings of layers that hold weights (layers.cc).
std::optional<int> role_of(std::string_view setting) {
  constexpr std::array<std::pair<std::string_view, int>, 5> roles = {
      {{"kernel", kKernel}, {"bias", kBias}, {"shift", kShift}, {"scale", kScale}, {"weights", kConstant}}};
  for (const auto& [name, role] : roles)
    if (name == setting) return role;
  return std::nullopt;
}

// By what a node of ONNX takes for its inputs.
int role_of(const Initializer& of) {
  if (of.op == "BatchNormalization") return of.input == 1 ? kScale : of.input == 2 ? kShift : kConstant;
  const bool is_product = of.op == "Conv" || of.op == "ConvTranspose" || of.op == "Gemm" || of.op == "MatMul";
  return is_product && of.input == 1 ? kKernel : is_product && of.input == 2 ? kBias : kConstant;
}

Json json_of(const Profile& profile) {
  Json json = Json::object();
  for (const auto& [name, range] : profile) json[name] = {range.min, range.opt, range.max};
  return json;
}
Profile profile_of(const Json& json) {
  Profile profile;
  for (const auto& [name, range] : json.items())
    profile[name] = {range.at(0).get<Dims>(), range.at(1).get<Dims>(), range.at(2).get<Dims>()};
  return profile;
}

std::string pack(const std::string& plan, const std::string& network, const std::string& recipe) {
  std::string bytes(kMagic);
  for (const std::string* part : {&plan, &network, &recipe}) {
    const uint64_t size = part->size();
    bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
  }
  return bytes + plan + network + recipe;
}

// The bytes of an engine of the network by the recipe, whose timing cache is read and extended.
std::string build_by(const Network& network, Json recipe, std::shared_ptr<const ProgressMonitor> monitor,
                     const Logger& logger) {
  Config config;
  recipe.at("device").get_to(config.device);
  recipe.at("fp16").get_to(config.fp16);
  recipe.at("bf16").get_to(config.bf16);
  recipe.at("int8").get_to(config.int8);
  recipe.at("tf32").get_to(config.tf32);
  recipe.at("workspace").get_to(config.workspace);
  for (const Json& profile : recipe.at("profiles")) config.profiles.push_back(profile_of(profile));
  config.monitor = std::move(monitor);
  config.timings = std::make_shared<SharedTimingCache>(TimingCache::of_text(recipe.at("timings").get<std::string>()));
  const std::string plan = build_serialized(network, config, logger);
  if (plan.empty()) return {};
  recipe["timings"] = config.timings->now().text();
  return pack(plan, network.saved(), recipe.dump());
}

}  // namespace

std::optional<RefittableParts> parts_of(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(kMagic)) return std::nullopt;
  std::array<uint64_t, 3> sizes{};
  size_t at = kMagic.size();
  if (bytes.size() >= at + sizeof sizes) std::memcpy(sizes.data(), bytes.data() + at, sizeof sizes);
  at += sizeof sizes;
  uint64_t left = bytes.size() >= at ? bytes.size() - at : 0;
  std::array<std::span<const std::byte>, 3> parts;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!sizes[i] || sizes[i] > left) fail(ErrorKind::bad_file, "the bytes of a refittable engine are damaged");
    parts[i] = bytes.subspan(at, sizes[i]);
    at += sizes[i];
    left -= sizes[i];
  }
  if (left) fail(ErrorKind::bad_file, "there are ", int64_t(left), " bytes behind a refittable engine");
  return RefittableParts{parts[0], parts[1], std::string(text.substr(at - sizes[2], sizes[2]))};
}

std::string build_refittable(const Network& network, const Config& config, const Logger& logger) {
  return or_else(logger, std::string(), [&] {
    if (config.calibrator)
      fail(ErrorKind::unsupported,
           "REFIT beside a calibrator: its ranges are those of the old weights; put them into the model (Q/DQ)");
    if (!network.is_filled()) return build_serialized(network, config, logger);
    Json recipe = {{"device", config.device},   {"fp16", config.fp16},
                   {"bf16", config.bf16},       {"int8", config.int8},
                   {"tf32", config.tf32},       {"workspace", config.workspace},
                   {"profiles", Json::array()}, {"timings", TimingCache().text()}};
    if (config.timings) recipe["timings"] = config.timings->now().text();
    for (const Profile& profile : config.profiles) recipe["profiles"].push_back(json_of(profile));
    std::string bytes = build_by(network, recipe, config.monitor, logger);
    if (config.timings && !bytes.empty())
      config.timings->add_all(TimingCache::of_text(
          Json::parse(parts_of(std::as_bytes(std::span(bytes)))->recipe).at("timings").get<std::string>()));
    return bytes;
  });
}

Refitter::Refitter(std::span<const std::byte> bytes) {
  const auto parts = parts_of(bytes);
  if (!parts) fail(ErrorKind::usage, "the engine was not built to be refitted (BuilderFlag.REFIT)");
  recipe_ = parts->recipe;
  network_.assign(reinterpret_cast<const char*>(parts->network.data()), parts->network.size());
  const Network network = Network::restored(network_);
  if (const std::string model = network.model_bytes(); !model.empty())
    for (const Initializer& of : float_initializers(model))
      all_.push_back({of.name, of.node, role_of(of), of.dtype, of.count});
  for (int i = 0; i < network.layers(); ++i)
    for (const auto& [setting, value] : network.layer(i).settings)
      if (const auto role = role_of(setting); role && std::holds_alternative<Tensor>(value))
        if (const Tensor& tensor = std::get<Tensor>(value); tensor.count())
          all_.push_back({concat(network.layer(i).name, ".", setting), network.layer(i).name, *role, tensor.dtype(),
                          tensor.count()});
}

void Refitter::set(const std::string& name, const Tensor& weights) {
  const auto it = std::find_if(all_.begin(), all_.end(), [&](const RefitWeights& of) { return of.name == name; });
  if (it == all_.end()) fail(ErrorKind::usage, "the engine has no weights '", name, "'");
  if (weights.count() != it->count)
    fail(ErrorKind::usage, "'", name, "' has ", it->count, " weights, not ", weights.count());
  replaced_[name] = weights.converted(it->dtype);
}

std::string Refitter::build(const Logger& logger) const {
  return or_else(logger, std::string(), [&] {
    return build_by(Network::restored(network_, replaced_), Json::parse(recipe_), nullptr, logger);
  });
}

}  // namespace temper::nvinfer
