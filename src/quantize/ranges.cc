// SPDX-License-Identifier: Apache-2.0
#include "quantize/ranges.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "base/file.h"
#include "base/parse.h"
#include "base/strict_json.h"

namespace temper {

using strict::Json;
using strict::Object;

namespace {

// Samples, and values of one tensor; far above what anybody observes, so that sums do not overflow.
constexpr int64_t kMostCount = int64_t(1) << 53;

std::string hex64(uint64_t value) {
  char buffer[17];
  const auto end = std::to_chars(buffer, buffer + 16, value, 16).ptr;
  return std::string(16 - size_t(end - buffer), '0') + std::string(buffer, end);
}

uint64_t read_hex64(const Json& json) {
  const std::string& text = strict::text(json);
  const auto value = parse_number<uint64_t>(text, 16);
  if (text.size() != 16 || !value)
    fail(ErrorKind::bad_file, "the JSON is damaged: '", text.substr(0, 80), "' is not a hash of 16 hexadecimal digits");
  return *value;
}

// Bins behind the last one in use are left out.
Json histogram_json(const Histogram& histogram) {
  if (histogram.counts.empty() && histogram.zeros == 0) return nullptr;
  const std::vector<uint64_t> counts(histogram.counts.begin(), histogram.counts.begin() + histogram.used());
  return {{"exponent", histogram.exponent}, {"zeros", histogram.zeros}, {"counts", counts}};
}

Histogram read_histogram(const Json& json) {
  Histogram histogram;
  if (json.is_null()) return histogram;
  Object object(json);
  histogram.exponent = int(strict::integer(object["exponent"], Histogram::kLeastExponent, Histogram::kMostExponent));
  histogram.zeros = uint64_t(strict::integer(object["zeros"], 0, kMostCount));
  const auto& counts = strict::list(object["counts"]);
  object.done();
  if (counts.size() > Histogram::kBins)
    fail(ErrorKind::bad_file, "the JSON is damaged: a histogram has ", counts.size(), " bins, more than ",
         Histogram::kBins);
  if (counts.empty()) return histogram;
  histogram.counts.assign(Histogram::kBins, 0);
  for (size_t i = 0; i < counts.size(); ++i)
    histogram.counts[i] = uint64_t(strict::integer(counts[i], 0, kMostCount / Histogram::kBins));
  // The widest value is in the upper half by construction; joining and the methods count on it.
  if (histogram.used() <= Histogram::kBins / 2)
    fail(ErrorKind::bad_file, "the JSON is damaged: a histogram's upper half is empty");
  return histogram;
}

// Floats stand as bits, which decide, and as a decimal number to be read by people (null where JSON has no such
// number).
Json float_json(float value) {
  return Json::array({float_bits(value), std::isfinite(value) ? Json(value) : Json(nullptr)});
}

float read_float(const Json& json) {
  const auto& pair = strict::list(json, 2);
  const std::string& bits = strict::text(pair[0]);
  float value = 0;
  if (bits.size() != 8 || !parse_float_bits(bits, value))
    fail(ErrorKind::bad_file, "the JSON is damaged: '", bits.substr(0, 80), "' is not a float's 8 hexadecimal digits");
  const bool agrees = pair[1].is_null() ? !std::isfinite(value) : float(strict::number(pair[1])) == value;
  if (!agrees)
    fail(ErrorKind::bad_file, "the JSON is damaged: the bits ", bits, " are not the number that stands beside them");
  return value;
}

Json range_json(const TensorRange& range) {
  return {{"min", float_json(range.min)},         {"max", float_json(range.max)},
          {"scale", float_json(range.scale)},     {"method", range.method},
          {"clipped_share", range.clipped_share}, {"histogram", histogram_json(range.histogram)}};
}

TensorRange read_range(const Json& json) {
  Object object(json);
  TensorRange range;
  range.min = read_float(object["min"]);
  range.max = read_float(object["max"]);
  range.scale = read_float(object["scale"]);
  range.method = strict::text(object["method"]);
  range.clipped_share = strict::number(object["clipped_share"]);
  range.histogram = read_histogram(object["histogram"]);
  object.done();
  if (!(range.min <= range.max))
    fail(ErrorKind::bad_file, "the JSON is damaged: the least value ", range.min, " is above the largest ", range.max);
  if (range.clipped_share < 0 || range.clipped_share > 1)
    fail(ErrorKind::bad_file, "the JSON is damaged: clipped_share ", range.clipped_share, " is no share");
  return range;
}

}  // namespace

bool TensorRange::is_usable() const { return scale > 0 && std::isnormal(scale); }

std::string float_bits(float value) {
  const std::string text = hex64(std::bit_cast<uint32_t>(value));
  return text.substr(8);
}

bool parse_float_bits(std::string_view text, float& value) {
  const auto bits = parse_number<uint32_t>(text, 16);  // takes no sign, no 0x
  if (text.size() > 8 || !bits) return false;
  value = std::bit_cast<float>(*bits);
  return true;
}

TensorRange make_range(const std::string& name, const Method& method, const Observed& observed,
                       std::vector<std::string>& warnings) {
  const double amax = choose_amax(method, observed);
  if (amax == 0)
    warnings.push_back(concat("the tensor '", name,
                              "' was zero in every sample: its scale is that of a tensor that reaches 1; check that "
                              "the data is what the model expects"));
  if (std::string clipped = clipping_text(name, method, observed, amax); !clipped.empty())
    warnings.push_back(std::move(clipped));
  return {observed.min, observed.max, scale_of(amax), method.text(), clipped_share(observed, amax), observed.histogram};
}

Ranges merge(const Ranges& a, const Ranges& b) {
  auto refuse = [](const auto&... why) { fail(ErrorKind::usage, "these ranges cannot be joined: ", why...); };
  if (a.model_sha256 != b.model_sha256)
    refuse("they are of two models (sha256 ", a.model_sha256, " and ", b.model_sha256, ")");
  if (a.precision != b.precision) refuse("one was observed in ", a.precision, ", the other in ", b.precision);
  if (a.method != b.method)
    refuse("the methods differ (", a.method, " and ", b.method, "); calibrate both parts with the same --method");
  if (a.placeholder != b.placeholder) refuse("one was observed on placeholder data, the other on real data");
  Ranges joined = a;
  joined.samples += b.samples;
  joined.sample_hashes.clear();
  std::set_union(a.sample_hashes.begin(), a.sample_hashes.end(), b.sample_hashes.begin(), b.sample_hashes.end(),
                 std::back_inserter(joined.sample_hashes));
  joined.notes.clear();
  if (const size_t twice = a.sample_hashes.size() + b.sample_hashes.size() - joined.sample_hashes.size()) {
    if (twice == std::min(a.sample_hashes.size(), b.sample_hashes.size()))
      refuse("every sample of one is in the other too, and would count twice");
    joined.notes.push_back(concat(twice, " samples have the same content in both parts, and count twice"));
  }
  for (const auto& [name, range] : b.values)
    if (!a.values.contains(name)) refuse("only one of them has the tensor '", name, "'");
  for (auto& [name, range] : joined.values) {
    const auto other = b.values.find(name);
    if (other == b.values.end()) refuse("only one of them has the tensor '", name, "'");
    if (range.histogram.total() == 0 || other->second.histogram.total() == 0)
      refuse("the tensor '", name, "' has no histogram (it was read from a cache)");
    if (range.method != other->second.method)
      refuse("the tensor '", name, "' has the method ", range.method, " in one and ", other->second.method,
             " in the other");
    Observed observed{std::min(range.min, other->second.min), std::max(range.max, other->second.max), range.histogram};
    observed.histogram.merge(other->second.histogram);
    range = make_range(name, Method::parse(range.method), observed, joined.notes);
  }
  // Notes on tensors are made anew above; the others are kept once.
  for (const Ranges* part : {&a, &b})
    for (const std::string& note : part->notes)
      if (!note.starts_with("the tensor '") &&
          std::find(joined.notes.begin(), joined.notes.end(), note) == joined.notes.end())
        joined.notes.push_back(note);
  return joined;
}

void check_model(const Ranges& ranges, std::string_view sha256) {
  if (ranges.model_sha256 != sha256)
    fail(ErrorKind::usage, "the ranges are of another model (sha256 ", ranges.model_sha256, ", this one has ", sha256,
         "); calibrate this model: temper calibrate MODEL --data D -o RANGES");
}

std::string to_json(const Ranges& ranges) {
  Json values = Json::object(), hashes = Json::array();
  for (const auto& [name, range] : ranges.values) values[name] = range_json(range);
  for (uint64_t hash : ranges.sample_hashes) hashes.push_back(hex64(hash));
  const Json json{{"schema", kRangesSchema},
                  {"model_sha256", ranges.model_sha256},
                  {"precision", ranges.precision},
                  {"method", ranges.method},
                  {"samples", ranges.samples},
                  {"seed", ranges.seed},
                  {"placeholder", ranges.placeholder},
                  {"notes", ranges.notes},
                  {"sample_hashes", hashes},
                  {"order", ranges.order},
                  {"cache_header", ranges.cache_header},
                  {"values", values}};
  std::string out = "{";
  // A line for each tensor: what people look for is found, and a difference between two files is small.
  for (const auto& [key, value] : json.items()) {
    out += concat(out.size() > 1 ? "," : "", "\n", strict::dump(key), ": ");
    if (key != "values") out += strict::dump(value);
    else {
      out += "{";
      bool first = true;
      for (const auto& [name, range] : value.items()) {
        out += concat(first ? "" : ",", "\n  ", strict::dump(name), ": ", strict::dump(range));
        first = false;
      }
      out += "}";
    }
  }
  return out + "\n}\n";
}

Ranges ranges_from_json(std::string_view text) {
  const Json root = strict::parse(text, "the list of ranges");
  Object object(root);
  Ranges ranges;
  if (const std::string& schema = strict::text(object["schema"]); schema != kRangesSchema)
    fail(ErrorKind::bad_file, "the schema is '", schema.substr(0, 80), "', this version reads '", kRangesSchema, "'");
  ranges.model_sha256 = strict::text(object["model_sha256"]);
  ranges.precision = strict::text(object["precision"]);
  ranges.method = strict::text(object["method"]);
  ranges.samples = strict::integer(object["samples"], 0, kMostCount);
  ranges.seed = strict::unsigned_integer(object["seed"]);
  ranges.placeholder = strict::flag(object["placeholder"]);
  for (const Json& note : strict::list(object["notes"])) ranges.notes.push_back(strict::text(note));
  for (const Json& hash : strict::list(object["sample_hashes"])) {
    const uint64_t value = read_hex64(hash);
    if (!ranges.sample_hashes.empty() && ranges.sample_hashes.back() >= value)
      fail(ErrorKind::bad_file, "the JSON is damaged: the hashes of the samples are not in order");
    ranges.sample_hashes.push_back(value);
  }
  for (const Json& name : strict::list(object["order"])) ranges.order.push_back(strict::text(name));
  ranges.cache_header = strict::text(object["cache_header"]);
  const Json& values = object["values"];
  object.done();
  if (!values.is_object()) fail(ErrorKind::bad_file, "the JSON is damaged: 'values' is no object");
  for (const auto& item : values.items()) {
    const std::string& name = item.key();
    ranges.values.emplace_hint(
        ranges.values.end(), name,
        with_context([&] { return concat("tensor '", name, "'"); }, [&] { return read_range(item.value()); }));
  }
  std::set<std::string_view> listed;
  for (const std::string& name : ranges.order)
    if (!ranges.values.contains(name) || !listed.insert(name).second)
      fail(ErrorKind::bad_file, "the JSON is damaged: 'order' names '", name.substr(0, 80),
           "' twice, or without a range");
  if (listed.size() != ranges.values.size())
    fail(ErrorKind::bad_file, "the JSON is damaged: 'order' does not name every tensor");
  return ranges;
}

void save_ranges(const std::string& path, const Ranges& ranges, bool force) {
  write_file_atomically({path, FileKind::ranges, force}, to_json(ranges));
}

Ranges load_ranges(const std::string& path) {
  const std::string text = read_file(path);
  return with_context([&] { return path; }, [&] { return ranges_from_json(text); });
}

}  // namespace temper
