// SPDX-License-Identifier: Apache-2.0
// The result of calibration: one range per value of the optimised graph. The file is JSON, "temper.ranges/1".
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "quantize/method.h"

namespace temper {

constexpr std::string_view kRangesSchema = "temper.ranges/1";

struct TensorRange {
  float min = 0, max = 0;  // seen; -amax and amax where only a scale is known
  float scale = 0;     // amax / 127 of the range chosen (symmetric s8). Kept bit for bit: it may be any float that a
                       // TensorRT cache holds, so ask is_usable()
  std::string method;  // "entropy", ...; "cache" where it was read from one
  double clipped_share = 0;     // of the values, those beyond 127 * scale
  Histogram histogram;          // empty where it was read from a cache
  std::vector<float> channels;  // Observed::channels
  bool operator==(const TensorRange&) const = default;

  bool is_usable() const;  // the scale is a positive normal number
};

struct Ranges {
  std::string model_sha256;        // of the ONNX file
  std::string precision = "fp32";  // of the run that was observed
  std::string method;              // as asked for
  int64_t samples = 0;
  uint64_t seed = 0;
  bool placeholder = false;                       // observed on noise: meaningless for accuracy
  std::map<std::string, std::string> preprocess;  // by input that took pictures: how (data/preprocess.h reads it)
  std::vector<std::string> notes;                 // what the user should read
  std::vector<uint64_t> sample_hashes;            // Batch::hashes of the samples, sorted, none twice
  std::map<std::string, TensorRange> values;      // by value name
  std::vector<std::string> order;  // of all names, as a cache lists them: the graph's order, or that of the cache read
  std::string cache_header;        // of the TensorRT cache that the ranges came from
  bool operator==(const Ranges&) const = default;
};

// Makes a range of what was observed. `warnings` gets one line for a tensor that is all zero, and for one of which more
// than kMostClipped is clipped, naming it.
TensorRange make_range(const std::string& name, const Method& method, const Observed& observed,
                       std::vector<std::string>& warnings);

// The same, to the last bit, as if all samples had been observed in one run; one part stays as it is. Throws
// Error{usage} for no parts, and where they are not of the same model, precision and method, do not have the same
// values, or were read from caches. Content that is in two parts is a note, and all of a part's in the others
// Error{usage}: it may be there by mistake. `of_one_list`: they are shares of one list of samples, whatever is in them;
// nothing is said then.
Ranges merge(const std::vector<Ranges>& parts, bool of_one_list = false);

// Throws Error{usage} where the ranges are of another model than `sha256`, with what to do.
void check_model(const Ranges& ranges, std::string_view sha256);

std::string to_json(const Ranges& ranges);
Ranges ranges_from_json(std::string_view text);                                       // strict; throws Error{bad_file}
void save_ranges(const std::string& path, const Ranges& ranges, bool force = false);  // atomically; see Output
Ranges load_ranges(const std::string& path);                                          // errors begin with the path

// A float's bits as hexadecimal: "3c010204". `parse_float_bits` takes 1 to 8 digits of either case and nothing else.
std::string float_bits(float value);
bool parse_float_bits(std::string_view text, float& value);

}  // namespace temper
