// SPDX-License-Identifier: Apache-2.0
// Reads a log of trtexec, versions 7.2 to 11.1: numbers exactly as its text has them, nothing derived.
//
// The summary is a block of lines `NAME: min = 1 ms, max = … ms, mean = …, median = …, percentile(99%) = … ms` from 8.0
// on, and a block of several lines a name before. A number counts only where it is whole: in the C locale and followed
// by its unit. What cannot be read is left out and named in `problems`.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace temper {

// Milliseconds.
struct TrtexecStats {
  std::optional<double> min, max, mean, median;
  std::vector<std::pair<double, double>> percentiles;  // percentage and value, in the order of the text
};

enum class TrtexecStatus { unknown, running, passed, failed, waived };  // of the last banner

struct TrtexecRun {
  TrtexecStatus status = TrtexecStatus::unknown;
  std::optional<std::string> version;  // of TensorRT: "8.6.1"
  std::optional<std::string>
      temper;  // the version of Temper where `temper trtexec` wrote the log; "" where it does not say
  std::optional<std::string> command;  // behind the '#' of its banner
  // Lines of the sections "=== … Options ===" and "=== Device Information ===", under the names there: "Model",
  // "Precision", "Batch", "Data transfers", "Spin-wait", "CUDA Graph", "Streams", "Device", "Selected Device", "Load
  // engine".
  std::map<std::string, std::string> options;
  std::map<std::string, std::vector<int64_t>> shapes;  // of the inputs that were run

  std::optional<double> build_s, deserialize_s, engine_mib, build_peak_gpu_mib;
  std::optional<int64_t> warmup_queries, queries;

  // The summary. Several numbers of 7.x count one query as none, so that zero means nothing there.
  bool multi_line = false;  // the shape of 7.x
  std::optional<double> throughput_qps, walltime_s, gpu_total_s;
  std::optional<TrtexecStats> latency, end_to_end, enqueue, h2d, gpu, d2h;

  std::vector<std::string> warnings;        // of the summary, as the log has them
  std::vector<std::string> errors;          // lines of severity E and F, the first few
  std::vector<std::string> problems;        // lines that were recognised but could not be read
  std::vector<std::string> contradictions;  // the log says a thing twice and differently
  bool has_summary() const {
    return throughput_qps || walltime_s || gpu_total_s || latency || enqueue || h2d || gpu || d2h;
  }
};

// Never throws on what a log may hold, except Error{bad_file} above 10000 runs. Empty where there is no sign of
// trtexec.
std::vector<TrtexecRun> read_trtexec_log(std::string_view bytes);

// The number in banners: "8601" -> "8.6.1", "100900" -> "10.9.0", "11.1.0.106" -> "11.1.0". Absent where it is none.
std::optional<std::string> trtexec_version(std::string_view number);

}  // namespace temper
