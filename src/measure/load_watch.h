// SPDX-License-Identifier: Apache-2.0
// Watches what other processes take of the cores while something is timed: the one mechanism for bench, builds,
// profiles and the machine's peaks.
#pragma once
#include <optional>
#include <string>

namespace temper {

// Counters that only grow. Tests pass their own.
class LoadSource {
 public:
  virtual ~LoadSource() = default;
  virtual double now_ms() = 0;
  virtual std::optional<double> busy_seconds() = 0;  // that the allowed cores were not idle, whoever used them
  virtual double own_seconds() = 0;                  // of which this process
  virtual void wait(double ms) = 0;
};

// The kernel's counters. `root` stands before /proc paths (tests).
class HostLoad final : public LoadSource {
 public:
  explicit HostLoad(std::string root = "") : root_(std::move(root)) {}
  double now_ms() override;
  std::optional<double> busy_seconds() override;
  double own_seconds() override;
  void wait(double ms) override;

 private:
  std::string root_;
};
LoadSource& host_load();

// Cores of others that move a time by percents on a small machine: from here on it is said, and times are suspect.
constexpr double kLoadThatCounts = 0.1;
// The kernel counts in ticks of 10 ms: below this the difference says little.
constexpr double kLeastWatchSeconds = 0.5;

class LoadWatch {
 public:
  explicit LoadWatch(LoadSource& source = host_load()) : source_(&source) { start(); }
  void start();
  double seconds() const { return (source_->now_ms() - start_ms_) / 1e3; }  // since the start
  // Cores that others used since the start (the hypervisor included), a mean. Nothing below kLeastWatchSeconds, and
  // where the kernel does not show it.
  std::optional<double> load() const;
  // The same, after waiting until it can be told.
  std::optional<double> load_after_waiting() const;

 private:
  LoadSource* source_;
  double start_ms_ = 0, own_ = 0;
  std::optional<double> busy_;
};

}  // namespace temper
