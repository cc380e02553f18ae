// SPDX-License-Identifier: Apache-2.0
#include "triton/model.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "clients/dependence.h"
#include "triton/server.h"

namespace temper::triton {

namespace {

namespace fs = std::filesystem;

std::string name_of(TRITONBACKEND_Model* model) {
  const char* name = nullptr;
  check(TRITONBACKEND_ModelName(model, &name));
  return name;
}

std::string version_of(TRITONBACKEND_Model* model) {
  uint64_t version = 0;
  check(TRITONBACKEND_ModelVersion(model, &version));
  return std::to_string(version);
}

std::string folder_of(TRITONBACKEND_Model* model, const std::string& version) {
  TRITONBACKEND_ArtifactType type;
  const char* location = nullptr;
  check(TRITONBACKEND_ModelRepository(model, &type, &location));
  if (type != TRITONBACKEND_ARTIFACT_FILESYSTEM)
    refuse("the model repository is no folder", TRITONSERVER_ERROR_UNSUPPORTED);
  return (fs::path(location) / version).string();
}

using Message = std::unique_ptr<TRITONSERVER_Message, void (*)(TRITONSERVER_Message*)>;
Message owned(TRITONSERVER_Message* message) {
  return {message, [](TRITONSERVER_Message* its) { log_error(TRITONSERVER_MessageDelete(its), "a message stays"); }};
}

bool is_gpu(const temper::Engine& engine) { return std::strncmp(engine.info().device, "cuda", 4) == 0; }

}  // namespace

PlanShape shape_of(const temper::Engine& engine) {
  PlanShape shape;
  shape.inputs = engine.inputs();
  shape.outputs = engine.outputs();
  for (size_t i = 0; i < shape.inputs.size(); ++i) {
    int64_t dims[3];
    shape.pictures.push_back(shape.inputs[i].dims.size() == 4 &&
                             temper_picture_dims(engine.handle(), i, nullptr, dims) == TEMPER_OK);
  }
  for (const auto* ports : {&shape.inputs, &shape.outputs})
    for (const temper::Port& port : *ports) {
      if (type_name(port.dtype).empty())
        refuse("'" + port.name + "' has a type that the server has no tensors of", TRITONSERVER_ERROR_UNSUPPORTED);
      if (shape.why_no_batch.empty() && (port.dims.empty() || port.dims[0] != -1))
        shape.why_no_batch = "the first dimension of '" + port.name + "' is " +
                             (port.dims.empty() ? "not there" : "fixed") +
                             " (a plan takes batches that was built with --shapes of several)";
    }
  if (!shape.why_no_batch.empty()) return shape;
  int64_t low = 1, high = 0;
  for (const auto& profile : engine.profiles()) {
    high = std::max(high, profile[0].max[0]);
    low = high == profile[0].max[0] ? profile[0].min[0] : low;
  }
  const auto buckets = engine.buckets();
  if (buckets.empty()) return shape.why_no_batch = "the plan was tuned for no shape", shape;
  std::set<int64_t> batches;
  for (const auto& bucket : buckets) batches.insert(bucket[0].dims[0]);
  shape.buckets.assign(batches.begin(), batches.end());
  if (high < 1) high = shape.buckets.back();  // nothing limits it
  if (high < 2) {
    shape.why_no_batch = "the plan takes one sample at a time (--shapes of several at its build make it take more)";
    return shape;
  }
  // Outputs must have the batch of the inputs.
  std::vector<std::vector<int64_t>> dims;
  for (const temper::Port& port : buckets.front()) dims.push_back(port.dims);
  for (const int64_t batch : {std::max<int64_t>(low, 2), high}) {
    for (auto& one : dims) one[0] = batch;
    try {
      const auto given = engine.output_dims(dims);
      for (size_t o = 0; o < given.size(); ++o)
        if (std::find(given[o].begin(), given[o].end(), -1) != given[o].end())
          shape.why_no_batch = "the shape of '" + shape.outputs[o].name + "' depends on data";
        else if (given[o][0] != batch)
          shape.why_no_batch = "the first dimension of '" + shape.outputs[o].name + "' is not that of the inputs";
    } catch (const temper::Error& error) { shape.why_no_batch = error.what(); }
    if (!shape.why_no_batch.empty()) return shape;
  }
  if (!engine.samples_are_independent()) {
    for (auto& one : dims) one[0] = std::max<int64_t>(low, 2);
    shape.why_no_batch = clients::dependence_of(engine, dims);
  }
  if (shape.why_no_batch.empty()) shape.max_batch = high;
  return shape;
}

Model::Model(TRITONBACKEND_Model* model, const MetricFamilies& families)
    : model_(model),
      name_(name_of(model)),
      version_(version_of(model)),
      folder_(folder_of(model, version_)),
      metrics_(families, name_, version_) {
  std::string json = config_json();
  config_ = read_config(json);
  const Place place = config_.device.empty()               ? place_of_groups(json)
                      : config_.device.starts_with("cuda") ? Place::gpu
                                                           : Place::cpu;
  const temper::Engine engine = engine_for(place, -1);
  shape_ = shape_of(engine);
  bool complete = false;
  check(TRITONBACKEND_ModelAutoCompleteConfig(model_, &complete));
  if (complete) {
    json = complete_config(json, shape_);
    TRITONSERVER_Message* message = nullptr;
    check(TRITONSERVER_MessageNewFromSerializedJson(&message, json.data(), json.size()));
    const Message owner = owned(message);
    check(TRITONBACKEND_ModelSetConfig(model_, 1, message));
    if (read_config(json).max_batch == 0 && !shape_.why_no_batch.empty())
      log(TRITONSERVER_LOG_INFO, name_ + ": requests are not joined to batches: " + shape_.why_no_batch);
  }
  check_config(json, shape_);
  config_ = read_config(json);
}

std::string Model::config_json() const {
  TRITONSERVER_Message* message = nullptr;
  check(TRITONBACKEND_ModelConfig(model_, 1, &message));
  const Message owner = owned(message);
  const char* json = nullptr;
  size_t bytes = 0;
  check(TRITONSERVER_MessageSerializeToJson(message, &json, &bytes));
  return {json, bytes};
}

// model.temper first, then the others in the order of their names.
std::vector<std::string> Model::plans() const {
  if (!config_.file.empty()) return {(fs::path(folder_) / config_.file).string()};
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error))
    if (it->path().extension() == ".temper") found.push_back(it->path().string());
  std::sort(found.begin(), found.end(), [](const std::string& a, const std::string& b) {
    const auto is_main = [](const std::string& path) { return fs::path(path).filename() == "model.temper"; };
    return is_main(a) != is_main(b) ? is_main(a) : a < b;
  });
  if (found.empty())
    refuse(
        name_ + ": there is no plan in '" + folder_ + "'. Put one there as model.temper; temper repository add does it",
        TRITONSERVER_ERROR_NOT_FOUND);
  return found;
}

temper::Engine Model::engine_for(Place place, int32_t device) {
  const std::lock_guard lock(mutex_);
  std::string reasons;
  const auto candidates = plans();
  for (const std::string& path : candidates) {
    std::string refused;
    const std::string named = !config_.device.empty() && config_.device != "cuda" ? config_.device
                              : place == Place::gpu && device >= 0                ? "cuda:" + std::to_string(device)
                                                                                  : "";
    for (const Loaded& loaded : engines_)
      if (loaded.path == path && (named.empty() || named == loaded.engine.info().device) &&
          (place == Place::any || is_gpu(loaded.engine) == (place == Place::gpu)))
        return loaded.engine;
    try {
      // Read, not mapped: whoever changes the repository changes nothing for a model that is loaded.
      temper::LoadOptions options;
      options.device = named;
      temper::Engine engine = temper::Engine::load(path, options);
      const bool gpu = is_gpu(engine);
      if (place == Place::any || gpu == (place == Place::gpu)) {
        engines_.push_back({path, engine});
        return engine;
      }
      refused = std::string("it is for ") + engine.info().device + ", and the configuration asks for " +
                (gpu ? "the CPU. Write instance_group [ { kind: KIND_MODEL } ], or build it with --device cpu"
                     : "a GPU. Write instance_group [ { kind: KIND_MODEL } ], or build it with --device cuda:0");
    } catch (const temper::Error& error) { refused = error.what(); }
    reasons += (reasons.empty() ? "" : "; ") + fs::path(path).filename().string() + ": " + refused;
  }
  refuse(name_ + ": " +
             (candidates.size() == 1 ? std::string("the plan cannot be used here: ")
                                     : "none of the plans can be used here: ") +
             reasons,
         TRITONSERVER_ERROR_UNAVAILABLE);
}

}  // namespace temper::triton
