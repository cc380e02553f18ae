// SPDX-License-Identifier: Apache-2.0
#include "optimize/background_compiler.h"

#include <algorithm>
#include <system_error>

#include "base/log.h"

namespace temper {

BackgroundCompiler::~BackgroundCompiler() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool BackgroundCompiler::has_processes() {
  const std::lock_guard lock(mutex_);
  return processes_ != nullptr;
}

void BackgroundCompiler::put(std::list<ToCompile>& candidates, bool next) {
  const std::lock_guard lock(mutex_);
  wanted_.splice(next ? wanted_.begin() : wanted_.end(), candidates);
  const size_t most = cores_ > 1 ? cores_ - 1 : 1, threads = std::min(most, wanted_.size());
  constexpr size_t kThreadsThatWait = 4;  // fewer hardly keep each other waiting
  if (!processes_ && threads >= kThreadsThatWait && backend_.compile_in && !program_.empty())
    processes_ = backend_.compile_in(device_, program_, int(most));
  try {
    while (threads_.size() < threads) threads_.emplace_back([this] { work(); });
  } catch (
      const std::system_error&) {  // no room for more threads: those that are there do it, or who needs the kernels
  }
  changed_.notify_all();
}

void BackgroundCompiler::work() {
  for (;;) {
    std::list<ToCompile> taken;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ends_ || !wanted_.empty(); });
      if (ends_) return;
      taken.splice(taken.begin(), wanted_, wanted_.begin());
    }
    const ToCompile& candidate = taken.front();
    if (!candidate.search->wants(candidate.shape)) continue;
    try {
      candidate.tactic->compile(candidate.problem, candidate.config, device_);
    } catch (const Error& error) { log(LogLevel::debug, error.what()); }
  }
}

}  // namespace temper
