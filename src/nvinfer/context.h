// SPDX-License-Identifier: Apache-2.0
// An execution context as a program for TensorRT uses it: shapes of inputs and addresses are set by name, one
// after the other, and then it runs.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nvinfer/address.h"
#include "nvinfer/messages.h"
#include "runtime/engine.h"

namespace temper::nvinfer {

// The tensors of an engine in TensorRT's order: its inputs, then its outputs.
struct IoTensor {
  std::string name;
  DType dtype = DType::f32;
  Dims dims;  // -1: open
  bool is_input = false;
};
std::vector<IoTensor> io_tensors(const Engine& engine);

// A program's own memory for outputs. Both are called by the thread that runs the context; what they throw ends the
// run.
struct OutputAllocator {
  // Memory of at least `bytes` (which is at least 1) for the output; `current` is what it had, 0 at first. 0 ends the
  // run. `stream`: what the run is put into, where it was given one.
  std::function<uintptr_t(const std::string& name, uintptr_t current, int64_t bytes, int64_t alignment,
                          std::optional<void*> stream)>
      reallocate;
  std::function<void(const std::string& name, const Dims& dims)> notify_shape;  // before the memory is written
};
// Told of every layer of a run, in their order, with the time it took.
using LayerTimes = std::function<void(const std::string& layer, double ms)>;

// A program's own memory of the device, which a context works in. What `allocate` throws ends the run.
struct WorkMemory {
  // At least so many bytes, aligned to a power of 2; 0 ends the run.
  std::function<uintptr_t(int64_t bytes, int64_t alignment)> allocate;
  std::function<void(uintptr_t)> release;  // throws nothing
};

// For one thread at a time.
class Context {
 public:
  // `memory`: null for Temper's own.
  Context(std::shared_ptr<const Engine> engine, Logger logger, std::shared_ptr<const WorkMemory> memory = nullptr);

  bool of_gpu() const { return bool(engine_->device().gpu); }
  // Inputs take the shapes of one profile of the engine, at first those of 0; another one leaves inputs that are open
  // without a shape. False, with a line of severity error, where the engine has no such profile.
  bool set_profile(int profile);
  int profile() const { return profile_; }
  // False, with a line of severity error, for a name that is no input, and for dimensions that the profile does not
  // hold.
  bool set_input_shape(const std::string& name, const Dims& dims);
  // As set, or as the engine fixes it; of an output as it follows from the inputs. -1 for what is open still. Nothing
  // for a name that is no tensor.
  std::optional<Dims> shape(const std::string& name) const;
  // Inputs whose shape must be set still.
  std::vector<std::string> inputs_without_shape() const;
  bool set_address(const std::string& name, uintptr_t address);  // false for a name that is no tensor, and for 0
  uintptr_t address(const std::string& name) const;              // 0: not set
  // The largest that an output takes, with the profile's largest shapes of inputs that have none yet. -1: it depends on
  // data, or there is no such output.
  int64_t max_output_bytes(const std::string& name) const;
  // Takes the place of the output's address; null: takes it away. False for a name that is no output.
  bool set_output_allocator(const std::string& name, std::shared_ptr<const OutputAllocator> allocator);
  // From now on runs wait for themselves and are timed layer by layer; null: no longer. With `at_once` false the times
  // of a run are told by report_layers alone, which is false where there are none.
  void set_layer_times(std::shared_ptr<const LayerTimes> told) { told_ = std::move(told); }
  void set_layers_told_at_once(bool at_once) { told_at_once_ = at_once; }
  bool report_layers();
  // From now on it runs this engine, of the same tensors; shapes, addresses and what else was set stay. Throws what a
  // session does.
  void move_to(std::shared_ptr<const Engine> engine);
  // Runs on the addresses that are set: of the GPU's memory for an engine of a GPU, otherwise of the host's. Without a
  // stream it waits; on a host it always does, and so does a model whose shapes depend on data. False, with a line of
  // severity error, where a shape or an address is missing or anything fails.
  bool run(std::optional<void*> stream);

 private:
  std::shared_ptr<const Engine> engine_;
  Logger logger_;
  Arena::Source memory_;
  std::optional<Session> session_;  // always there
  std::vector<IoTensor> tensors_;
  int profile_ = 0;
  std::map<std::string, Dims> shapes_;  // of inputs
  std::map<std::string, uintptr_t> addresses_;
  std::map<std::string, std::shared_ptr<const OutputAllocator>> allocators_;  // of outputs
  std::shared_ptr<const LayerTimes> told_;
  bool told_at_once_ = true;
  std::vector<std::pair<std::string, double>> layers_;  // of the last run, where it was timed
  std::unique_ptr<Queue> queue_;                        // of copies from and to a GPU; null until one is needed

  const IoTensor* find(const std::string& name) const;
  const std::map<std::string, ShapeRange>& ranges() const;  // of the profile
  std::vector<Dims> input_shapes() const;
  const PortInfo* output(const std::string& name) const;
  uintptr_t address_of_output(const PortInfo& output, const Dims& dims, std::optional<void*> stream);
  void run_one_plan(const std::vector<const void*>& in, const std::vector<void*>& out, std::optional<void*> stream);
  void run_partitions(const std::vector<const void*>& in, const std::vector<Dims>& shapes, std::optional<void*> stream);
  void time_layers(const std::vector<const void*>& in, const std::vector<void*>& out, std::optional<void*> stream);
  Queue& queue();
};

}  // namespace temper::nvinfer
