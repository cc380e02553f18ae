// SPDX-License-Identifier: Apache-2.0
#include "bench/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "base/error.h"
#include "bench/table.h"

namespace temper {

namespace {

template <class T>
std::string text_of(const std::optional<T>& value) {
  return value ? concat(*value) : "unknown";
}
std::string text_of(const std::optional<bool>& value) { return !value ? "unknown" : *value ? "yes" : "no"; }

std::string text_of(const std::map<std::string, std::vector<int64_t>>& shapes) {
  std::string text;
  for (const auto& [name, dims] : shapes) {
    text += concat(text.empty() ? "" : " ", name, "=");
    for (size_t i = 0; i < dims.size(); ++i) text += concat(i ? "x" : "", dims[i]);
  }
  return text.empty() ? "unknown" : text;
}

std::string device_of(const PlacedRun& placed) {
  const BenchRun& run = *placed.run;
  if (run.imported) return concat(run.device, " ", run.imported->device_name.value_or("of unknown make"));
  return concat(run.device, " ", placed.environment->cpu_model);
}

const std::optional<std::string>& root_hash(const BenchRun& run) {
  return run.source_sha256 ? run.source_sha256 : run.model_sha256;
}

// The key that runs which belong together share, but for the precision.
auto key_of(const BenchRun& run) {
  return std::tuple(run.batch, text_of(run.shapes), run.threads, run.streams, run.load, run.request_rate_per_s);
}

// The interval of the median, from order statistics at 99.5 %: of the samples, or of those that a summary keeps.
std::optional<Interval> interval_of(const BenchRun& run, std::string& from) {
  constexpr double kConfidence = 0.995;
  const Latency& l = run.latency;
  if (run.samples_ms) {
    from = "samples";
    return median_interval_in_order(*run.samples_ms, kConfidence);
  }
  const int64_t n = run.samples.value_or(0);
  if (!l.min || !l.max || n < 1) return std::nullopt;
  // The ranks that an interval of n samples would end at, as a fraction of them: a percentile beyond holds it as well.
  std::vector<double> ranks;
  for (int64_t i = 0; i < n && n <= 1000000; ++i) ranks.push_back(double(i + 1));
  const auto interval = median_interval(std::move(ranks), kConfidence);
  if (!interval) return std::nullopt;
  const double high = interval->high / double(n);
  const std::tuple<const char*, const std::optional<double>*, double> above[] = {
      {"p90", &l.p90, 0.90}, {"p95", &l.p95, 0.95}, {"p99", &l.p99, 0.99}};
  for (const auto& [name, value, p] : above)
    if (percentile_fit_for_verdict(run, name) && high <= p) {
      from = concat("the summary: its minimum and its ", std::string_view(name));
      return Interval{*l.min, **value};
    }
  from = "the summary: its minimum and maximum";
  return Interval{*l.min, *l.max};
}

}  // namespace

std::string label_of(const BenchRun& run) {
  std::string text = concat(run.precision.value_or("precision unknown"), ", batch ", text_of(run.batch));
  if (run.threads.value_or(0) > 0) text += concat(", ", *run.threads, *run.threads == 1 ? " thread" : " threads");
  if (run.streams.value_or(1) > 1) text += concat(", ", *run.streams, " streams");
  if (run.request_rate_per_s) text += concat(", ", format_number(*run.request_rate_per_s), " requests/s");
  return text;
}

Differences differences_of(const PlacedRun& a, const PlacedRun& b) {
  Differences result;
  auto same = [&](const char* what, const auto& of_a, const auto& of_b) {
    if (of_a != of_b) result.refusals.push_back(concat(what, ": ", of_a, " and ", of_b));
  };
  auto known = [&](const char* what, const auto& of_a, const auto& of_b) {
    if (!of_a && !of_b) result.warnings.push_back(concat(what, ": unknown on both sides"));
    else same(what, text_of(of_a), text_of(of_b));
  };
  const BenchRun &x = *a.run, &y = *b.run;
  same("device", device_of(a), device_of(b));
  if (x.shapes.empty() && y.shapes.empty()) result.warnings.push_back("shapes: unknown on both sides");
  else same("shapes", text_of(x.shapes), text_of(y.shapes));
  known("batch", x.batch, y.batch);
  if (x.device == "cpu" || y.device == "cpu") known("threads", x.threads, y.threads);
  known("streams", x.streams, y.streams);
  same("load", x.load, y.load);
  if (x.request_rate_per_s != y.request_rate_per_s) known("request rate", x.request_rate_per_s, y.request_rate_per_s);
  known("transfers", x.transfers, y.transfers);
  known("CUDA graph", x.cuda_graph, y.cuda_graph);
  const auto &of_x = root_hash(x), &of_y = root_hash(y);
  if (!of_x && !of_y)
    result.warnings.push_back("model: the hashes are unknown on both sides, so it may not be the same one");
  else if (of_x != of_y)
    result.refusals.push_back(concat("model: ", x.model, " (", text_of(of_x).substr(0, 12), ") and ", y.model, " (",
                                     text_of(of_y).substr(0, 12), ")"));
  for (const BenchRun* run : {&x, &y})
    if (run->notes.contains("precision") && !run->imported)
      result.warnings.push_back(concat(run->model, ": ", run->notes.at("precision")));
  return result;
}

std::vector<std::pair<size_t, size_t>> matching_runs(const BenchResult& a, const BenchResult& b) {
  if (a.runs.size() == 1 && b.runs.size() == 1) return {{0, 0}};
  std::vector<std::pair<size_t, size_t>> pairs;
  for (const bool by_precision : {true, false}) {
    std::vector<char> taken(b.runs.size());
    for (size_t i = 0; i < a.runs.size(); ++i)
      for (size_t j = 0; j < b.runs.size(); ++j) {
        if (taken[j] || key_of(a.runs[i]) != key_of(b.runs[j]) ||
            (by_precision && a.runs[i].precision != b.runs[j].precision))
          continue;
        taken[j] = true;
        pairs.emplace_back(i, j);
        break;
      }
    if (!pairs.empty()) return pairs;
  }
  auto list = [](const BenchResult& result) {
    std::string text;
    for (size_t i = 0; i < std::min<size_t>(result.runs.size(), 8); ++i)
      text += concat(i ? "; " : "", label_of(result.runs[i]), " (", text_of(result.runs[i].shapes), ")");
    if (result.runs.size() > 8) text += concat("; and ", result.runs.size() - 8, " more");
    return text.empty() ? std::string("no run") : text;
  };
  fail(ErrorKind::unsupported,
       "no run of the one has the shapes, batch, threads, streams and load of a run of the other. The first holds: ",
       list(a), ". The second holds: ", list(b));
}

Comparison compare_runs(const BenchRun& a, const BenchRun& b, double same) {
  for (const BenchRun* run : {&a, &b})
    if (!run->latency.median || !(*run->latency.median > 0))
      fail(ErrorKind::unsupported, "a run of ", run->model, " has no median latency to compare");
  Comparison result;
  result.ratio = *a.latency.median / *b.latency.median;
  std::string from_a, from_b;
  const auto of_a = interval_of(a, from_a), of_b = interval_of(b, from_b);
  result.from = from_a == from_b ? from_a : concat(from_a, "; ", from_b);
  if (of_a && of_b && of_b->low > 0) result.interval = Interval{of_a->low / of_b->high, of_a->high / of_b->low};
  for (const BenchRun* run : {&a, &b})
    if (const std::string unfit = unfit_for_verdict(*run); !unfit.empty()) {
      result.unfit = concat("no verdict can rest on ", run->model, ": ", unfit);
      break;
    }
  if (result.unfit.empty() && !result.interval) result.unfit = "too few samples for an interval";
  if (!result.unfit.empty()) {
    result.why = result.unfit;
    return result;
  }
  result.verdict = verdict_of(*result.interval, same);
  if (result.verdict != Verdict::unsure) return result;
  result.why = "the intervals do not tell the two apart";
  if (a.samples_ms && b.samples_ms) result.samples_factor = samples_factor(result.ratio, *result.interval, same);
  else result.why += "; a log holds a summary only, its times (--exportTimes) would say more";
  return result;
}

std::string fastest_threads(const std::vector<const BenchRun*>& runs) {
  const auto named = [](const BenchRun& run) {
    return concat(run.threads.value_or(0), run.threads == 1 ? " thread" : " threads");
  };
  const auto ms = [](const BenchRun* run) {
    return run->latency.median.value_or(std::numeric_limits<double>::infinity());
  };
  const BenchRun* best =
      *std::min_element(runs.begin(), runs.end(), [&](const BenchRun* a, const BenchRun* b) { return ms(a) < ms(b); });
  std::string slower, alike;
  for (const BenchRun* run : runs) {
    if (run == best) continue;
    const Comparison c = compare_runs(*run, *best);
    const std::string who = concat(named(*run), run->threads == 1 ? " takes " : " take ");
    const std::string range =
        c.interval ? concat(format_number(c.interval->low, 3), " to ", format_number(c.interval->high, 3)) : "";
    if (c.verdict == Verdict::faster)
      slower += concat(slower.empty() ? "" : ", ", who, format_number(c.ratio, 3), " times as long (", range, ")");
    else
      alike += concat(alike.empty() ? "" : "; ",
                      c.unfit.empty() ? concat(who, range, " times as long")
                                      : concat("of ", named(*run), " nothing can be said (", c.unfit, ")"));
  }
  if (slower.empty())
    return concat("no number of threads is shown to be the fastest: beside ", named(*best), ", ", alike);
  return concat(named(*best), " is the fastest: ", slower,
                alike.empty() ? "" : concat("; no difference is shown where ", alike));
}

std::string_view name_of(GateVerdict verdict) {
  return verdict == GateVerdict::pass ? "PASS" : verdict == GateVerdict::fail ? "FAIL" : "UNSURE";
}

Gate gate_of(const Comparison& comparison, double max_slowdown) {
  Gate gate;
  gate.slowdown = 1 / comparison.ratio - 1;
  if (comparison.interval && comparison.interval->low > 0)
    gate.interval = Interval{1 / comparison.interval->high - 1, 1 / comparison.interval->low - 1};
  gate.why = comparison.unfit;
  if (!gate.why.empty() || !gate.interval) return gate;
  if (gate.interval->low > max_slowdown) gate.verdict = GateVerdict::fail;
  else if (gate.interval->high <= max_slowdown) gate.verdict = GateVerdict::pass;
  if (gate.verdict != GateVerdict::unsure) return gate;
  gate.why = "the limit lies inside the interval";
  const double off = std::abs(gate.slowdown - max_slowdown), width = (gate.interval->high - gate.interval->low) / 2;
  gate.samples_factor = off > 0 ? std::max(1.0, width * width / (off * off)) : 1e9;
  return gate;
}

}  // namespace temper
