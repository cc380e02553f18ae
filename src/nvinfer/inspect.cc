// SPDX-License-Identifier: Apache-2.0
#include "nvinfer/inspect.h"

#include <algorithm>

#include "bench/layers.h"
#include "bench/profile.h"
#include "interop/trtexec_write.h"

namespace temper::nvinfer {

namespace {

constexpr const char* kNoPlan =
    "shapes inside the model depend on data: there is no one plan whose layers could be shown";

std::string text_of(const EngineLayers& layers, const std::vector<std::string>& bindings, InformationFormat format) {
  if (format == InformationFormat::json) return trtexec_layers_json(layers, true, bindings);
  std::string names;
  for (const EngineLayer& layer : layers.layers) names += concat(layer.name, "\n");
  return names;
}

}  // namespace

std::shared_ptr<const Plan> Inspector::plan(const std::vector<Dims>& shapes) const {
  if (!shapes.empty()) return engine_->plan_for(shapes);
  const auto plans = engine_->plans();
  return plans.empty() ? nullptr : plans.front();
}

int Inspector::layers() const {
  size_t most = 0;
  for (const auto& plan : engine_->plans()) most = std::max(most, steps_of(plan).steps.size());
  return int(most);
}

std::string Inspector::engine_information(const std::vector<Dims>& shapes, InformationFormat format,
                                          const Logger& logger) const {
  return or_else(logger, std::string(), [&] {
    const auto shown = plan(shapes);
    if (!shown) logger(Severity::warning, kNoPlan);
    const EngineInfo& info = engine_->info();
    const EngineLayers layers = shown ? layers_of(steps_of(shown), info, Peaks{}, info.model_name) : EngineLayers();
    std::vector<std::string> bindings;
    for (const auto* ports : {&engine_->inputs(), &engine_->outputs()})
      for (const PortInfo& port : *ports) bindings.push_back(port.name);
    return text_of(layers, bindings, format);
  });
}

std::string Inspector::layer_information(int layer, const std::vector<Dims>& shapes, InformationFormat format,
                                         const Logger& logger) const {
  return or_else(logger, std::string(), [&] {
    const auto shown = plan(shapes);
    if (!shown) fail(ErrorKind::unsupported, kNoPlan);
    const EngineLayers layers = layers_of(steps_of(shown), engine_->info(), Peaks{}, engine_->info().model_name);
    const int most = this->layers();
    if (layer < 0 || layer >= most) fail(ErrorKind::usage, "there is no layer ", layer, ": the engine has ", most);
    if (size_t(layer) >= layers.layers.size()) return std::string();
    return format == InformationFormat::json ? trtexec_layer_json(layers.layers[size_t(layer)])
                                             : concat(layers.layers[size_t(layer)].name, "\n");
  });
}

}  // namespace temper::nvinfer
