// SPDX-License-Identifier: Apache-2.0
// Reads the file of `trtexec --exportTimes=FILE`: the times of every query, 7.2 to 11.1.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

namespace temper {

// Milliseconds, one value a query in the order of the file.
struct TrtexecTimes {
  std::vector<double> latency, gpu, h2d, d2h;
  bool temper = false;                            // `temper trtexec` wrote it: of copies it knows nothing
  std::optional<std::vector<double>> end_to_end;  // up to 8.2
  std::optional<std::vector<double>> enqueue;     // its end less its start; 7.x mixes up the labels, so absent there
};

// Throws Error{bad_file}: not such a file, a number that is negative, records that differ in their fields.
TrtexecTimes read_trtexec_times(std::string_view json);

}  // namespace temper
