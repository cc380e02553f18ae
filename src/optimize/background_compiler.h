// SPDX-License-Identifier: Apache-2.0
// Compiles while a build goes on, in the order in which it will ask: what is timed first does not wait for what is
// last.
#pragma once
#include <atomic>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "backends/backend.h"
#include "optimize/search_limit.h"

namespace temper {

// A search as those see it that work ahead of it. What a shape has no time left for is not compiled.
class SearchAhead {
 public:
  SearchAhead(double seconds, Clock& clock) : limit(seconds, clock) {}
  SearchLimit limit;
  // The search has come to this shape; its limit starts anew.
  void begin_shape(size_t shape) {
    limit.start();
    shape_ = int64_t(shape);
  }
  size_t shape() const { return size_t(std::max<int64_t>(0, shape_)); }
  void end() { has_ended_ = true; }
  bool wants(size_t shape) const {
    const int64_t now = shape_;
    return !has_ended_ && int64_t(shape) >= now && (int64_t(shape) != now || !limit.is_over());
  }

 private:
  std::atomic<int64_t> shape_{-1};
  std::atomic<bool> has_ended_{false};
};

struct ToCompile {
  Problem problem;  // without its constants
  const Tactic* tactic;
  Config config;
  size_t shape = 0;  // its number in the order in which the search plans shapes
  std::shared_ptr<const SearchAhead> search;
};

// Threads start with the first candidates and end with it. What fails to compile fails again, and is reported, where it
// is built.
class BackgroundCompiler {
 public:
  // `program`: BuildOptions::timing_helper. `cores`: of which one is the caller's.
  BackgroundCompiler(const Backend& backend, Device device, std::vector<std::string> program, size_t cores)
      : backend_(backend), device_(std::move(device)), program_(std::move(program)), cores_(cores) {}
  ~BackgroundCompiler();
  BackgroundCompiler(const BackgroundCompiler&) = delete;

  // Behind all that it was told before.
  void add(std::list<ToCompile> candidates) { put(candidates, false); }
  // In front of it: what is asked for next.
  void add_next(std::list<ToCompile> candidates) { put(candidates, true); }
  // Whether it has processes of its own, on cores that the caller does not need: worth telling it what is asked for
  // later, while the caller measures. In threads it would keep the caller's own compiling waiting.
  bool has_processes();

 private:
  const Backend& backend_;
  const Device device_;
  const std::vector<std::string> program_;
  const size_t cores_;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::list<ToCompile> wanted_;
  bool ends_ = false;
  std::shared_ptr<void> processes_;  // while it lives, they do it
  std::vector<std::thread> threads_;

  void put(std::list<ToCompile>& candidates, bool next);
  void work();
};

}  // namespace temper
