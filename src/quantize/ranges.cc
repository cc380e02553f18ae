// SPDX-License-Identifier: Apache-2.0
#include "quantize/ranges.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <set>

#include "base/count_of.h"
#include "base/file.h"
#include "base/json_struct.h"
#include "base/parse.h"

namespace temper {

namespace {

// Samples, and values of one tensor; far above what anybody observes, so that sums do not overflow.
constexpr int64_t kMostCount = int64_t(1) << 53;

std::string hex64(uint64_t value) {
  char buffer[17];
  const auto end = std::to_chars(buffer, buffer + 16, value, 16).ptr;
  return std::string(16 - size_t(end - buffer), '0') + std::string(buffer, end);
}

struct Hex64 {
  void read(const JsonInput& in, uint64_t& value) const {
    const std::string& text = in.text();
    const auto number = parse_number<uint64_t>(text, 16);
    if (text.size() != 16 || !number) in.refuse("'", text.substr(0, 80), "' is not a hash of 16 hexadecimal digits");
    value = *number;
  }
  void write(strict::Json& out, uint64_t value) const { out = hex64(value); }
};

// Floats stand as bits, which decide, and as a decimal number to be read by people (null where JSON has no such
// number).
struct FloatWithBits {
  void write(strict::Json& out, float value) const {
    out = strict::Json::array({float_bits(value), std::isfinite(value) ? strict::Json(value) : strict::Json(nullptr)});
  }
  void read(const JsonInput& in, float& value) const {
    if (!in.json().is_array() || in.json().size() != 2) in.expected("[bits, number]");
    const JsonInput text(in.json()[0], in, size_t(0)), number(in.json()[1], in, size_t(1));
    const std::string& bits = text.text();
    if (bits.size() != 8 || !parse_float_bits(bits, value))
      text.refuse("'", bits.substr(0, 80), "' is not a float's 8 hexadecimal digits");
    const bool agrees = number.is_null() ? !std::isfinite(value) : float(number.number()) == value;
    if (!agrees) in.refuse("the bits ", bits, " are not the number that stands beside them");
  }
};

// Many floats that are not below 0: their bits, 8 digits each, in one text.
struct JoinedBits {
  void write(strict::Json& out, const std::vector<float>& values) const {
    std::string text;
    for (float value : values) text += float_bits(value);
    out = text;
  }
  void read(const JsonInput& in, std::vector<float>& values) const {
    const std::string& text = in.text();
    if (text.size() % 8 != 0) in.refuse(text.size(), " digits are no list of floats of 8 digits each");
    values.resize(text.size() / 8);
    for (size_t i = 0; i < values.size(); ++i)
      if (!parse_float_bits(std::string_view(text).substr(8 * i, 8), values[i]) || !std::isfinite(values[i]) ||
          std::signbit(values[i]))
        in.refuse("'", text.substr(8 * i, 8), "' is not the bits of a finite float that is not below 0");
  }
};

}  // namespace

template <class V, Is<Histogram> T>
static void json_fields(V& v, T& histogram) {
  v.field("exponent", histogram.exponent, Within{Histogram::kLeastExponent, Histogram::kMostExponent});
  v.field("zeros", histogram.zeros, Within{0, kMostCount});
  v.field("counts", histogram.counts, Each{Within{0, kMostCount / Histogram::kBins}});
}

namespace {

// As it stands in a file: bins behind the last one in use are left out, and one that nothing was added to is null.
struct StoredHistogram {
  void write(strict::Json& out, const Histogram& histogram) const {
    out = nullptr;
    if (histogram.counts.empty() && histogram.zeros == 0) return;
    Histogram used = histogram;
    used.counts.resize(size_t(histogram.used()));
    write_json(out, used);
  }
  void read(const JsonInput& in, Histogram& histogram) const {
    if (in.is_null()) return;
    read_json(in, histogram);
    if (histogram.counts.size() > Histogram::kBins)
      in.refuse("a histogram has ", histogram.counts.size(), " bins, more than ", Histogram::kBins);
    if (histogram.counts.empty()) return;
    histogram.counts.resize(Histogram::kBins);
    // The widest value is in the upper half by construction; joining and the methods count on it.
    if (histogram.used() <= Histogram::kBins / 2) in.refuse("a histogram's upper half is empty");
  }
};

}  // namespace

template <class V, Is<TensorRange> T>
static void json_fields(V& v, T& range) {
  v.field("min", range.min, FloatWithBits());
  v.field("max", range.max, FloatWithBits());
  v.field("scale", range.scale, FloatWithBits());
  v.field("method", range.method);
  v.field("clipped_share", range.clipped_share);
  v.field("histogram", range.histogram, StoredHistogram());
  if constexpr (V::kReads) v.may_lack("channels", range.channels, JoinedBits());
  else if (!range.channels.empty()) v.field("channels", range.channels, JoinedBits());
  if constexpr (V::kReads) {
    if (!(range.min <= range.max)) v.refuse("min", "the least value ", range.min, " is above the largest ", range.max);
    if (range.clipped_share < 0 || range.clipped_share > 1)
      v.refuse("clipped_share", range.clipped_share, " is no share");
  }
}

// All but the schema.
template <class V, Is<Ranges> T>
static void json_fields(V& v, T& ranges) {
  v.field("model_sha256", ranges.model_sha256);
  v.field("precision", ranges.precision);
  v.field("method", ranges.method);
  v.field("samples", ranges.samples, Within{0, kMostCount});
  v.field("seed", ranges.seed);
  v.field("placeholder", ranges.placeholder);
  if constexpr (V::kReads) v.may_lack("preprocess", ranges.preprocess);
  else v.field("preprocess", ranges.preprocess);
  v.field("notes", ranges.notes);
  v.field("sample_hashes", ranges.sample_hashes, Each{Hex64()});
  v.field("order", ranges.order);
  v.field("cache_header", ranges.cache_header);
  v.field("values", ranges.values);
}

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
  return {observed.min,       observed.max,     scale_of(amax), method.text(), clipped_share(observed, amax),
          observed.histogram, observed.channels};
}

Ranges merge(const std::vector<Ranges>& parts, bool of_one_list) {
  auto refuse = [](const auto&... why) { fail(ErrorKind::usage, "these ranges cannot be joined: ", why...); };
  if (parts.empty()) refuse("there are none");
  if (parts.size() == 1) return parts[0];
  const Ranges& a = parts[0];
  Ranges joined = a;
  joined.notes.clear();
  std::map<std::string, Observed> seen;
  for (const auto& [name, range] : a.values) seen[name] = {range.min, range.max, range.histogram, range.channels};
  for (size_t i = 1; i < parts.size(); ++i) {
    const Ranges& b = parts[i];
    if (a.model_sha256 != b.model_sha256)
      refuse("they are of two models (sha256 ", a.model_sha256, " and ", b.model_sha256, ")");
    if (a.precision != b.precision) refuse("one was observed in ", a.precision, ", the other in ", b.precision);
    if (a.method != b.method)
      refuse("the methods differ (", a.method, " and ", b.method, "); calibrate both parts with the same --method");
    if (a.placeholder != b.placeholder) refuse("one was observed on placeholder data, the other on real data");
    if (a.preprocess != b.preprocess) refuse("their pictures were prepared in different ways");
    joined.samples += b.samples;
    std::vector<uint64_t> hashes;
    std::set_union(joined.sample_hashes.begin(), joined.sample_hashes.end(), b.sample_hashes.begin(),
                   b.sample_hashes.end(), std::back_inserter(hashes));
    const size_t twice = joined.sample_hashes.size() + b.sample_hashes.size() - hashes.size();
    if (twice && !of_one_list) {
      if (twice == std::min(joined.sample_hashes.size(), b.sample_hashes.size()))
        refuse("every sample of one is in the other too, and would count twice");
      joined.notes.push_back(
          concat("both parts hold ", count_of(twice, "sample"), " of the same content, which count twice"));
    }
    joined.sample_hashes = std::move(hashes);
    for (const auto& [name, range] : b.values)
      if (!a.values.contains(name)) refuse("only one of them has the tensor '", name, "'");
    for (const auto& [name, range] : a.values) {
      const auto other = b.values.find(name);
      if (other == b.values.end()) refuse("only one of them has the tensor '", name, "'");
      if (range.histogram.total() == 0 || other->second.histogram.total() == 0)
        refuse("the tensor '", name, "' has no histogram (it was read from a cache)");
      if (range.method != other->second.method)
        refuse("the tensor '", name, "' has the method ", range.method, " in one and ", other->second.method,
               " in the other");
      Observed& sum = seen.at(name);
      sum.min = std::min(sum.min, other->second.min);
      sum.max = std::max(sum.max, other->second.max);
      sum.histogram.merge(other->second.histogram);
      if (sum.channels.size() != other->second.channels.size())
        refuse("the tensor '", name, "' has ", sum.channels.size(), " channels in one and ",
               other->second.channels.size(), " in the other");
      for (size_t c = 0; c < sum.channels.size(); ++c)
        sum.channels[c] = std::max(sum.channels[c], other->second.channels[c]);
    }
  }
  // In the graph's order, as one run makes them.
  for (const std::string& name : joined.order) {
    TensorRange& range = joined.values.at(name);
    range = make_range(name, Method::parse(range.method), seen.at(name), joined.notes);
  }
  // Notes on tensors are made anew above; the others are kept once.
  for (const Ranges& part : parts)
    for (const std::string& note : part.notes)
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
  JsonWriter<strict::Json> writer;
  writer.field("schema", kRangesSchema);
  json_fields(writer, ranges);
  std::string out = "{";
  // A line for each tensor: what people look for is found, and a difference between two files is small.
  for (const auto& [key, value] : writer.object.items()) {
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
  const strict::Json json = strict::parse(text, "the list of ranges");
  const JsonInput root(json, "", kRangesSchema);
  JsonReader reader(root);
  reader.expect_schema("temper calibrate MODEL --data D -o RANGES");
  Ranges ranges;
  json_fields(reader, ranges);
  reader.finish();
  if (std::adjacent_find(ranges.sample_hashes.begin(), ranges.sample_hashes.end(), std::greater_equal<>()) !=
      ranges.sample_hashes.end())
    reader.refuse("sample_hashes", "the hashes of the samples are not in order");
  std::set<std::string_view> listed;
  for (const std::string& name : ranges.order)
    if (!ranges.values.contains(name) || !listed.insert(name).second)
      reader.refuse("order", "names '", name.substr(0, 80), "' twice, or without a range");
  if (listed.size() != ranges.values.size()) reader.refuse("order", "does not name every tensor");
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
