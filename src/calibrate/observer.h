// SPDX-License-Identifier: Apache-2.0
// Observes a model in FP32, batch after batch, for calibration.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "optimize/build_engine.h"
#include "quantize/ranges.h"

namespace temper {

struct Observation {
  std::vector<std::string> order;
  std::map<std::string, Observed> values;
  std::vector<uint64_t> sample_hashes;  // sorted, none twice
  int64_t samples = 0;
  Graph graph;  // the optimised one, for `shapes`
  std::map<std::string, ShapeRange> shapes;
};

void sort_uniquely(std::vector<uint64_t>& sample_hashes);

// Ranges by one method; model and seed are left to the caller.
Ranges make_ranges(const Observation& seen, const Method& method);

// The engine whose outputs are all values of the optimised graph, built without measuring: it runs once over the
// samples, and measuring would take longer than that.
class Observer {
 public:
  // `graph` is the one that was imported. Shapes are those of the options.
  Observer(const Graph& graph, const BuildOptions& options);
  ~Observer();
  Observer(Observer&&) noexcept;

  const Engine& engine() const;
  // Runs and observes one batch. `names` are those of its samples, for errors; where the batch was filled up to
  // `filled` samples, only as many as there are names count. Throws Error{check_failed} for a NaN or an infinity,
  // naming value and sample.
  void observe(const std::vector<Tensor>& inputs, const std::vector<std::string>& names, int64_t filled = 0);
  const Observation& seen() const { return seen_; }  // so far; the hashes come with finish()
  // The observation of all batches. `sample_hashes` are of the samples' contents. Nothing can be observed afterwards.
  Observation finish(std::vector<uint64_t> sample_hashes = {});

 private:
  struct Runner;
  Observation seen_;
  std::vector<int> inputs_;                // by input of the graph: its place in the order, -1 where it is not observed
  std::vector<std::vector<int>> outputs_;  // by output of the engine: places in the order
  std::unique_ptr<Runner> runner_;
};

}  // namespace temper
