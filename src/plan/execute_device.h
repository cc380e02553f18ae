// SPDX-License-Identifier: Apache-2.0
// Runs a plan on a device with memory of its own: its steps are captured once (as CUDA graphs) and launched.
#pragma once
#include <optional>

#include "plan/bound_steps.h"
#include "plan/executor.h"
#include "plan/shared_places.h"

namespace temper {

class DeviceExecutor final : public Executor {
 public:
  // Loads the kernels. `plan` and `arena`, which has a queue, outlive the executor.
  DeviceExecutor(const Plan& plan, const Device& device, Arena& arena);
  ~DeviceExecutor() override;

  void run(std::span<const void* const> inputs, std::span<void* const> outputs) override;
  void run_timed(std::span<const void* const> inputs, std::span<void* const> outputs,
                 std::vector<std::vector<double>>& ms) override;
  // The observer is shown copies on the host.
  void run_observed(std::span<const void* const> inputs, std::span<void* const> outputs,
                    const Observer& observer) override;
  DeviceExecutor* on_device() override { return this; }

  // As run(). Returns the milliseconds on the device's clock between the arrival of the inputs and the end of the
  // steps: a part of what the call takes, so that both can be compared.
  double run_clocked(std::span<const void* const> inputs, std::span<void* const> outputs);

  // run() in two calls: start() returns when the work is in the queue, and finish(), which must follow, when it is done
  // and the outputs are written.
  void start(std::span<const void* const> inputs, std::span<void* const> outputs);
  void finish();
  // The pinned memory that input `index` is copied to on its way: a run that is given this address does not copy it
  // there. It moves when a larger plan reserves more.
  void* staging_of(size_t index);

  // As run() where both are empty. `inputs_there` and `outputs_there`, by port: addresses of the device, aligned to 256
  // bytes, that are read and written where they lie; null: the host's buffer is copied. Where such an address is given,
  // an input's on the host is null, and an output is copied there, too, if its own is not. `ms`: as run_timed() adds to
  // it. Without `waits` nothing may go to the host, and whoever calls waits before anything else is put in.
  void run_partly_there(std::span<const void* const> inputs, std::span<void* const> outputs,
                        std::span<const void* const> inputs_there, std::span<void* const> outputs_there,
                        std::vector<std::vector<double>>* ms = nullptr, bool waits = true);
  // With buffers that lie in the device's memory; nothing passes through the host's. Buffers that come for a second
  // time are read and written where they lie; new ones, those not aligned to 256 bytes and those that share memory
  // (but for shared_places) are copied on the device. Returns where the outputs lie; without `outputs`, and where one
  // is null, only there, until the arena's next run. Without `stream` it waits until all is done. With one, a stream of
  // the caller's (Queue::wait_for), the work is in that stream's order as if it had been put in there, and nothing
  // waits on the host: errors of kernels surface at a later call that waits. While that stream is captured, every
  // launch goes into the caller's graph by itself, with these addresses and the arena's; then a run on these shapes
  // must have come before (Error{usage}).
  std::span<void* const> run_resident(std::span<const void* const> inputs, std::span<void* const> outputs = {},
                                      std::optional<void*> stream = {});
  // Runs the steps `times` times on the inputs that the last run() left there, as one capture or as single launches,
  // and gives the milliseconds of each on the device's clock. No transfers.
  std::vector<double> run_on_device(int times, bool captured = true);
  // The same by step, as [run][segment][step]: what a step's launches take beside each other is in its time, too.
  std::vector<std::vector<std::vector<double>>> steps_on_device(int times);
  // As run(), but each step is waited for before the next one starts.
  void run_waiting(std::span<const void* const> inputs, std::span<void* const> outputs);

 private:
  // The steps on buffers of the caller's that lie in the device's memory.
  struct InPlace {
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    std::unique_ptr<Queue::Capture> capture;  // null: seen once, and copied
  };

  const Plan& plan_;
  Arena& arena_;
  Queue& queue_;
  const std::vector<std::pair<size_t, size_t>> shared_;  // inputs and outputs that may be one place
  BoundSteps steps_;
  std::vector<std::shared_ptr<const void>> constants_;  // by index in the plan; null for those that no step reads
  // The caller's buffers are copied through staging memory of the host to buffers behind the plan's own part of the
  // arena.
  std::vector<size_t> by_place_;                 // the inputs, in the order of inputs_at_
  std::vector<int64_t> inputs_at_, outputs_at_;  // in the staging memory, and behind the plan's part of the arena
  int64_t bytes_ = 0;
  std::vector<const void*> inputs_;  // addresses on the device
  std::vector<void*> outputs_;
  std::unique_ptr<Queue::Capture> capture_;
  std::vector<InPlace> in_place_;                // the latest first
  std::vector<void*> results_;                   // of run_resident, where some outputs are null
  int moves_ = -1;                               // of the arena, when addresses were last taken
  bool in_flight_ = false;                       // work was put in that nobody waited for
  std::vector<void*> started_;                   // outputs of start()
  std::unique_ptr<Queue::Event> begins_, ends_;  // of run_clocked()

  void place_buffers();
  void find_buffers();
  void put_in_steps(std::span<const void* const> inputs, std::span<void* const> outputs);
  const Queue::Capture& capture();
  const Queue::Capture* capture_on(const std::vector<const void*>& inputs, const std::vector<void*>& outputs);
  bool disjoint(std::span<const void* const> inputs, std::span<void* const> outputs) const;
  std::vector<std::vector<std::vector<double>>> steps_on(std::span<const void* const> inputs,
                                                         std::span<void* const> outputs, int times);
  void add_step_times(std::span<const void* const> inputs, std::span<void* const> outputs,
                      std::vector<std::vector<double>>& ms);
  void to_device(std::span<const void* const> inputs);
  // `from`: where on the device the outputs lie.
  void to_staging(std::span<void* const> outputs, std::span<void* const> from);
  void to_host(std::span<void* const> outputs, std::span<void* const> from);
  void to_host(std::span<void* const> outputs) { to_host(outputs, outputs_); }
};

}  // namespace temper
