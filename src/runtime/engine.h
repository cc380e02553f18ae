// SPDX-License-Identifier: Apache-2.0
// Engine: immutable, shared by threads; beside what it was made of it keeps plans that it makes for new shapes, within
// limits. Session: one per thread; owns memory and kernels.
#pragma once
#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/aligned.h"
#include "plan/arena.h"
#include "plan/describe.h"
#include "plan/executor.h"
#include "plan/file.h"
#include "plan/nearest.h"
#include "runtime/plan_bytes.h"
#include "runtime/recent.h"
#include "runtime/state.h"

namespace temper {

// Limits what is kept of shapes that come at run time; what was used last stays. The latest stays whatever it takes,
// and the plans that the engine was built or loaded with are neither counted nor let go. A plan lives on while a
// session is prepared for it.
struct ShapeLimits {
  int64_t plans = 128, plan_bytes = int64_t(256) << 20;         // of the engine
  int64_t prepared = 128, prepared_bytes = int64_t(256) << 20;  // of each session: with its kernels, by an estimate
  bool operator==(const ShapeLimits&) const = default;
};

struct LoadOptions {
  DeviceSettings settings;
  bool map_file = false;  // see ReadPlanOptions
  std::string device;     // see ReadPlanOptions; "": the plan's
};

struct EngineStatistics {
  int64_t plans = 0;       // held by now: those of the file, and those made since
  int64_t plan_bytes = 0;  // of those made since: tables, and constants that nothing else holds
  int64_t plans_made = 0;  // for shapes that came at run time
  int64_t evictions = 0;   // plans let go, because others were used since
};

class Engine {
 public:
  // Makes an engine of finished plans, which it keeps for good. `files`: what they were made from; save_engine does
  // not write over them.
  explicit Engine(PlanFile file, const DeviceSettings& settings = {}, const std::vector<std::string>& files = {});
  // Without a plan: see unplanned().
  Engine(const EngineInfo& info, Graph graph, int threads, const DeviceSettings& settings = {});
  // A plan file. Throws Error{bad_file} for one that is missing or damaged, Error{unsupported}, with the command that
  // builds it again, for one of another version, build or machine.
  static std::shared_ptr<const Engine> load(const std::string& path, const LoadOptions& options = {});
  // The same of a plan file's bytes, which are copied.
  static std::shared_ptr<const Engine> from_bytes(std::span<const std::byte> plan, const DeviceSettings& settings = {},
                                                  const std::string& device = "");

  const EngineInfo& info() const { return info_; }
  // Whether some shape is open, because inputs may vary or because it depends on data: only then an engine from a file
  // has a graph.
  bool is_dynamic() const;
  bool has_graph() const { return graph_.has_value(); }
  const Graph& graph() const;  // throws Error{usage} where there is none
  std::string graph_text() const { return graph_ ? print(*graph_) : graph_text_; }
  const Device& device() const { return device_; }
  int threads() const { return threads_; }
  // Types may have symbolic dimensions.
  const std::vector<PortInfo>& inputs() const { return inputs_; }
  const std::vector<PortInfo>& outputs() const { return outputs_; }

  const std::vector<std::string>& files() const { return files_; }  // absolute paths
  const std::map<std::string, double>& timings() const { return timings_; }
  std::vector<std::shared_ptr<const Plan>> plans() const;
  // The plan for these input shapes: known, or made now from the graph without measuring (and kept). `made` tells
  // which. Threads that ask for the same new shapes wait for the one that plans them; nobody else waits for anybody.
  // Throws Error{usage} for shapes outside the profile. Null where one plan is not enough: see runtime/partitions.h.
  std::shared_ptr<const Plan> plan_for(const std::vector<Dims>& shapes, bool* made = nullptr) const;
  // From now on; for a session, from its next new shapes on. Throws Error{usage} for what is less than 1.
  void set_limits(const ShapeLimits& limits) const;
  ShapeLimits limits() const;
  EngineStatistics statistics() const;
  const KnownConstants& known_constants() const { return known_; }
  // A plan for a graph of concrete shapes, by the times that the engine holds. It is not kept; who made it calls
  // forget_unused() after letting it go.
  std::shared_ptr<const Plan> make_plan(const Graph& concrete) const;
  void forget_unused() const { packs_.forget_unused(); }
  // Throws Error{usage} with what is expected if the shapes are not inside a profile.
  void check_shapes(const std::vector<Dims>& shapes) const;
  // The types of the outputs for these input shapes, without planning anything: dimensions that depend on data stay
  // symbolic. Throws as check_shapes does.
  std::vector<TensorType> output_types(const std::vector<Dims>& shapes) const;

 private:
  EngineInfo info_;
  std::optional<Graph> graph_;
  std::string graph_text_;  // where there is no graph
  int threads_;
  Device device_;
  std::vector<PortInfo> inputs_, outputs_;
  std::vector<std::string> files_;
  std::map<std::string, double> timings_;
  mutable std::mutex times_mutex_;
  mutable std::shared_ptr<TimeSource> times_;  // by timings_; null until a plan is made
  StepThreads step_threads_;                   // of the plans that were given
  KnownConstants known_;
  mutable PackCache packs_;
  mutable std::atomic<int64_t> plans_made_{0};

  using PlanRef = std::shared_ptr<const Plan>;
  mutable std::mutex mutex_;  // of what follows; held for moments
  mutable ShapeLimits limits_;
  mutable RecentShapes<PlanRef> plans_;
  mutable std::map<std::vector<Dims>, std::shared_future<PlanRef>> planning_;
  mutable PlanBytes bytes_{known_};
  mutable int64_t evictions_ = 0;

  void keep(PlanRef plan);
  PlanRef plan_now(const std::vector<Dims>& shapes) const;
  [[nodiscard]] std::vector<PlanRef> beyond_limits() const;  // with the mutex held
};

// The contents of an engine with no plan yet, for this process and device. `graph` is the optimised graph; symbolic
// where shapes may vary.
PlanFile unplanned(EngineInfo info, Graph graph, int threads, Device device);
// The contents of a file of the engine, with the plans that it has by now.
PlanFile plan_file_of(const Engine& engine);
// Writes it; see write_plan_file. Throws Error{usage} where the engine was loaded or built from that file.
void save_engine(const Engine& engine, const std::string& path, bool force = false);
std::string plan_bytes_of(const Engine& engine);  // of the file that save_engine would write
// The engine as JSON; see describe().
std::string description_of(const Engine& engine, const DescribeOptions& options);

struct SessionStatistics {
  int64_t runs = 0;
  int64_t plans_made = 0;      // by run or prepare, for shapes that the engine had no plan for
  int64_t prepared = 0;        // shapes that a run is ready for (partitions, where shapes depend on data)
  int64_t prepared_bytes = 0;  // of those: plans as in EngineStatistics, and an estimate of the kernels
  int64_t evictions = 0;       // of them
};

class PartitionedRunner;
struct Partition;  // runtime/partitions.h

class Session {
 public:
  // `memory`: where the session takes what it works in; null: the device's own.
  explicit Session(std::shared_ptr<const Engine> engine, Arena::Source memory = nullptr);
  ~Session();

  // From now on these outputs of a run are these inputs of the next, beginning with zeros (state.h); what was kept
  // before is forgotten. Then a run takes an undefined tensor, or null, for such an input; another one is the value
  // from which the state goes on. Such an output stays here: a run gives an undefined tensor, or takes null, for it.
  void keep_state(const std::vector<StateBinding>& bindings);
  const std::vector<State>& states() const { return states_; }
  void reset_state();  // to zeros
  // A session of the same engine that goes on from copies of these states, as for several answers to one beginning.
  std::unique_ptr<Session> fork();
  // The same for one that is there already.
  void copy_states(Session& from);
  // A copy of the tensor that the next run takes for this input; undefined before the first run. Throws Error{usage}
  // for an input that is no state.
  Tensor state(size_t input);
  // Puts the shapes of the states' values into `shapes`, but of inputs that are `given` (each is 0 or 1). A first value
  // has the shape that the engine fixes; open dimensions are as other inputs have them, then as the engine is tuned.
  // Throws Error{usage} where that leaves one open.
  void add_state_shapes(const std::vector<char>& given, std::vector<Dims>& shapes);

  // Makes everything ready for these shapes (in input order), so that run() on them only runs, until others that came
  // since are beyond the engine's limits(). Returns the output types; those of a model whose shapes depend on data may
  // be symbolic, and then only run() can be used.
  std::vector<TensorType> prepare(const std::vector<Dims>& shapes);
  // Checks dtypes, ranks and shapes against the engine's inputs; Error{usage} lists what is expected.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs);
  // For shapes prepared last: row-major buffers of the types that prepare() was given and returned. Allocates nothing.
  void run_prepared(std::span<const void* const> inputs, std::span<void* const> outputs);
  // Memory of the session's own for input `index` of the shapes prepared last, until others are: run_prepared copies it
  // no more on the host. Of a device with memory of its own it is what transfers begin from.
  void* input_memory(size_t index);
  // As run_prepared, but the work may go on when it returns; finish() waits for it, and only then are the outputs
  // written. On the host, and with states, there is nothing left to wait for. Nothing else may be called in between.
  void start_prepared(std::span<const void* const> inputs, std::span<void* const> outputs);
  void finish();
  // For devices with memory of their own ("cuda:0"): as run_prepared, with buffers in that memory; see
  // DeviceExecutor::run_resident. What writes the inputs must be done, or stream() must have been made to wait for it.
  // With `stream`, a CUstream of the caller's, everything is in that stream's order, and nothing waits on the host.
  // Throws Error{usage} on other devices and Error{unsupported} where is_partitioned().
  std::span<void* const> run_resident(std::span<const void* const> inputs, std::span<void* const> outputs = {},
                                      std::optional<void*> stream = {});
  // Memory of such a device, which outlives the session where its owner does.
  std::shared_ptr<void> allocate_resident(int64_t bytes) { return queue().allocate(bytes); }
  // Copies what was allocated so to the host, when all that this session was asked for is done.
  void copy_to_host(void* to, const void* from, int64_t bytes) {
    queue().copy_to_host(to, from, bytes);
    queue().wait();
  }
  void copy_to_device(void* to, const void* from, int64_t bytes) {
    queue().copy_to_device(to, from, bytes);
    queue().wait();
  }
  void copy_on_device(void* to, const void* from, int64_t bytes) {
    queue().copy_on_device(to, from, bytes);
    queue().wait();
  }
  // The CUstream that orders the work of such a device.
  void* stream() { return queue().handle(); }
  // For devices with memory of their own, after a run: see DeviceExecutor::run_on_device.
  std::vector<double> run_on_device(int times, bool recorded = true);
  // As run_prepared, for the same devices: see DeviceExecutor::run_clocked.
  double run_clocked(std::span<const void* const> inputs, std::span<void* const> outputs);
  // As run_prepared, adding to `ms` the time of each step: see Executor::run_timed.
  void run_timed(std::span<const void* const> inputs, std::span<void* const> outputs,
                 std::vector<std::vector<double>>& ms);
  // The partitions of a model for which these shapes make no one plan, as far as they are known without a run: both
  // sides of every branch among them, and loops' bodies. None for other models.
  std::vector<Partition> partitions(const std::vector<Dims>& shapes);
  // The same of those that were run, with the times of their steps since time_partitions(true).
  std::vector<Partition> partitions() const;
  void time_partitions(bool timed);
  // As run_prepared, showing what each step reads and writes.
  void run_observed(std::span<const void* const> inputs, std::span<void* const> outputs,
                    const Executor::Observer& observer);

  const Engine& engine() const { return *engine_; }
  const std::shared_ptr<const Engine>& shared_engine() const { return engine_; }
  // After prepare(): shapes depend on data, so that only run() can be used.
  bool is_partitioned() const { return current_ && !current_->plan; }
  const Plan& current_plan() const;  // throws Error{usage} before prepare() and for a model of several partitions
  SessionStatistics statistics() const;
  int64_t arena_bytes() const { return arena_.bytes(); }

 private:
  struct Prepared {
    std::shared_ptr<const Plan> plan;  // null: several partitions
    std::unique_ptr<Executor> executor;
    std::vector<std::pair<size_t, size_t>> shared;  // inputs and outputs that may be one place
  };
  std::shared_ptr<const Engine> engine_;
  Arena arena_;
  RecentShapes<Prepared> prepared_;
  PlanBytes bytes_;
  int64_t kernel_bytes_ = 0;
  Prepared* current_ = nullptr;
  std::vector<State> states_;
  std::vector<const void*> in_, in_there_;  // of a run with states
  std::vector<void*> out_, out_there_;
  std::vector<AlignedBytes> input_memory_;  // by input, where the device works on the host's
  DeviceExecutor* started_ = nullptr;       // of start_prepared, until finish()
  std::unique_ptr<PartitionedRunner> partitioned_;
  SessionStatistics statistics_;

  Prepared& make_ready(const std::vector<Dims>& shapes);
  Prepared& one_partition();
  Queue& queue();
  bool is_state(size_t input) const;
  std::vector<Tensor> run_partitioned(std::vector<Tensor> inputs);
  void use_states(std::span<const void* const> inputs, std::span<void* const> outputs, bool there);
  void states_ran(bool there);
};

}  // namespace temper
