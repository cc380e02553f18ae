// SPDX-License-Identifier: Apache-2.0
#include "report/text.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/concat.h"
#include "bench/results.h"
#include "bench/table.h"

namespace temper {

namespace {

std::string absent(const BenchRun& run, const std::string& field) {
  const auto note = run.notes.find(field);
  if (note == run.notes.end()) return "n/a";
  return note->second.starts_with("n/a") ? note->second : concat("n/a (", note->second, ")");
}

}  // namespace

std::string shortened_label(const std::string& label, size_t most) {
  const size_t first = label.find(" · ");
  if (first == label.npos) return shortened(label, most);
  const std::string rest = label.substr(first);
  constexpr size_t kLeast = 8;  // of the name: what tells runs apart is more than that
  return concat(shortened(label.substr(0, first), std::max(kLeast, most > rest.size() ? most - rest.size() : 0)), rest);
}

std::string shortened(const std::string& text, size_t most) {
  std::vector<size_t> starts;  // of code points
  for (size_t i = 0; i < text.size(); ++i)
    if ((uint8_t(text[i]) & 0xc0) != 0x80) starts.push_back(i);
  if (starts.size() <= most) return text;
  const size_t head = most / 3, tail = most - head - 1;
  return concat(text.substr(0, starts[head]), "…", text.substr(starts[starts.size() - tail]));
}

std::string file_name_of(const std::string& path) {
  const size_t slash = path.find_last_of('/', path.size() < 2 ? std::string::npos : path.size() - 2);
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

std::string without_folders(std::string_view text) {
  constexpr std::string_view kBefore = " \t\n'\"=([,", kBehind = " \t\n'\")],;";
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const bool begins = text[at] == '/' && (at == 0 || kBefore.find(text[at - 1]) != kBefore.npos);
    if (!begins) {
      out += text[at++];
      continue;
    }
    const size_t end = std::min(text.find_first_of(kBehind, at), text.size());
    const std::string_view path = text.substr(at, end - at);
    // "/s" or a lone slash is no path: one has a second slash.
    out += path.find('/', 1) == path.npos ? std::string(path) : file_name_of(std::string(path));
    at = end;
  }
  return out;
}

std::string shown(const BenchRun& run, const std::optional<double>& value, const std::string& field) {
  if (!value) return absent(run, field);
  const auto note = run.notes.find(field);
  const bool marked = note != run.notes.end() && field.starts_with("latency_ms.p");
  return marked ? concat(format_number(*value), " (", note->second, ")") : format_number(*value);
}

std::string shown_bytes(const BenchRun& run, const std::optional<int64_t>& value, const std::string& field) {
  return value ? format_bytes(double(*value)) : absent(run, field);
}

std::string whole(double value) {
  return value == std::floor(value) && std::abs(value) < 1e15 ? concat(int64_t(value)) : format_number(value);
}

}  // namespace temper
