// SPDX-License-Identifier: Apache-2.0
// Models in which the shape of some value depends on data, or what is computed at all (graph/control.h). A partition is
// the largest part of what is left of the graph whose shapes all follow from the shapes of its inputs and that is
// needed whatever the conditions are; it runs as a plan. Between partitions the nodes that decide shapes run by
// themselves, because only then is the size of their outputs known, and loops run, whose bodies are partitions of their
// own. What a condition chooses is a part of the graph that is left once the condition is known. On a device with
// memory of its own values stay there from plan to plan, and so do those of the nodes between them for which it has a
// kernel: of these the host reads how large they are. What other nodes, loops and conditions read is copied to it.
#pragma once
#include <map>
#include <memory>

#include "runtime/device_pool.h"
#include "runtime/engine.h"

namespace temper {

// True when every value of the specialised graph has a concrete type, and no data decides what is computed: one
// partition, one plan.
bool is_one_partition(const Graph& graph);

// A partition that was planned, and how its timed runs went.
struct Partition {
  std::string where;  // what leads there: "'sr16' true, part 2, loop 'n'"; empty for the first of a model
  std::shared_ptr<const Plan> plan;     // null: there is none, because of
  std::string refusal;                  // a side of a branch that does not fit these shapes
  int64_t runs = 0;                     // that were timed
  std::vector<std::vector<double>> ms;  // of these together, by segment and step
  // A node that runs by itself behind the plan; of a loop, what its body's partitions do not take.
  struct Between {
    std::string node, op;
    double ms = 0;
  };
  std::vector<Between> between;
  bool is_open = false;  // what follows is only known once it has run: shapes that data decide
};

class PartitionedRunner {
 public:
  // `where`: what leads to it, for partitions(). `pool`: of the runner that this one is inside of.
  PartitionedRunner(const Engine& engine, Arena& arena, const Graph& graph, std::string where = "",
                    std::shared_ptr<DevicePool> pool = nullptr);
  ~PartitionedRunner();
  // Plans are made for the shapes and conditions seen and kept within the engine's limits of a session; the body of a
  // loop has such limits to itself.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs);
  // All iterations of a loop of which this is the body, without anything between them but its plan: where it is one
  // plan, its carried values keep their shapes, and a number alone says how often it runs. `arguments`: trip,
  // condition, carried values, and what the body captures. Gives the carried values, then the stacked scans; nothing
  // where the body is more than that.
  std::optional<std::vector<Tensor>> run_loop_of_one_plan(const Node& end, const std::vector<Tensor>& arguments);
  // Plans for these shapes whatever the conditions are, as far as shapes are known without a run: at most kMostSides
  // partitions for each set of conditions.
  void explore(const std::vector<Dims>& shapes);
  std::vector<Partition> partitions() const;
  // Times the steps of runs from now on, or no longer.
  void time_runs(bool timed) { timed_ = timed; }
  static constexpr size_t kMostSides = 16;
  // Adds the partitions, their plans and evictions.
  void add_to(SessionStatistics& statistics) const;

 private:
  struct Level;
  struct Branch;
  // A value between plans: in the host's memory, in the device's own, or in both.
  struct Held {
    TensorType type;
    Tensor host;
    std::shared_ptr<void> there;
    explicit Held(TensorType t) : type(std::move(t)) {}
    explicit Held(Tensor tensor) : type(tensor.defined() ? tensor.type() : TensorType()), host(std::move(tensor)) {}
  };
  const Engine& engine_;
  Arena& arena_;
  size_t outputs_;
  std::string where_;
  bool timed_ = false;
  std::shared_ptr<DevicePool> pool_;  // null: the device works on the host's memory
  std::shared_ptr<void> count_;       // the host's memory that counts are read into
  std::unique_ptr<Level> first_;
  PlanBytes bytes_;
  int64_t kernel_bytes_ = 0, run_ = 0, kept_ = 0, made_ = 0, evictions_ = 0;

  Branch& make(Level& level, const std::vector<Dims>& key);
  // Of this run, made where it is not there.
  Branch& branch_for(Level& level, std::vector<Held>& inputs);
  std::vector<Dims> key_of(const Level& level, std::vector<Held>& inputs);
  const Tensor& on_host(Held& value);
  std::vector<Held> run_plan(Branch& branch, const std::vector<Held>& inputs);
  std::vector<Held> run_there(const Problem& problem, Kernel* kernel, std::span<const void* const> inputs);
  void explore(Level& level, const std::vector<Dims>& shapes);
  double timed_ms() const;
  void stay_within_limits();
  void leave(Level& level);
};

}  // namespace temper
