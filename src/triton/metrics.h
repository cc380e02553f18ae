// SPDX-License-Identifier: Apache-2.0
// Counters of the backend on the server's metrics page, in addition to the server's own statistics: runs, time and rows
// by bucket, rows of padding, plans made on the spot, requests cancelled before their run, time in which the server
// took the answers.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "triton/api.h"

namespace temper::triton {

// A server without metrics, or one that refuses one, counts nothing; requests do not notice.
enum class Count { runs, run_us, rows, padded_rows, plans_made, cancelled, send_us };
constexpr size_t kCounts = 7;

class MetricFamilies {  // of the backend
 public:
  MetricFamilies();
  ~MetricFamilies();
  MetricFamilies(const MetricFamilies&) = delete;
  TRITONSERVER_MetricFamily* of(Count count) const { return families_[size_t(count)]; }

 private:
  std::array<TRITONSERVER_MetricFamily*, kCounts> families_{};
};

class Metrics {  // of a model; its instances share it
 public:
  Metrics(const MetricFamilies& families, std::string model, std::string version)
      : families_(families), model_(std::move(model)), version_(std::move(version)) {}
  ~Metrics();
  Metrics(const Metrics&) = delete;
  // `bucket`: of runs and run_us the batch that ran, as a label; 0 for none.
  void add(Count count, int64_t bucket, double value) noexcept;

 private:
  const MetricFamilies& families_;
  const std::string model_, version_;
  std::mutex mutex_;
  std::map<std::pair<size_t, int64_t>, TRITONSERVER_Metric*> metrics_;
};

}  // namespace temper::triton
