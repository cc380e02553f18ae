// SPDX-License-Identifier: Apache-2.0
// Logs that were cut, glued, reordered, coloured or printed in another locale: whatever is read stands in the text.
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <random>
#include <unordered_set>

#include "base/error.h"
#include "interop/trtexec_import.h"
#include "interop/trtexec_lines.h"
#include "logs.h"

namespace temper {
namespace {

// Every number that stands in a text by itself: not half of another one, not behind a decimal comma.
std::unordered_set<double> numbers_in(std::string_view text) {
  auto part = [&](size_t at) {
    return at < text.size() && ((text[at] >= '0' && text[at] <= '9') || text[at] == '.' || text[at] == ',');
  };
  std::unordered_set<double> numbers;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] < '0' || text[at] > '9' || (at > 0 && part(at - 1) && text[at - 1] != ',')) continue;
    double value = 0;
    const auto [end, code] = std::from_chars(text.data() + at, text.data() + text.size(), value);
    const size_t next = size_t(end - text.data());
    if (code == std::errc() && !(part(next) && part(next + 1))) numbers.insert(value);
  }
  return numbers;
}

void expect_from_text(const BenchRun& run, const std::unordered_set<double>& numbers, const std::string& text) {
  auto expect = [&](const char* name, const std::optional<double>& value) {
    ASSERT_TRUE(!value || numbers.contains(*value)) << name << " = " << *value << " does not stand in\n" << text;
  };
  auto latency = [&](const char* name, const Latency& l) {
    for (const auto& value : {l.min, l.max, l.mean, l.median, l.p90, l.p95, l.p99}) expect(name, value);
    ASSERT_FALSE(l.stddev);
    ASSERT_FALSE(l.median_ci95);
  };
  latency("latency", run.latency);
  const ImportedRun& from = *run.imported;
  for (const auto part : {&from.gpu, &from.h2d, &from.d2h, &from.enqueue, &from.end_to_end})
    if (*part) latency("a part", **part);
  expect("throughput_qps", from.throughput_qps);
  expect("walltime_s", from.walltime_s);
  expect("build_s", run.build_s);
  auto whole = [&](const char* name, const std::optional<int64_t>& value) {
    expect(name, value ? std::optional(double(*value)) : std::nullopt);
  };
  whole("streams", run.streams && *run.streams != 1 ? run.streams : std::nullopt);
  whole("warmup_runs", run.warmup_runs);
  whole("batch", run.batch && *run.batch != 1 ? run.batch : std::nullopt);
  const auto note = run.notes.find("samples");
  // Derived numbers follow from those of the text.
  if (run.samples && note != run.notes.end() && from.throughput_qps.value_or(0) > 0 && from.walltime_s) {
    ASSERT_NEAR(double(*run.samples) * double(run.notes.contains("shapes") ? run.batch.value_or(1) : 1),
                *from.throughput_qps * *from.walltime_s, 0.5 * double(run.batch.value_or(1)))
        << text;
  } else if (run.samples && note == run.notes.end() && !run.notes.contains("shapes")) whole("samples", run.samples);
  const double qps = from.throughput_qps.value_or(0);
  ASSERT_TRUE(!run.throughput_per_s || qps == 0 || *run.throughput_per_s == qps ||
              *run.throughput_per_s == qps * double(run.batch.value()))
      << text;
}

std::string mutated(std::string text, std::mt19937& random) {
  auto pick = [&](size_t n) { return n == 0 ? size_t(0) : std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  auto lines = [&] {
    std::vector<std::string> all;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      all.push_back(text.substr(at, end - at));
      at = end + 1;
    }
    return all;
  };
  auto join = [&](const std::vector<std::string>& all) {
    text.clear();
    for (const std::string& line : all) text += line + "\n";
  };
  for (size_t steps = 1 + pick(3); steps > 0; --steps) switch (pick(10)) {
      case 0: text.resize(pick(text.size() + 1)); break;       // cut at the end
      case 1: text.erase(0, pick(text.size() + 1)); break;     // and at the beginning
      case 2: text.erase(pick(text.size()), pick(60)); break;  // a hole
      case 3:
        if (const size_t at = text.find('\n', pick(text.size())); at != text.npos) text.erase(at, 1);
        break;  // glued
      case 4: {
        auto all = lines();
        std::shuffle(all.begin(), all.end(), random);
        join(all);
        break;
      }
      case 5: {
        auto all = lines();
        if (!all.empty()) all.insert(all.begin() + std::ptrdiff_t(pick(all.size())), all[pick(all.size())]);
        join(all);
        break;
      }
      case 6: text.insert(pick(text.size() + 1), concat("\x1b[", pick(108), "m")); break;  // coloured
      case 7:
        for (size_t i = 1; i + 1 < text.size(); ++i)
          if (text[i] == '.' && isdigit(text[i - 1]) && isdigit(text[i + 1])) text[i] = ',';
        break;  // another locale
      case 8:
        if (!text.empty()) text[pick(text.size())] = char(pick(256));
        break;
      default: text += text.substr(pick(text.size() + 1)); break;  // printed twice
    }
  return text;
}

TEST(TrtexecMutations, TenThousandDamagedLogsCrashNothingAndYieldNoNumberThatIsNotInTheirText) {
  const std::string logs[] = {fixture("trt8601_mnist_summary.log"),
                              fixture("trt101300_qwen_summary.log"),
                              LogText{.version = "8201", .percentiles = "99", .end_to_end = true}.text(),
                              LogText{.version = "110100", .build = "b1", .transfers = false, .options = false}.text(),
                              old_log(),
                              old_log("0", "0")};
  std::mt19937 random(5);
  int read = 0, refused = 0;
  for (int i = 0; i < 10000; ++i) {
    const std::string text = mutated(logs[size_t(i) % std::size(logs)], random);
    TrtexecImport imported;
    try {
      imported = import_trtexec({{"x.log", text}});
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::bad_file) << error.what();
      ++refused;
      continue;
    }
    // Colours and control characters are no part of a number for those who read the log on a terminal.
    const auto numbers = numbers_in(plain_log_text(text));
    for (const BenchRun& run : imported.runs) {
      expect_from_text(run, numbers, text);
      if (HasFatalFailure()) return;
      ++read;
    }
    ASSERT_NO_THROW(to_json(BenchResult{{}, imported.runs})) << text;
  }
  EXPECT_GT(read, 5000);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace temper
