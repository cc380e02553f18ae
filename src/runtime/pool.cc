// SPDX-License-Identifier: Apache-2.0
#include "runtime/pool.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>

#include "backends/devices.h"
#include "base/log.h"
#include "base/numa.h"

namespace temper {

namespace {

// One call of Pool::run with several devices.
class PoolRun {
 public:
  PoolRun(const std::vector<PoolDevice>& devices, std::vector<int64_t>& done, std::vector<std::string>& losses,
          int64_t count, const Pool::Work& work)
      : devices_(devices), done_(done), losses_(losses), end_(count), work_(work) {
    for (const std::string& loss : losses_) alive_ += loss.empty();
    ahead_ = 2 * alive_;
  }

  void run() {
    const int64_t count = end_;
    std::vector<std::thread> threads;
    const auto join = [&] {
      {
        const std::lock_guard lock(mutex_);
        stop_ = true;
      }
      changed_.notify_all();
      for (std::thread& thread : threads) thread.join();
    };
    try {
      try {
        for (size_t d = 0; d < devices_.size(); ++d)
          if (losses_[d].empty()) threads.emplace_back([this, d] { serve(d); });
      } catch (const std::system_error& error) {
        fail(ErrorKind::machine, "only ", threads.size(), " of ", alive_,
             " threads could be started: ", std::string_view(error.what()));
      }
      for (int64_t piece = 0; piece < count; ++piece) result_of(piece)();
    } catch (...) {
      join();
      throw;
    }
    join();
  }

 private:
  struct Result {
    Pool::Finish finish;
    std::exception_ptr error;
  };

  // Waits for the result, and says meanwhile what was lost.
  Pool::Finish result_of(int64_t piece) {
    std::unique_lock lock(mutex_);
    used_ = piece;
    changed_.notify_all();
    for (;;) {
      changed_.wait(lock, [&] { return results_.contains(piece) || !unsaid_.empty() || alive_ == 0; });
      const auto unsaid = std::exchange(unsaid_, {});
      const int64_t others = alive_;
      if (const auto found = results_.find(piece); found != results_.end()) {
        const Result result = std::move(found->second);
        results_.erase(found);
        lock.unlock();
        say(unsaid, others);
        if (result.error) std::rethrow_exception(result.error);
        return result.finish;
      }
      lock.unlock();
      if (others == 0) {
        std::string reasons;
        for (size_t d = 0; d < devices_.size(); ++d)
          reasons += concat(d ? "; " : "", devices_[d].name, ": ", losses_[d]);
        fail(ErrorKind::machine, "all devices are lost or full: ", reasons);
      }
      say(unsaid, others);
      lock.lock();
    }
  }

  struct Out {
    size_t device;
    bool full;  // not lost
  };
  void say(const std::vector<Out>& lost, int64_t others) const {
    if (others == 0) return;  // the error says it
    for (const auto& [d, full] : lost)
      log(LogLevel::warning, devices_[d].name, full ? " has no room for the plan" : " is lost",
          ", and its work goes to the ", others, others == 1 ? " device" : " devices", " left: ", losses_[d]);
  }

  void serve(size_t device) {
    stay_on(devices_[device].cores);
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stop_ || !again_.empty() || next_ < std::min(end_, used_ + ahead_); });
      if (stop_) return;
      const int64_t piece = again_.empty() ? next_++ : *again_.begin();
      again_.erase(piece);
      lock.unlock();
      Result result;
      std::string loss;
      bool full = false;
      try {
        result.finish = work_(device, piece);
      } catch (const DeviceFull& error) {
        result.error = std::current_exception();
        loss = error.what();
        full = true;
      } catch (const Error& error) {
        result.error = std::current_exception();
        if (error.kind() == ErrorKind::machine && devices_[device].is_lost()) loss = error.what();
      } catch (...) { result.error = std::current_exception(); }  // NOLINT(bugprone-empty-catch): thrown to the caller
      lock.lock();
      if (!loss.empty()) {
        again_.insert(piece);
        losses_[device] = loss;
        unsaid_.push_back({device, full});
        --alive_;
        changed_.notify_all();
        return;
      }
      if (result.error) end_ = std::min(end_, piece + 1);
      else ++done_[device];
      results_.emplace(piece, std::move(result));
      changed_.notify_all();
    }
  }

  const std::vector<PoolDevice>& devices_;
  std::mutex mutex_;  // of all that follows
  std::condition_variable changed_;
  std::vector<int64_t>& done_;
  std::vector<std::string>& losses_;
  int64_t next_ = 0, end_;        // the next piece that nobody has begun, and where they end
  int64_t used_ = 0, ahead_ = 0;  // the piece that is waited for, and how far others may be ahead of it
  int64_t alive_ = 0;             // devices
  std::set<int64_t> again_;       // pieces of devices that are out
  std::map<int64_t, Result> results_;
  std::vector<Out> unsaid_;  // that no warning has named
  bool stop_ = false;
  const Pool::Work& work_;
};

}  // namespace

Pool::Pool(std::vector<PoolDevice> devices)
    : devices_(std::move(devices)), done_(devices_.size()), losses_(devices_.size()) {
  if (devices_.empty()) fail(ErrorKind::usage, "a pool needs at least one device");
}

void Pool::run(int64_t count, const Work& work) {
  if (devices_.size() > 1) return PoolRun(devices_, done_, losses_, count, work).run();
  for (int64_t piece = 0; piece < count; ++piece) {
    const Finish finish = work(0, piece);
    ++done_[0];
    finish();
  }
}

Engines engines_on(const std::shared_ptr<const Engine>& engine, const std::vector<std::string>& devices,
                   const DeviceSettings& settings) {
  Engines engines;
  std::shared_ptr<const AlignedBytes> plans;
  for (const std::string& device : devices) {
    if (device == engine->info().device) {
      engines.push_back(engine);
      continue;
    }
    if (!plans) {
      const std::string bytes = plan_bytes_of(*engine);
      const auto span = std::as_bytes(std::span(bytes));
      plans = std::make_shared<const AlignedBytes>(span.begin(), span.end());
    }
    engines.push_back(with_context([&] { return device; },
                                   [&] {
                                     return std::make_shared<const Engine>(
                                         read_plan(*plans, plans, {.settings = settings, .device = device}), settings,
                                         engine->files());
                                   }));
    engines.back()->set_limits(engine->limits());
  }
  if (engines.empty()) engines.push_back(engine);
  return engines;
}

Engines engines_on(const std::vector<std::string>& devices, const DeviceSettings& settings,
                   const std::function<std::shared_ptr<const Engine>(const std::string& device)>& make) {
  Engines engines;
  std::map<std::string, std::shared_ptr<const Engine>> kinds;  // by fingerprint
  for (const std::string& device : devices) {
    auto& of_kind = kinds[open_device(device, settings).fingerprint];
    if (!of_kind) of_kind = with_context([&] { return device; }, [&] { return make(device); });
    engines.push_back(engines_on(of_kind, {device}, settings).at(0));
  }
  if (kinds.size() > 1)
    log(LogLevel::warning, "the devices are of ", kinds.size(),
        " kinds: the last digits of an answer depend on which of them computed it");
  return engines;
}

Engines engines_on_list(const std::shared_ptr<const Engine>& engine, std::string list, const DeviceSettings& settings) {
  const std::vector<std::string> several = take_devices(list, settings);
  return engines_on(engine, several.empty() ? std::vector{list} : several, settings);
}

void check_one_kind(const std::vector<std::string>& devices, const DeviceSettings& settings) {
  std::string first;
  for (const std::string& device : devices) {
    const std::string fingerprint = open_device(device, settings).fingerprint;
    if (first.empty()) first = fingerprint;
    if (fingerprint != first)
      fail(ErrorKind::usage, devices[0], " is '", first, "', and ", device, " is '", fingerprint,
           "': here all devices must be equal, as the figures would depend on which of them took which samples");
  }
}

Pool pool_of(const Engines& engines) {
  std::vector<PoolDevice> devices;
  for (const auto& engine : engines) {
    const Device& device = engine->device();
    devices.push_back({engine->info().device, cores_beside(device), [device] { return is_lost(device); }});
  }
  return Pool(std::move(devices));
}

bool EnginePool::of_gpu() const {
  return std::ranges::any_of(engines, [](const auto& engine) { return engine->info().device.starts_with("cuda"); });
}

}  // namespace temper
