// SPDX-License-Identifier: Apache-2.0
// Several devices that work on one job. Each has a thread, which takes the next piece as soon as it is done with one,
// so that a slow device takes fewer; results are used in the order of the pieces; what a device was at that is lost or
// full, another does.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/engine.h"

namespace temper {

struct PoolDevice {
  std::string name;               // for messages
  std::vector<int> cores;         // that its thread stays on (base/numa.h); none: any
  std::function<bool()> is_lost;  // asked when a piece ended in Error{machine}
};

class Pool {
 public:
  explicit Pool(std::vector<PoolDevice> devices);  // at least one
  size_t size() const { return devices_.size(); }

  // The work that is left with a piece when all before it are finished.
  using Finish = std::function<void()>;
  using Work = std::function<Finish(size_t device, int64_t piece)>;
  // Calls `work` for the pieces 0 to count - 1, each on one of the devices, and on the calling thread what it returns,
  // once for each piece and in their order. Only a few pieces are ahead of that at a time. With one device everything
  // is on the calling thread.
  //
  // An error of a piece is thrown where its result would have been used; no piece behind it is begun any more. But
  // where it is Error{machine} and the device is lost, or DeviceFull (the plan has no room there), the piece goes to
  // another device, a warning names the one that is out, and it gets nothing any more, in later calls neither. Throws
  // Error{machine} with the reasons when all are out. One thread at a time may call it.
  void run(int64_t count, const Work& work);

  // Pieces that each device has done, in all calls.
  const std::vector<int64_t>& done() const { return done_; }
  // Why it is out; "" for one that works.
  const std::string& loss(size_t device) const { return losses_[device]; }

 private:
  std::vector<PoolDevice> devices_;
  std::vector<int64_t> done_;
  std::vector<std::string> losses_;
};

using Engines = std::vector<std::shared_ptr<const Engine>>;
// The engine on each of these devices (parse_devices): itself on its own, and made anew of its plans for the others;
// none: itself alone. Throws Error{usage} for a device of another kind ("cpu" for plans of "cuda:0"), and
// Error{unsupported} for another CPU or GPU than it was built for, naming the device.
Engines engines_on(const std::shared_ptr<const Engine>& engine, const std::vector<std::string>& devices,
                   const DeviceSettings& settings = {});
// The same where devices may be of several kinds: `make` gives the engine of the first of each kind. Several are a
// warning, as then the answers depend on which device a piece went to, in their last digits.
Engines engines_on(const std::vector<std::string>& devices, const DeviceSettings& settings,
                   const std::function<std::shared_ptr<const Engine>(const std::string& device)>& make);
// The first of a list as the user gives it (take_devices).
Engines engines_on_list(const std::shared_ptr<const Engine>& engine, std::string list,
                        const DeviceSettings& settings = {});
// Throws Error{usage} where they are not all equal: figures would depend on which of them took which samples.
void check_one_kind(const std::vector<std::string>& devices, const DeviceSettings& settings);
// One device for each engine, which runs on it. Threads stay on the cores beside their GPU.
Pool pool_of(const Engines& engines);

// A session for each device of a pool, made by the thread that runs it, so that its memory lies beside the device.
class PoolSessions {
 public:
  explicit PoolSessions(Engines engines) : engines_(std::move(engines)), sessions_(engines_.size()) {}
  Session& at(size_t device) {
    if (!sessions_[device]) sessions_[device] = std::make_unique<Session>(engines_[device]);
    return *sessions_[device];
  }

 private:
  Engines engines_;
  std::vector<std::unique_ptr<Session>> sessions_;
};

// Engines, one for each device, and what runs them: what the pools of C and Python hold.
struct EnginePool {
  explicit EnginePool(Engines on) : engines(std::move(on)), pool(pool_of(engines)), sessions(engines) {}
  bool of_gpu() const;  // whether one of the devices is a GPU
  Engines engines;
  Pool pool;
  PoolSessions sessions;
};

}  // namespace temper
