// SPDX-License-Identifier: Apache-2.0
// Observing a model in FP32: the engine whose outputs are all values, and the loop over the samples.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "build/build.h"
#include "cli/verb.h"
#include "data/dataset.h"
#include "onnx/import.h"
#include "quantize/ranges.h"

namespace temper::cli {

// The optimised graph, and an engine for it that gives every observed value. Built without measuring: it runs once over
// the samples, and measuring would take longer than that.
struct ObservedModel {
  Graph graph;
  std::map<std::string, ShapeRange> shapes;   // of its inputs
  std::shared_ptr<const Engine> engine;
  std::vector<std::string> order;             // names of the observed values, in the graph's order
  std::vector<int> inputs;                    // by input of the graph: its place in `order`, -1 where it is not observed
  std::vector<std::vector<int>> outputs;      // by output of the engine: places in `order`
};
ObservedModel observe_model(const ImportedModel& model, const BuildOptions& options);

struct CalibrationData {
  std::vector<int64_t> samples;  // of the dataset
  int64_t batch = 0;             // 0: chosen so that all values of a batch take at most 256 MiB
};

struct Observation {
  std::vector<std::string> order;
  std::map<std::string, Observed> values;
  std::vector<uint64_t> sample_hashes;  // sorted, none twice
  int64_t samples = 0, batch = 0;
  Graph graph;                          // the optimised one, for `shapes`; not of observe_noise
  std::map<std::string, ShapeRange> shapes;
};

// Runs the samples and observes. Memory does not depend on their number, but for 8 bytes each.
Observation observe_samples(const ImportedModel& model, const Dataset& data, const CalibrationData& what, BuildOptions options, const Context& context);
// The same on seeded noise, for want of data. Shapes are those of the options; open batches are 1.
Observation observe_noise(const ImportedModel& model, int64_t samples, uint64_t seed, BuildOptions options, const Context& context);

}  // namespace temper::cli
