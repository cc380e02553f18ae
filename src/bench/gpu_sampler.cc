// SPDX-License-Identifier: Apache-2.0
#include "bench/gpu_sampler.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>

#include "backends/cuda/machine.h"
#include "backends/cuda/support/nvml.h"

namespace temper {

std::optional<double> drawn_watts(std::span<const PowerSample> samples) {
  const PowerSample *before = nullptr, *first = nullptr, *last = nullptr;
  std::vector<double> said;
  for (const PowerSample& sample : samples) {
    if (sample.watts) said.push_back(*sample.watts);
    if (!sample.millijoules) continue;
    if (before && *before->millijoules != *sample.millijoules) {
      if (!first) first = &sample;
      last = &sample;
    }
    before = &sample;
  }
  // A counter that begins anew says nothing.
  if (first != last && *last->millijoules > *first->millijoules)
    return 1e-3 * double(*last->millijoules - *first->millijoules) / (last->seconds - first->seconds);
  if (said.empty()) return std::nullopt;
  return median(said);
}

struct GpuSampler::Impl {
  cuda::GpuInfo gpu;
  std::unique_ptr<const cuda::Nvml> nvml;
  std::string problem;
  std::vector<cuda::GpuState> states;
  std::vector<PowerSample> power;
  std::mutex mutex;
  std::condition_variable wake;
  bool ended = false;
  std::thread thread;

  void sample() {
    std::unique_lock lock(mutex);
    while (!ended) {
      try {
        states.push_back(nvml->state(gpu.pci_bus_id));
        const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
        power.push_back({now.count(), states.back().watts, states.back().millijoules});
      } catch (const Error& error) {
        problem = error.what();
        return;
      }
      wake.wait_for(lock, std::chrono::milliseconds(20), [&] { return ended; });
    }
  }
};

GpuSampler::GpuSampler(const Device& device) {
  if (!device.gpu) return;
  impl_ = std::make_unique<Impl>();
  impl_->gpu = device.gpu->gpu()->info();
  try {
    impl_->nvml = std::make_unique<const cuda::Nvml>(device.gpu->search());
    impl_->thread = std::thread([impl = impl_.get()] { impl->sample(); });
  } catch (const Error& error) { impl_->problem = error.what(); } catch (const std::system_error& error) {
    impl_->problem = concat("no thread could be started to ask it: ", std::string_view(error.what()));
  }
}

GpuSampler::~GpuSampler() {
  std::string why;
  finish(why);
}

std::optional<GpuRun> GpuSampler::finish(std::string& why) {
  if (!impl_) return std::nullopt;
  if (impl_->thread.joinable()) {
    {
      const std::lock_guard lock(impl_->mutex);
      impl_->ended = true;
    }
    impl_->wake.notify_all();
    impl_->thread.join();
  }
  why = impl_->problem;
  GpuRun run;
  run.name = impl_->gpu.name;
  std::set<std::string> throttled;
  std::vector<double> clocks;
  for (const cuda::GpuState& state : impl_->states) {
    if (state.clock_mhz) clocks.push_back(*state.clock_mhz);
    if (state.celsius) run.celsius_max = std::max(run.celsius_max.value_or(0), double(*state.celsius));
    if (state.memory_clock_mhz) run.memory_clock_mhz = *state.memory_clock_mhz;
    if (state.highest_clock_mhz) run.highest_clock_mhz = *state.highest_clock_mhz;
    if (state.limit_watts) run.watts_limit = *state.limit_watts;
    throttled.insert(state.throttled.begin(), state.throttled.end());
  }
  if (!clocks.empty()) {
    run.clock_mhz_min = *std::min_element(clocks.begin(), clocks.end());
    run.clock_mhz_median = median(clocks);
  }
  run.watts_median = drawn_watts(impl_->power);
  run.throttled.assign(throttled.begin(), throttled.end());
  return run;
}

}  // namespace temper
