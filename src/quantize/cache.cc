// SPDX-License-Identifier: Apache-2.0
#include "quantize/cache.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>

#include "base/file.h"
#include "graph/ops/pointwise.h"
#include "quantize/observe.h"

namespace temper {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
std::string shown(std::string_view text) { return concat("'", text.substr(0, 80), text.size() > 80 ? "..." : "", "'"); }

bool is_decimal(std::string_view text) {
  return text.find('.') != text.npos && std::all_of(text.begin(), text.end(), [](char c) {
           return is_digit(c) || c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E';
         });
}

// Empty where the header is as TensorRT writes it; otherwise what is wrong.
std::string header_problem(std::string_view header) {
  if (!header.starts_with("TRT-")) return concat("the first line ", shown(header), " is not TRT-<version>-<algorithm>");
  const std::string_view rest = header.substr(4);
  const size_t dash = rest.find('-');
  if (dash == rest.npos || dash + 1 == rest.size())
    return concat("the first line ", shown(header), " names no algorithm; TRT-8501-EntropyCalibration2 would");
  const std::string_view version = rest.substr(0, dash), algorithm = rest.substr(dash + 1);
  if (version.find('X') != version.npos)
    return concat(
        "the version in the first line ", shown(header),
        " is a placeholder that some exporter left there; TensorRT rejects it. Put the version in, e.g. TRT-8501-",
        algorithm);
  if (version.empty() || !std::all_of(version.begin(), version.end(), is_digit))
    return concat("the version in the first line ", shown(header), " is not a number such as 8501");
  if (!std::all_of(algorithm.begin(), algorithm.end(),
                   [](char c) { return std::isalnum(static_cast<unsigned char>(c)); }))
    return concat("the algorithm in the first line ", shown(header), " is not a word");
  return "";
}

// Guesses what a file without the header is.
std::string look_alike(std::string_view text, std::string_view first_line) {
  if (text.find_first_not_of(" \t\r\n") == text.npos)
    return "the file is empty; whatever wrote it did not calibrate anything";
  if (std::any_of(text.begin(), text.end(),
                  [](char c) { return static_cast<unsigned char>(c) < 32 && c != '\n' && c != '\r' && c != '\t'; }))
    return "the file is binary; ONNX Runtime's calibration tables exist as flatbuffers under the same name. Calibrate "
           "again, or export a cache with TensorRT";
  if (text.find_first_not_of(" \t\r\n") != text.npos &&
      (text[text.find_first_not_of(" \t\r\n")] == '{' || text[text.find_first_not_of(" \t\r\n")] == '['))
    return "the file is JSON, such as ONNX Runtime's calibration tables or the ranges of temper calibrate, and no "
           "TensorRT cache";
  const size_t space = first_line.rfind(' ');
  if (space != first_line.npos && is_decimal(first_line.substr(space + 1)))
    return "it looks like ONNX Runtime's calibration table: no header, and decimal ranges (amax) where a TensorRT "
           "cache has scales in hexadecimal. Calibrate again";
  return "";
}

[[noreturn]] void refuse_value(size_t line, std::string_view text, std::string_view value) {
  std::string why;
  if (value.empty())
    why =
        "it has no digits; a writer that strips zeros (Python's hex().lstrip(\"0x\")) leaves nothing of a zero. Write "
        "0";
  else if (is_decimal(value))
    why =
        "it is decimal; a TensorRT cache holds the bits of amax / 127 in hexadecimal. Other tools (Forward, ONNX "
        "Runtime) write decimal ranges";
  else if (value.starts_with("0x")) why = "it begins with 0x; a TensorRT cache has the digits alone";
  else why = "it is not 1 to 8 hexadecimal digits";
  fail(ErrorKind::bad_file, "line ", line, " ", shown(text), ": the value ", shown(value), " cannot be read: ", why);
}

// Scales that networks have. Outside of it are special entries and wrong byte orders.
bool is_plausible(float scale) { return scale >= 1e-10f && scale <= 1e6f; }
bool is_special(float scale) {
  return scale == 0 || std::isinf(scale) || scale == std::numeric_limits<float>::max() / 127.0f;
}
float swapped(float value) { return std::bit_cast<float>(__builtin_bswap32(std::bit_cast<uint32_t>(value))); }

void refuse_little_endian(const CalibrationCache& cache) {
  int64_t strange = 0, better = 0;
  for (const auto& [name, scale] : cache.entries) {
    if (is_special(scale) || is_plausible(scale)) continue;
    ++strange;
    better += is_plausible(swapped(scale));
  }
  if (better >= 2 && better * 10 >= strange * 9 && strange * 2 > int64_t(cache.entries.size()))
    fail(ErrorKind::bad_file, "the scales are little-endian: ", strange, " of ", cache.entries.size(),
         " make no sense as they stand and ", better,
         " do with their bytes swapped. A TensorRT cache is big-endian; write it again with the bytes in that order");
}

}  // namespace

CalibrationCache parse_cache(std::string_view text, std::vector<std::string>* notes) {
  auto note = [&](const auto&... parts) {
    if (notes) notes->push_back(concat(parts...));
  };
  std::string_view first = text.substr(0, text.find('\n'));
  if (first.ends_with('\r')) first.remove_suffix(1);
  if (const std::string problem = header_problem(first); !problem.empty()) {
    const std::string seems = look_alike(text, first);
    fail(ErrorKind::bad_file,
         "this is not a TensorRT calibration cache: ", seems.empty() || first.starts_with("TRT-") ? problem : seems);
  }
  if (text.find('\0') != text.npos)
    fail(ErrorKind::bad_file, "this is not a TensorRT calibration cache: the file holds zero bytes");
  CalibrationCache cache;
  cache.header = first;
  bool carriage = text.find('\r') != text.npos, padded = false, upper = false;
  std::map<std::string, float, std::less<>> seen;
  size_t line = 1;
  for (size_t at = text.find('\n'); at != text.npos && at + 1 < text.size();) {
    const size_t begin = at + 1;
    at = text.find('\n', begin);
    std::string_view row = text.substr(begin, at == text.npos ? text.npos : at - begin);
    ++line;
    if (row.ends_with('\r')) row.remove_suffix(1);
    if (row.empty()) {
      note("line ", line, " is empty");
      continue;
    }
    const size_t split = row.rfind(": ");
    if (split == row.npos) {
      if (const size_t colon = row.rfind(':'); colon != row.npos && is_decimal(row.substr(colon + 1)))
        fail(ErrorKind::bad_file, "line ", line, " ", shown(row),
             " has a decimal range directly behind the colon: this is a table of Tencent's Forward, which stores amax, "
             "and no TensorRT cache");
      if (row.ends_with(':')) refuse_value(line, row, "");
      fail(ErrorKind::bad_file, "line ", line, " ", shown(row), " is not '<tensor name>: <hex>'");
    }
    const std::string_view name = row.substr(0, split), value = row.substr(split + 2);
    float scale = 0;
    if (name.empty()) fail(ErrorKind::bad_file, "line ", line, " ", shown(row), " names no tensor");
    if (!std::all_of(value.begin(), value.end(), is_hex) || !parse_float_bits(value, scale))
      refuse_value(line, row, value);
    padded |= value.size() > 1 && value[0] == '0';
    upper |= std::any_of(value.begin(), value.end(), [](char c) { return c >= 'A' && c <= 'F'; });
    if (const auto [it, fresh] = seen.emplace(name, scale); !fresh) {
      if (float_bits(it->second) != float_bits(scale))
        fail(ErrorKind::bad_file, "line ", line, ": the tensor ", shown(name),
             " is there twice, with different scales; remove one of them");
      note("the tensor '", name, "' is there twice, with the same scale (line ", line, ")");
      continue;
    }
    cache.entries.emplace_back(name, scale);
  }
  if (cache.entries.empty()) fail(ErrorKind::bad_file, "the cache has a header and no entries: nothing was calibrated");
  refuse_little_endian(cache);
  if (carriage) note("lines end with a carriage return; TensorRT writes none");
  if (padded) note("some values are padded with zeros; TensorRT writes none");
  if (upper) note("some values are in upper case; TensorRT writes lower case");
  if (!text.ends_with('\n')) note("the last line has no end; a file that was cut off looks like this too");
  return cache;
}

CalibrationCache load_cache(const std::string& path, std::vector<std::string>* notes) {
  const std::string text = read_file(path, size_t(64) << 20);
  return with_context([&] { return path; }, [&] { return parse_cache(text, notes); });
}

std::string to_text(const CalibrationCache& cache) {
  if (const std::string problem = header_problem(cache.header); !problem.empty()) fail(ErrorKind::usage, problem);
  std::string out = cache.header + "\n";
  for (const auto& [name, scale] : cache.entries) {
    if (name.empty() || name.find_first_of(std::string_view("\n\r\0", 3)) != name.npos)
      fail(ErrorKind::usage, "a calibration cache cannot hold the tensor name ", shown(name));
    const std::string bits = float_bits(scale);
    out +=
        concat(name, ": ", std::string_view(bits).substr(std::min(bits.find_first_not_of('0'), bits.size() - 1)), "\n");
  }
  return out;
}

Ranges ranges_of(const CalibrationCache& cache, std::string_view model_sha256) {
  Ranges ranges;
  ranges.model_sha256 = model_sha256;
  ranges.method = "cache";
  ranges.cache_header = cache.header;
  for (const auto& [name, scale] : cache.entries) {
    const float amax = scale * 127.0f;  // may be infinite or NaN: then no range is known
    TensorRange range{0, 0, scale, "cache"};
    if (std::isfinite(amax) && amax > 0) range.min = -amax, range.max = amax;
    if (!range.is_usable())
      ranges.notes.push_back(concat("the tensor '", name, "' has the scale ", scale, " (", float_bits(scale),
                                    "), with which nothing can be quantized: it stays in floating point"));
    ranges.values[name] = std::move(range);
    ranges.order.push_back(name);
  }
  return ranges;
}

CalibrationCache cache_of(const Ranges& ranges, const std::string& version) {
  CalibrationCache cache;
  const std::string algorithm = ranges.method == "minmax" ? "MinMaxCalibration" : "EntropyCalibration2";
  if (ranges.cache_header.empty()) cache.header = concat("TRT-", version.empty() ? "8501" : version, "-", algorithm);
  else
    cache.header = version.empty()
                       ? ranges.cache_header
                       : concat("TRT-", version, ranges.cache_header.substr(ranges.cache_header.find('-', 4)));
  for (const std::string& name : ranges.order) cache.entries.emplace_back(name, ranges.values.at(name).scale);
  return cache;
}

namespace {

// An upper bound of |x| that the op itself guarantees; 0 where there is none.
double bound_of_value(const Graph& graph, const std::string& name,
                      const std::map<std::string, ValueId, std::less<>>& values) {
  const auto it = values.find(name);
  if (it == values.end()) return 0;
  const Node* node = graph.producer(it->second);
  if (!node) return 0;
  if (const auto bound = bound_of(node->op)) return *bound;
  if (const auto* pointwise = node->op.get_if<ops::Pointwise>()) {
    const auto& steps = pointwise->program.steps;
    if (!steps.empty() && (steps.back().op == Scalar::sigmoid || steps.back().op == Scalar::tanh)) return 1;
  }
  return 0;
}

}  // namespace

Lint lint_cache(const CalibrationCache& cache, const Graph& imported, const Graph& optimised) {
  Lint lint;
  auto add = [&](Severity severity, const std::string& tensor, const auto&... parts) {
    lint.findings.push_back({severity, tensor, concat(parts...)});
  };
  std::map<std::string, ValueId, std::less<>> values;
  for (int32_t i = 0; i < imported.value_count(); ++i) values.emplace(imported.value({i}).name, ValueId{i});
  std::map<std::string, float> scales(cache.entries.begin(), cache.entries.end());
  lint.entries = int64_t(cache.entries.size());
  int64_t bounded = 0, as_amax = 0, constants = 0;
  for (const auto& [name, scale] : cache.entries) {
    const std::string bits = float_bits(scale);
    if (const auto it = values.find(name); it == values.end())
      add(Severity::warning, name, "no tensor of the model has this name");
    else {
      ++lint.known;
      constants += imported.value(it->second).constant != nullptr;
    }
    if (std::isnan(scale)) add(Severity::error, name, "the scale is not a number (", bits, ")");
    else if (std::isinf(scale))
      add(Severity::warning, name, "the scale is infinite (", bits,
          "): the tensor held an infinity while calibrating; it stays in floating point");
    else if (std::signbit(scale)) add(Severity::error, name, "the scale is negative (", bits, ", ", scale, ")");
    else if (scale == 0)
      add(Severity::warning, name, "the scale is 0: the tensor was zero in every sample; it stays in floating point");
    else if (scale == std::numeric_limits<float>::max() / 127.0f)
      add(Severity::warning, name, "the scale is that of the largest float (", bits,
          "): a mask, or a tensor without a range");
    else if (!is_plausible(scale))
      add(Severity::warning, name, "the scale ", scale, " (", bits, ") is far outside of what networks have");
    if (const double bound = bound_of_value(imported, name, values); bound > 0 && scale > 0 && std::isfinite(scale)) {
      ++bounded;
      if (scale > 1.2f * float(bound) / 127) {
        ++as_amax;
        add(Severity::warning, name, "never exceeds ", bound, ", and its scale ", scale, " stands for ", scale * 127.0f,
            scale <= 1.01f * float(bound) ? ": this may be amax itself where amax / 127 belongs" : "");
      }
    }
  }
  if (lint.known == 0)
    add(Severity::error, "", "no tensor of the model has a name of the cache, whose first is ",
        shown(cache.entries.front().first), ": it is of another model, or of one exported with other names");
  if (as_amax > 0 && as_amax == bounded)
    add(Severity::error, "", "each of the ", bounded,
        " tensors whose range is known has a scale many times too large: the file seems to store amax instead of amax "
        "/ 127");
  if (constants > 0) add(Severity::info, "", constants, " entries are of constants, which get scales of their own");
  for (ValueId id : observed_values(optimised)) {
    const std::string& name = optimised.value(id).name;
    ++lint.quantizable;
    const auto it = scales.find(name);
    if (it == scales.end()) add(Severity::warning, name, "has no scale in the cache: it stays in floating point");
    else lint.covered += TensorRange{0, 0, it->second}.is_usable();
  }
  return lint;
}

}  // namespace temper
