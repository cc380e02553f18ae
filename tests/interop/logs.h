// SPDX-License-Identifier: Apache-2.0
// Logs as each version of trtexec prints them, with made-up numbers that agree with each other.
#pragma once
#include <string>

#include "../paths.h"
#include "base/concat.h"
#include "base/file.h"

namespace temper {

inline std::string fixture(const std::string& name) {
  return read_file(concat(paths::source_folder(), "/tests/interop/fixtures/", name));
}

constexpr std::string_view kStamp = "[11/14/2025-09:01:02] [I] ";

// 8.0 to 11.1. 100 queries of 2 ms each.
struct LogText {
  std::string version = "8601", build;  // of the banner; "[b35]" from 10.9 on
  std::string command = "trtexec --onnx=net.onnx --shapes=x:8x3x224x224";
  std::string percentiles = "90 95 99";
  bool end_to_end = false, transfers = true, queries = true, options = true;
  std::string cuda_graph = "Disabled", spin_wait = "Disabled", precision = "FP32", batch = "Explicit",
              status = "PASSED";

  std::string banner(std::string_view word) const {
    return concat("&&&& ", word, " TensorRT.trtexec", version.empty() ? "" : concat(" [TensorRT v", version, "]"),
                  build.empty() ? "" : concat(" [", build, "]"), " # ", command, "\n");
  }
  std::string stats(std::string_view name, const std::string& min, const std::string& middle,
                    const std::string& max) const {
    std::string line = concat(kStamp, name, ": min = ", min, " ms, max = ", max, " ms, mean = ", middle,
                              " ms, median = ", middle, " ms");
    for (size_t at = 0; at < percentiles.size(); at += 3)
      line += concat(", percentile(", percentiles.substr(at, 2), "%) = ", max, " ms");
    return line + "\n";
  }
  std::string text() const {
    std::string t = banner("RUNNING");
    if (options)
      t += concat(kStamp, "=== Model Options ===\n", kStamp, "Format: ONNX\n", kStamp, "Model: net.onnx\n", kStamp,
                  "=== Build Options ===\n", kStamp, "Precision: ", precision, "\n", kStamp,
                  "=== Inference Options ===\n", kStamp, "Batch: ", batch, "\n", kStamp,
                  "Input inference shape: x=8x3x224x224\n", kStamp,
                  "Data transfers: ", transfers ? "Enabled" : "Disabled", "\n", kStamp, "Spin-wait: ", spin_wait, "\n",
                  kStamp, "CUDA Graph: ", cuda_graph, "\n", kStamp, "Streams: 1\n", kStamp,
                  "=== Device Information ===\n", kStamp, "Selected Device: NVIDIA A100-SXM4-80GB\n");
    t += concat(kStamp, "[TRT] Engine generation completed in 104.604 seconds.\n", kStamp,
                "Engine built in 104.774 sec.\n", kStamp, "Created engine with size: 231.019 MiB\n");
    if (queries)
      t += concat(kStamp, "Warmup completed 5 queries over 200 ms\n", kStamp,
                  "Timing trace has 100 queries over 0.25 s\n", kStamp, "\n", kStamp, "=== Trace details ===\n");
    t += concat(kStamp, "=== Performance summary ===\n", kStamp, "Throughput: 400 qps\n");
    t += transfers ? stats("Latency", "2.3", "2.375", "2.5") : stats("Latency", "1.95", "2", "2.1");
    if (end_to_end) t += stats("End-to-End Host Latency", "3.25", "3.5", "4.125");
    t += stats("Enqueue Time", "0.0078125", "0.0625", "0.125");
    t += transfers ? stats("H2D Latency", "0.2", "0.25", "0.3") : stats("H2D Latency", "0", "0", "0");
    t += stats("GPU Compute Time", "1.95", "2", "2.1");
    t += transfers ? stats("D2H Latency", "0.1", "0.125", "0.2") : stats("D2H Latency", "0", "0", "0");
    t += concat(kStamp, "Total Host Walltime: 0.25 s\n", kStamp, "Total GPU Compute Time: 0.2 s\n");
    t += concat("[11/14/2025-09:01:02] [W] * GPU compute time is unstable, with coefficient of variance = 3.5%.\n",
                kStamp, "\n");
    return t + banner(status);
  }
};

// 7.2: one line a number; the throughput of an explicit batch is 0 there.
inline std::string old_log(const std::string& throughput = "400", const std::string& queries = "100") {
  std::string t = "&&&& RUNNING TensorRT.trtexec # trtexec --onnx=net.onnx --explicitBatch\n";
  for (const std::string& line : {std::string("Warmup completed 5 queries over 200 ms"),
                                  concat("Timing trace has ", queries, " queries over 0.25 s"),
                                  std::string("Host Latency"),
                                  std::string("min: 2.3 ms (end to end 3.25 ms)"),
                                  std::string("max: 2.5 ms (end to end 4.125 ms)"),
                                  std::string("mean: 2.375 ms (end to end 3.5 ms)"),
                                  std::string("median: 2.37 ms (end to end 3.4 ms)"),
                                  std::string("percentile: 2.5 ms at 99% (end to end 4.125 ms at 99%)"),
                                  concat("throughput: ", throughput, " qps"),
                                  std::string("walltime: 0.25 s"),
                                  std::string("Enqueue Time"),
                                  std::string("min: 0.0078125 ms"),
                                  std::string("max: 0.125 ms"),
                                  std::string("median: 0.0625 ms"),
                                  std::string("GPU Compute"),
                                  std::string("min: 1.95 ms"),
                                  std::string("max: 2.1 ms"),
                                  std::string("mean: 2 ms"),
                                  std::string("median: 1.99 ms"),
                                  std::string("percentile: 2.1 ms at 99%"),
                                  std::string("total compute time: 0.2 s")})
    t += concat(kStamp, line, "\n");
  return t + "&&&& PASSED TensorRT.trtexec # trtexec --onnx=net.onnx --explicitBatch\n";
}

}  // namespace temper
