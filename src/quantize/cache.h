// SPDX-License-Identifier: Apache-2.0
// Reads, writes and checks TensorRT's calibration caches: text files with one scale a line.
//   TRT-<version>-<algorithm>
//   <tensor name>: <hex>
// <hex> is the scale, amax / 127, as the bits of a float: big-endian, lower case, without leading zeros. A name may
// hold colons, spaces and brackets; the last ": " of a line ends it.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "quantize/ranges.h"

namespace temper {

struct CalibrationCache {
  std::string header;                                  // "TRT-7000-EntropyCalibration2"
  std::vector<std::pair<std::string, float>> entries;  // name and scale, in the file's order
  bool operator==(const CalibrationCache&) const = default;
};

// Throws Error{bad_file} for what is no such file, with what it seems to be instead and what to do. `notes` (may be
// null) gets what is odd but readable: padded or upper-case digits, other line ends, a tensor that is there twice.
CalibrationCache parse_cache(std::string_view text, std::vector<std::string>* notes = nullptr);
CalibrationCache load_cache(const std::string& path,
                            std::vector<std::string>* notes = nullptr);  // errors begin with the path

// The same bytes that TensorRT writes. Throws Error{usage} for a header or name that the format cannot hold.
std::string to_text(const CalibrationCache& cache);

// Every entry of the cache, its scale bit for bit, named as it is there. Unusable scales stay; notes name them.
Ranges ranges_of(const CalibrationCache& cache, std::string_view model_sha256);
// `version` is the token of the header, "8501"; empty: that of the cache the ranges came from, or 8501. The algorithm
// is MinMaxCalibration for minmax, EntropyCalibration2 otherwise, unless the ranges came from a cache.
CalibrationCache cache_of(const Ranges& ranges, const std::string& version = "");

enum class Severity { info, warning, error };
struct LintFinding {  // explanations (bench/explain.h) have a Finding of their own
  Severity severity;
  std::string tensor;  // or empty
  std::string text;
};
struct Lint {
  std::vector<LintFinding> findings;
  int64_t entries = 0, known = 0;        // of the cache; those that name a value of the model
  int64_t quantizable = 0, covered = 0;  // observed values of the optimised graph; those with a usable scale
};
// Examines the cache by itself and against a model: as imported (names) and optimised (what would be quantized).
Lint lint_cache(const CalibrationCache& cache, const Graph& imported, const Graph& optimised);

}  // namespace temper
