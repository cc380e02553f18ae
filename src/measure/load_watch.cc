// SPDX-License-Identifier: Apache-2.0
#include "measure/load_watch.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/parse.h"
#include "measure/clock.h"

namespace temper {

double HostLoad::now_ms() { return host_clock().now_ms(); }

void HostLoad::wait(double ms) { std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms)); }

// User, nice, system, irq, softirq and steal since boot. Guest time is part of user time already.
std::optional<double> HostLoad::busy_seconds() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return std::nullopt;
  std::ifstream lines(root_ + "/proc/stat");
  double ticks = 0;
  bool found = false;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (!name.starts_with("cpu") || name == "cpu") continue;
    const int cpu = parse_number<int>(std::string_view(name).substr(3)).value_or(-1);
    if (cpu < 0 || cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, &allowed)) continue;
    int64_t value[8] = {};
    for (int64_t& v : value) words >> v;
    ticks += double(value[0] + value[1] + value[2] + value[5] + value[6] + value[7]);
    found = true;
  }
  if (!found) return std::nullopt;
  return ticks / double(sysconf(_SC_CLK_TCK));
}

double HostLoad::own_seconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& t) { return double(t.tv_sec) + double(t.tv_usec) * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

LoadSource& host_load() {
  static HostLoad load;
  return load;
}

void LoadWatch::start() {
  start_ms_ = source_->now_ms();
  busy_ = source_->busy_seconds();
  own_ = source_->own_seconds();
}

std::optional<double> LoadWatch::load() const {
  const double wall = seconds();
  if (!busy_ || wall < kLeastWatchSeconds) return std::nullopt;
  const auto busy = source_->busy_seconds();
  if (!busy) return std::nullopt;
  return std::max(0.0, std::round((*busy - *busy_ - (source_->own_seconds() - own_)) / wall * 100) / 100);
}

std::optional<double> LoadWatch::load_after_waiting() const {
  if (const double missing = kLeastWatchSeconds - seconds(); missing > 0 && busy_) source_->wait(1e3 * missing + 1);
  return load();
}

}  // namespace temper
