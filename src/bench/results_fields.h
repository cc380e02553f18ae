// SPDX-License-Identifier: Apache-2.0
// The fields of a result file, each named once: it is read and written by them (results_json.cc), and spreadsheets have
// the same columns (table.cc). Included by .cc files only.
#pragma once
#include "base/json_struct.h"
#include "bench/results.h"

namespace temper {

template <class V, Is<Interval> T>
void json_items(V& v, T& interval) {
  v.item("low", interval.low);
  v.item("high", interval.high);
}

template <class V, Is<Environment> T>
void json_fields(V& v, T& e) {
  v.field("time", e.time);
  v.field("version", e.version);
  v.field("revision", e.revision);
  v.field("compiler", e.compiler);
  v.field("onednn_version", e.onednn_version);
  v.field("onednn_isa", e.onednn_isa);
  v.field("os", e.os);
  v.field("kernel", e.kernel);
  v.field("cpu_model", e.cpu_model);
  v.field("cpu_features", e.cpu_features);
  v.field("logical_cores", e.logical_cores);
  v.field("allowed_cores", e.allowed_cores);
  v.field("physical_cores", e.physical_cores);
  v.field("cgroup_cores", e.cgroup_cores);
  v.field("l2_bytes", e.l2_bytes);
  v.field("l3_bytes", e.l3_bytes);
  v.field("memory_bytes", e.memory_bytes);
  v.field("memory_available_bytes", e.memory_available_bytes);
  v.field("cgroup_memory_bytes", e.cgroup_memory_bytes);
  v.field("governor", e.governor);
  v.field("threads", e.threads);
  v.field("clock_mhz_before", e.clock_mhz_before);
  v.field("clock_mhz_after", e.clock_mhz_after);
  v.field("temperature_before_c", e.temperature_before_c);
  v.field("temperature_after_c", e.temperature_after_c);
  v.field("throttle_events", e.throttle_events);
  v.field("load_by_others", e.load_by_others);
}

template <class V, Is<Latency> T>
void json_fields(V& v, T& l) {
  v.field("median", l.median);
  v.field("mean", l.mean);
  v.field("min", l.min);
  v.field("max", l.max);
  v.field("stddev", l.stddev);
  v.field("p90", l.p90);
  v.field("p95", l.p95);
  v.field("p99", l.p99);
  v.field("median_ci95", l.median_ci95);
  v.field("mean_ci95", l.mean_ci95);
  v.field("p90_ci95", l.p90_ci95);
  v.field("p95_ci95", l.p95_ci95);
  v.field("p99_ci95", l.p99_ci95);
}

template <class V, Is<BenchRun> T>
void json_fields(V& v, T& r) {
  v.field("model", r.model);
  v.field("model_sha256", r.model_sha256);
  v.field("source_sha256", r.source_sha256);
  v.field("command", r.command);
  v.field("device", r.device);
  v.field("backend", r.backend);
  v.field("precision", r.precision);
  v.field("batch", r.batch);
  v.field("shapes", r.shapes);
  v.field("threads", r.threads);
  v.field("streams", r.streams);
  v.field("load", r.load);
  v.field("request_rate_per_s", r.request_rate_per_s);
  v.field("samples", r.samples);
  v.field("warmup_runs", r.warmup_runs);
  v.field("transfers", r.transfers);
  v.field("cuda_graph", r.cuda_graph);
  v.field("first_run_ms", r.first_run_ms);
  v.field("latency_ms", r.latency);
  v.field("outliers", r.outliers);
  v.field("drift", r.drift);
  v.field("throughput_per_s", r.throughput_per_s);
  v.field("load_by_others", r.load_by_others);
  v.field("workspace_bytes", r.workspace_bytes);
  v.field("peak_host_bytes", r.peak_host_bytes);
  v.field("peak_device_bytes", r.peak_device_bytes);
  v.field("plan_bytes", r.plan_bytes);
  v.field("build_s", r.build_s);
  v.field("samples_ms", r.samples_ms);
  v.field("notes", r.notes);
  if (v.has_part("gpu_name", r.gpu)) {
    auto& gpu = *r.gpu;
    v.field("gpu_name", gpu.name);
    v.field("gpu_clock_mhz_median", gpu.clock_mhz_median);
    v.field("gpu_clock_mhz_min", gpu.clock_mhz_min);
    v.field("gpu_highest_clock_mhz", gpu.highest_clock_mhz);
    v.field("gpu_memory_clock_mhz", gpu.memory_clock_mhz);
    v.field("gpu_watts_median", gpu.watts_median);
    v.field("gpu_watts_limit", gpu.watts_limit);
    v.field("gpu_celsius_max", gpu.celsius_max);
    v.field("gpu_throttled", gpu.throttled);
  }
  if (v.has_part("cpu_watts_mean", r.cpu_watts_mean)) v.field("cpu_watts_mean", *r.cpu_watts_mean);
  if (!v.has_part("source", r.imported)) return;
  auto& from = *r.imported;
  v.field("source", from.source);
  v.field("tensorrt_version", from.tensorrt_version);
  v.field("device_name", from.device_name);
  v.field("throughput_qps", from.throughput_qps);
  v.field("walltime_s", from.walltime_s);
  v.field("gpu_ms", from.gpu);
  v.field("h2d_ms", from.h2d);
  v.field("d2h_ms", from.d2h);
  v.field("enqueue_ms", from.enqueue);
  v.field("end_to_end_ms", from.end_to_end);
  v.field("spin_wait", from.spin_wait);
  v.field("consistent", from.consistent);
  v.field("warnings", from.warnings);
}

}  // namespace temper
