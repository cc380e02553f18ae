// SPDX-License-Identifier: Apache-2.0
#include "measure/energy.h"

#include <fstream>

#include "base/concat.h"
#include "measure/clock.h"

namespace temper {

namespace {

// The files hold one number, or a name, and a line break.
template <class T>
std::optional<T> first_word(const std::string& path) {
  std::ifstream file(path);
  T value{};
  return file >> value ? std::optional(value) : std::nullopt;
}

std::optional<double> energy_uj(const std::string& folder) { return first_word<double>(folder + "energy_uj"); }

}  // namespace

EnergyMeter::EnergyMeter(std::string root) : root_(std::move(root)), start_ms_(host_clock().now_ms()) {
  constexpr int kZones = 64;  // "package-0", "package-1", ... and "psys", which counts the packages again
  for (int zone = 0; zone < kZones; ++zone) {
    const std::string folder = concat(root_, "/sys/class/powercap/intel-rapl:", zone, "/");
    const auto name = first_word<std::string>(folder + "name");
    if (!name || !name->starts_with("package")) continue;
    const auto now = energy_uj(folder), range = first_word<double>(folder + "max_energy_range_uj");
    if (!now || !range || *range <= 0) {
      readable_ = false;  // a part would pass for the whole
      continue;
    }
    packages_.push_back({folder, *now, *range});
  }
}

std::optional<double> EnergyMeter::watts() const {
  constexpr double kLeastSeconds = 0.1;  // a counter moves every millisecond
  constexpr double kMostWatts = 2000;    // more than any package draws
  const double seconds = (host_clock().now_ms() - start_ms_) / 1e3;
  if (!readable_ || packages_.empty() || seconds < kLeastSeconds) return std::nullopt;
  double sum_uj = 0;
  for (const Package& package : packages_) {
    const auto now = energy_uj(package.folder);
    if (!now || kMostWatts * 1e6 * seconds > package.range_uj) return std::nullopt;
    sum_uj += *now - package.start_uj + (*now < package.start_uj ? package.range_uj : 0);
  }
  return sum_uj / 1e6 / seconds;
}

}  // namespace temper
