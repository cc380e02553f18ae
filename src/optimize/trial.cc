// SPDX-License-Identifier: Apache-2.0
#include "optimize/trial.h"

#include "passes/pass.h"

namespace temper {

namespace {

// What has no kernels but the reference's as it stands, which takes seconds for what takes milliseconds.
void expand_for_kernels(Graph& graph, PassOptions passes) {
  passes.dump_folder.clear();  // of the build that asks
  run_passes(graph, passes, {0, "trial", {{"expand_conv_transpose", expand_conv_transpose}}});
}

}  // namespace

std::shared_ptr<const Engine> trial_engine(Graph graph, BuildOptions options) {
  options.measure = options.segments = options.batch_buckets = false;
  options.timing_cache.clear();
  options.progress = nullptr;
  options.precision = "fp32";  // what is lower is in the graph
  options.calibration.clear();
  options.ranges.reset();
  options.qdq.clear();
  options.placement = {};
  expand_for_kernels(graph, options.passes);
  options.passes = {};
  options.passes.all_disabled = true;
  EngineInfo info;
  info.model_name = graph.name;
  return build_engine(std::move(graph), std::move(info), options);
}

}  // namespace temper
