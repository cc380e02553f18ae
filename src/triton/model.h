// SPDX-License-Identifier: Apache-2.0
// A model of the server: the plans of its version folder, which of them this machine runs, and the engines that the
// instances share.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "temper/temper.h"
#include "triton/config.h"
#include "triton/metrics.h"

namespace temper::triton {

class Model {
 public:
  // Reads the configuration, finds the plan, completes and checks the configuration. Throws Refusal.
  Model(TRITONBACKEND_Model* model, const MetricFamilies& families);

  const std::string& name() const { return name_; }
  const ModelConfig& config() const { return config_; }
  const PlanShape& shape() const { return shape_; }
  Metrics& metrics() { return metrics_; }
  // The engine for an instance there; instances of one device share it. `device` is the number of a GPU. Threads may
  // ask at once. Throws Refusal, with what each plan of the folder is refused for.
  temper::Engine engine_for(Place place, int32_t device);

 private:
  TRITONBACKEND_Model* const model_;
  std::string name_, version_, folder_;
  ModelConfig config_;
  PlanShape shape_;
  Metrics metrics_;
  std::mutex mutex_;
  struct Loaded {
    std::string path;
    temper::Engine engine;
  };
  std::vector<Loaded> engines_;

  std::vector<std::string> plans() const;
  std::string config_json() const;
};

// Tells what a configuration may say of an engine. Runs the model twice where the graph does not tell whether samples
// are independent: one sample beside others must give the same bits.
PlanShape shape_of(const temper::Engine& engine);

}  // namespace temper::triton
