// SPDX-License-Identifier: Apache-2.0
// Engine: immutable, shared by threads. Session: one per thread; owns memory and kernels.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "graph/graph.h"
#include "plan/build.h"
#include "plan/execute.h"

namespace temper {

// The range of shapes an input may have; all three equal for a fixed one.
struct ShapeRange {
  Dims min, opt, max;
  bool operator==(const ShapeRange&) const = default;
};

// What `build` knows and `inspect` shows.
struct EngineInfo {
  std::string model_name;
  std::string model_sha256;
  std::string source_path;
  std::string producer;
  std::string precision = "fp32";
  std::string device;        // "cpu"
  std::string fingerprint;
  std::string version, revision;
  std::string command;       // that builds it again
  double build_s = 0;
  std::map<std::string, ShapeRange> shapes;  // by input
  std::vector<std::string> notes;
};

class Engine {
 public:
  // `graph` is the optimised graph; symbolic where shapes may vary. `plans` are by the concrete shapes of the inputs.
  Engine(EngineInfo info, Graph graph, int threads);

  static std::shared_ptr<const Engine> load(const std::string& path);  // a plan file; see plan/file.h for the errors

  const EngineInfo& info() const { return info_; }
  const Graph& graph() const { return graph_; }
  const Device& device() const { return device_; }
  int threads() const { return threads_; }
  // Types may have symbolic dimensions.
  const std::vector<PortInfo>& inputs() const { return inputs_; }
  const std::vector<PortInfo>& outputs() const { return outputs_; }

  void add_plan(Plan plan);
  void set_build_seconds(double seconds) { info_.build_s = seconds; }
  void set_timings(std::map<std::string, double> timings) { timings_ = std::move(timings); }
  const std::map<std::string, double>& timings() const { return timings_; }
  std::vector<std::shared_ptr<const Plan>> plans() const;
  // The plan for these input shapes: known, or made now from the graph without measuring (and kept). `made` tells which.
  // Throws Error{usage} for shapes outside the profile.
  std::shared_ptr<const Plan> plan_for(const std::vector<Dims>& shapes, bool* made = nullptr) const;
  // Throws Error{usage} with what is expected if the shapes are not inside the profile.
  void check_shapes(const std::vector<Dims>& shapes) const;

 private:
  EngineInfo info_;
  Graph graph_;
  int threads_;
  Device device_;
  std::vector<PortInfo> inputs_, outputs_;
  std::map<std::string, double> timings_;
  mutable std::mutex mutex_;
  mutable std::map<std::vector<Dims>, std::shared_ptr<const Plan>> plans_;
  mutable PackCache packs_;
};

struct SessionStatistics {
  int64_t runs = 0;
  int64_t plans_made = 0;  // by run or prepare, for shapes that the engine had no plan for
};

class Session {
 public:
  explicit Session(std::shared_ptr<const Engine> engine);
  ~Session();

  // Makes everything ready for these shapes (in input order), so that run() on them only runs. Returns the output types.
  std::vector<TensorType> prepare(const std::vector<Dims>& shapes);
  // Checks dtypes, ranks and shapes against the engine's inputs; Error{usage} lists what is expected.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs);
  // For shapes prepared last: row-major buffers of the types that prepare() was given and returned. Allocates nothing.
  void run_prepared(std::span<const void* const> inputs, std::span<void* const> outputs);
  // As run_prepared, one step at a time on one thread of control (profile, verify).
  void run_observed(std::span<const void* const> inputs, std::span<void* const> outputs,
                    const std::function<void(const Plan&, int segment, int step, int64_t slice)>& after);

  const Engine& engine() const { return *engine_; }
  const Plan& current_plan() const;
  const SessionStatistics& statistics() const { return statistics_; }
  int64_t arena_bytes() const { return arena_.bytes(); }

 private:
  struct Prepared {
    std::shared_ptr<const Plan> plan;
    std::unique_ptr<Executor> executor;
  };
  std::shared_ptr<const Engine> engine_;
  Arena arena_;
  std::map<std::vector<Dims>, Prepared> prepared_;
  Prepared* current_ = nullptr;
  SessionStatistics statistics_;
};

}  // namespace temper
