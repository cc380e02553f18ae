// SPDX-License-Identifier: Apache-2.0
#include "optimize/trial.h"

namespace temper {

std::shared_ptr<const Engine> trial_engine(Graph graph, BuildOptions options) {
  options.measure = options.segments = options.batch_buckets = false;
  options.timing_cache.clear();
  options.progress = nullptr;
  options.precision = "fp32";  // what is lower is in the graph
  options.calibration.clear();
  options.ranges.reset();
  options.qdq.clear();
  options.placement = {};
  options.passes = {};
  options.passes.all_disabled = true;
  EngineInfo info;
  info.model_name = graph.name;
  return build_engine(std::move(graph), std::move(info), options);
}

}  // namespace temper
