// SPDX-License-Identifier: Apache-2.0
#include "optimize/compile_beside.h"

#include <algorithm>
#include <ranges>
#include <system_error>

#include "base/log.h"

namespace temper {

CompileBeside::~CompileBeside() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool CompileBeside::has_processes() {
  const std::lock_guard lock(mutex_);
  return processes_ != nullptr;
}

void CompileBeside::add(std::vector<ToCompile> candidates, const std::shared_ptr<const SearchAhead>& search) {
  const std::lock_guard lock(mutex_);
  for (ToCompile& candidate : candidates) wanted_.push_back({std::move(candidate), search});
  start();
}

void CompileBeside::add_next(std::vector<ToCompile> candidates, const std::shared_ptr<const SearchAhead>& search) {
  const std::lock_guard lock(mutex_);
  for (ToCompile& candidate : std::views::reverse(candidates)) wanted_.push_front({std::move(candidate), search});
  start();
}

void CompileBeside::start() {
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

void CompileBeside::work() {
  for (;;) {
    Wanted wanted;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ends_ || !wanted_.empty(); });
      if (ends_) return;
      wanted = std::move(wanted_.front());
      wanted_.pop_front();
    }
    if (!wanted.search->wants(wanted.candidate.shape)) continue;
    try {
      wanted.candidate.tactic->compile(wanted.candidate.problem, wanted.candidate.config, device_);
    } catch (const Error& error) { log(LogLevel::debug, error.what()); }
  }
}

}  // namespace temper
