// SPDX-License-Identifier: Apache-2.0
// Engine: immutable, shared by threads. Session: one per thread; owns memory and kernels.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "plan/build.h"
#include "plan/execute.h"
#include "plan/file.h"

namespace temper {

class Engine {
 public:
  // `graph` is the optimised graph; symbolic where shapes may vary. `plans` are by the concrete shapes of the inputs.
  Engine(EngineInfo info, Graph graph, int threads, const DeviceSettings& settings = {});

  explicit Engine(PlanFile file, const DeviceSettings& settings = {});
  // A plan file. Throws Error{bad_file} for one that is missing or damaged, Error{unsupported}, with the command that
  // builds it again, for one of another version, build or machine.
  static std::shared_ptr<const Engine> load(const std::string& path, const DeviceSettings& settings = {});

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

  void add_plan(Plan plan);
  void add_note(std::string note) { info_.notes.push_back(std::move(note)); }
  void set_build_seconds(double seconds) { info_.build_s = seconds; }
  // What it was made from, which save_engine does not write over.
  void set_files(const std::vector<std::string>& files);
  const std::vector<std::string>& files() const { return files_; }  // absolute paths
  void set_timings(std::map<std::string, double> timings) { timings_ = std::move(timings); }
  const std::map<std::string, double>& timings() const { return timings_; }
  std::vector<std::shared_ptr<const Plan>> plans() const;
  // The plan for these input shapes: known, or made now from the graph without measuring (and kept). `made` tells which.
  // Throws Error{usage} for shapes outside the profile. Null where one plan is not enough: see runtime/stages.h.
  std::shared_ptr<const Plan> plan_for(const std::vector<Dims>& shapes, bool* made = nullptr) const;
  // A plan for a graph of concrete shapes, by the times that the engine holds.
  std::shared_ptr<const Plan> make_plan(const Graph& concrete) const;
  // Throws Error{usage} with what is expected if the shapes are not inside the profile.
  void check_shapes(const std::vector<Dims>& shapes) const;

 private:
  EngineInfo info_;
  std::optional<Graph> graph_;
  std::string graph_text_;  // where there is no graph
  int threads_;
  Device device_;
  std::vector<PortInfo> inputs_, outputs_;
  std::vector<std::string> files_;
  std::map<std::string, double> timings_;
  mutable std::mutex mutex_, pack_mutex_;
  mutable std::map<std::vector<Dims>, std::shared_ptr<const Plan>> plans_;
  mutable PackCache packs_;
};

// What a file of the engine holds: the plans it has by now.
PlanFile plan_file_of(const Engine& engine);
// Writes it; see write_plan_file. Throws Error{usage} where the engine was loaded or built from that file.
void save_engine(const Engine& engine, const std::string& path, bool force = false);

struct SessionStatistics {
  int64_t runs = 0;
  int64_t plans_made = 0;  // by run or prepare, for shapes that the engine had no plan for
};

class StagedRunner;

class Session {
 public:
  explicit Session(std::shared_ptr<const Engine> engine);
  ~Session();

  // Makes everything ready for these shapes (in input order), so that run() on them only runs. Returns the output types;
  // those of a model whose shapes depend on data may be symbolic, and then only run() can be used.
  std::vector<TensorType> prepare(const std::vector<Dims>& shapes);
  // Checks dtypes, ranks and shapes against the engine's inputs; Error{usage} lists what is expected.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs);
  // For shapes prepared last: row-major buffers of the types that prepare() was given and returned. Allocates nothing.
  void run_prepared(std::span<const void* const> inputs, std::span<void* const> outputs);
  // For devices with memory of their own ("cuda:0"): as run_prepared, with buffers in that memory; see
  // Executor::run_resident. What writes the inputs must be done, or stream() must have been made to wait for it. Throws
  // Error{usage} on other devices and Error{unsupported} where is_staged().
  std::span<void* const> run_resident(std::span<const void* const> inputs, std::span<void* const> outputs = {});
  // Memory of such a device, which outlives the session where its owner does.
  std::shared_ptr<void> allocate_resident(int64_t bytes) { return queue().allocate(bytes); }
  // Of such a device: what its work is ordered by (a CUstream).
  void* stream() { return queue().handle(); }
  // For devices with memory of their own, after a run: see Executor::run_on_device.
  std::vector<double> run_on_device(int times, bool recorded = true) { return one_stage().executor->run_on_device(times, recorded); }
  // As run_prepared, adding to `ms` the time of each step: see Executor::run_timed.
  void run_timed(std::span<const void* const> inputs, std::span<void* const> outputs, std::vector<std::vector<double>>& ms);
  // As run_prepared, showing what each step reads and writes.
  void run_observed(std::span<const void* const> inputs, std::span<void* const> outputs, const Executor::Observer& observer);

  const Engine& engine() const { return *engine_; }
  // After prepare(): shapes depend on data, so that only run() can be used.
  bool is_staged() const { return current_ && !current_->plan; }
  const Plan& current_plan() const;  // throws Error{usage} before prepare() and for a model of several stages
  const SessionStatistics& statistics() const { return statistics_; }
  int64_t arena_bytes() const { return arena_.bytes(); }

 private:
  struct Prepared {
    std::shared_ptr<const Plan> plan;  // null: several stages
    std::unique_ptr<Executor> executor;
  };
  std::shared_ptr<const Engine> engine_;
  Arena arena_;
  std::map<std::vector<Dims>, Prepared> prepared_;
  Prepared* current_ = nullptr;
  std::unique_ptr<StagedRunner> staged_;

  Prepared& one_stage();
  Queue& queue();
  SessionStatistics statistics_;
};

}  // namespace temper
