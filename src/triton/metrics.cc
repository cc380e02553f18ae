// SPDX-License-Identifier: Apache-2.0
#include "triton/metrics.h"

#include <algorithm>
#include <vector>

#include "triton/server.h"

namespace temper::triton {

namespace {
constexpr const char* kNames[kCounts][2] = {
    {"temper_runs_total", "Runs of a plan, by the batch that ran"},
    {"temper_run_us_total", "Microseconds of those runs"},
    {"temper_rows_total", "Rows of requests that were run"},
    {"temper_padded_rows_total", "Rows that were run to fill a bucket, for nobody"},
    {"temper_plans_made_total", "Plans made on the spot for shapes that no plan was tuned for"},
    {"temper_cancelled_total", "Requests that were cancelled before their run, and not run"},
    {"temper_send_us_total", "Microseconds in which the server took answers that were made"},
};
}  // namespace

MetricFamilies::MetricFamilies() {
  for (size_t i = 0; i < kCounts; ++i)
    if (TRITONSERVER_Error* const error =
            TRITONSERVER_MetricFamilyNew(&families_[i], TRITONSERVER_METRIC_KIND_COUNTER, kNames[i][0], kNames[i][1])) {
      families_[i] = nullptr;
      TRITONSERVER_ErrorDelete(error);  // the server was built, or started, without metrics
    }
}

MetricFamilies::~MetricFamilies() {
  for (TRITONSERVER_MetricFamily* const family : families_)
    if (family) log_error(TRITONSERVER_MetricFamilyDelete(family), "a family of metrics stays");
}

Metrics::~Metrics() {
  for (const auto& [key, metric] : metrics_)
    if (metric) log_error(TRITONSERVER_MetricDelete(metric), "a metric stays");
}

void Metrics::add(Count count, int64_t bucket, double value) noexcept {
  if (!families_.of(count) || value == 0) return;
  try {
    const std::lock_guard lock(mutex_);
    const auto key = std::make_pair(size_t(count), bucket);
    auto it = metrics_.find(key);
    if (it == metrics_.end()) {
      const std::string batch = std::to_string(bucket);
      std::vector<TRITONSERVER_Parameter*> labels{
          TRITONSERVER_ParameterNew("model", TRITONSERVER_PARAMETER_STRING, model_.c_str()),
          TRITONSERVER_ParameterNew("version", TRITONSERVER_PARAMETER_STRING, version_.c_str())};
      if (bucket) labels.push_back(TRITONSERVER_ParameterNew("bucket", TRITONSERVER_PARAMETER_STRING, batch.c_str()));
      TRITONSERVER_Metric* metric = nullptr;
      if (std::all_of(labels.begin(), labels.end(), [](const auto* label) { return label; })) {
        const std::vector<const TRITONSERVER_Parameter*> list(labels.begin(), labels.end());
        TRITONSERVER_Error* const error = TRITONSERVER_MetricNew(
            &metric, families_.of(count), const_cast<const TRITONSERVER_Parameter**>(list.data()), list.size());
        if (error) metric = nullptr;
        log_error(error, kNames[size_t(count)][0]);
      }
      for (TRITONSERVER_Parameter* const label : labels)
        if (label) TRITONSERVER_ParameterDelete(label);
      it = metrics_.emplace(key, metric).first;
    }
    if (it->second) log_error(TRITONSERVER_MetricIncrement(it->second, value), kNames[size_t(count)][0]);
  } catch (const std::bad_alloc&) {  // nobody counts then
  }
}

}  // namespace temper::triton
