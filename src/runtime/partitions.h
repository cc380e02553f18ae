// SPDX-License-Identifier: Apache-2.0
// Models in which the shape of some value depends on data. A partition is the largest part of what is left of the graph
// whose shapes all follow from the shapes of its inputs; it runs as a plan. Between partitions the nodes that decide
// shapes run by their references, because only then is the size of their outputs known.
#pragma once
#include <map>
#include <memory>

#include "runtime/engine.h"

namespace temper {

// True when every value of the specialised graph has a concrete type: one partition, one plan.
bool is_one_partition(const Graph& graph);

class PartitionedRunner {
 public:
  PartitionedRunner(const Engine& engine, Arena& arena);
  ~PartitionedRunner();
  // Plans are made for the shapes seen and kept within the engine's limits of a session.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs);
  // Adds the partitions, their plans and evictions.
  void add_to(SessionStatistics& statistics) const;

 private:
  struct Level;
  struct Branch;
  const Engine& engine_;
  Arena& arena_;
  std::unique_ptr<Level> first_;
  PlanBytes bytes_;
  int64_t kernel_bytes_ = 0, run_ = 0, kept_ = 0, made_ = 0, evictions_ = 0;

  Branch& make(Level& level, const std::vector<Dims>& shapes);
  void stay_within_limits();
  void leave(Level& level);
};

}  // namespace temper
