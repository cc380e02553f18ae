// SPDX-License-Identifier: Apache-2.0
#include "interop/trtexec_import.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "interop/trtexec_check.h"
#include "interop/trtexec_command.h"
#include "interop/trtexec_semantics.h"

namespace temper {

namespace {

Latency stated_latency(const TrtexecStats& stats) {
  Latency latency;
  latency.min = stats.min;
  latency.max = stats.max;
  latency.mean = stats.mean;
  latency.median = stats.median;
  for (const auto& [percent, value] : stats.percentiles)
    for (auto [field, p] : {std::pair{&latency.p90, 90.0}, {&latency.p95, 95.0}, {&latency.p99, 99.0}})
      if (percent == p && !*field) *field = value;
  return latency;
}

// The text's numbers stay; the samples give what it does not say.
void fill(std::optional<Latency>& latency, const std::vector<double>& ms) {
  const Latency found = latency_of(ms);
  if (!latency) latency.emplace();
  for (const auto field : {&Latency::median, &Latency::mean, &Latency::min, &Latency::max, &Latency::stddev,
                           &Latency::p90, &Latency::p95, &Latency::p99})
    if (!((*latency).*field)) (*latency).*field = found.*field;
  for (const auto field :
       {&Latency::median_ci95, &Latency::mean_ci95, &Latency::p90_ci95, &Latency::p95_ci95, &Latency::p99_ci95})
    (*latency).*field = found.*field;
}

const std::pair<const char*, double> kPercentiles[] = {{"p90", 90}, {"p95", 95}, {"p99", 99}};
std::optional<double>& percentile_of(Latency& latency, double percent) {
  return percent == 90 ? latency.p90 : percent == 95 ? latency.p95 : latency.p99;
}

// Why a percentile of the text is not to be relied on; empty where it may be.
std::string doubt(double percent, const TrtexecChecks& checks) {
  const int needed = samples_needed(percent / 100);
  if (!checks.queries)
    return checks.about_queries && *checks.about_queries > 2 * needed ? "" : "the log does not say of how many queries";
  if (trtexec_percentile_excludes(percent, *checks.queries) == 0) return concat("max of ", *checks.queries);
  return *checks.queries < needed ? concat("of ", *checks.queries, " queries (needs ≥ ", needed, ")") : "";
}

void note_latency(BenchRun& run, const TrtexecRun& log, const TrtexecChecks& checks) {
  Latency& l = run.latency;
  const std::pair<const char*, const std::optional<double>*> fields[] = {
      {"median", &l.median}, {"mean", &l.mean}, {"min", &l.min}, {"max", &l.max}, {"stddev", &l.stddev}};
  for (const auto& [name, value] : fields)
    if (!*value) run.notes[concat("latency_ms.", name)] = kSilent;
  for (const auto& [name, percent] : kPercentiles) {
    const std::string why = percentile_of(l, percent) ? doubt(percent, checks) : kSilent;
    if (!why.empty()) run.notes[concat("latency_ms.", name)] = why;
  }
  run.notes["latency_ms.median_ci95"] = "a summary holds no samples";
  std::string others;
  if (log.latency)
    for (const auto& [percent, value] : log.latency->percentiles)
      if (percent != 90 && percent != 95 && percent != 99)
        others += concat(others.empty() ? "" : ", ", percent, "% = ", value, " ms");
  if (!others.empty()) run.notes["latency_ms"] = "percentiles that have no field: " + others;
}

void set_counts(BenchRun& run, const TrtexecRun& log, const TrtexecChecks& checks, const TrtexecSemantics& meaning) {
  run.samples = checks.queries;
  if (checks.queries_derived) run.notes["samples"] = "follows from the throughput, the time and the total GPU time";
  else if (!checks.queries)
    run.notes["samples"] = checks.about_queries
                               ? concat("about ", int64_t(std::min(1e15, *checks.about_queries)), ": throughput × time")
                               : kSilent;
  run.warmup_runs = log.warmup_queries;
  // 7.x counts none where the batch is explicit; an implicit batch counts items.
  if (log.multi_line && log.warmup_queries == 0) run.warmup_runs.reset();
  if (run.warmup_runs && meaning.implicit_batch.value_or(1) > 1)
    run.warmup_runs = *run.warmup_runs / *meaning.implicit_batch;
  if (!run.warmup_runs) run.notes["warmup_runs"] = kSilent;

  const auto& from = *run.imported;
  if (!run.batch) {
    run.notes["throughput_per_s"] = "the log counts queries, and not how many items each has: --set batch=N";
  } else if (meaning.implicit_batch && from.throughput_qps) {
    run.throughput_per_s = from.throughput_qps;
    run.notes["throughput_per_s"] = "as in the log, which counts items where the batch is implicit";
  } else if (from.throughput_qps && *from.throughput_qps > 0) {
    run.throughput_per_s = *from.throughput_qps * double(*run.batch);
    run.notes["throughput_per_s"] = "queries per second × batch";
  } else if (checks.queries && from.walltime_s && *from.walltime_s > 0) {
    run.throughput_per_s = double(*checks.queries) * double(*run.batch) / *from.walltime_s;
    run.notes["throughput_per_s"] = "queries × batch ÷ time";
  } else {
    run.notes["throughput_per_s"] = kSilent;
  }
  if (run.throughput_per_s && !std::isfinite(*run.throughput_per_s)) {
    run.throughput_per_s.reset();
    run.notes["throughput_per_s"] = "too large to be a number";
  }
}

void set_build(BenchRun& run, const TrtexecRun& log) {
  run.build_s = log.build_s;
  if (!run.build_s)
    run.notes["build_s"] = log.deserialize_s ? concat("the engine was loaded, in ", *log.deserialize_s, " s") : kSilent;
  if (log.engine_mib && *log.engine_mib < 1e9) {
    run.plan_bytes = int64_t(std::llround(*log.engine_mib * 1048576));
    run.notes["plan_bytes"] = concat("from ", *log.engine_mib, " MiB");
  } else {
    run.notes["plan_bytes"] = kSilent;
  }
  run.notes["peak_host_bytes"] = kSilent;
  run.notes["peak_device_bytes"] = log.build_peak_gpu_mib ? concat("the log does not say for running; building took ",
                                                                   *log.build_peak_gpu_mib, " MiB")
                                                          : kSilent;
  run.notes["first_run_ms"] = "trtexec does not time it";
  run.notes["model_sha256"] = kSilent;
  run.notes["threads"] = kSilent;
  for (const char* name : {"source_sha256", "load_by_others", "workspace_bytes"}) run.notes[name] = kSilent;
  for (const char* name : {"outliers", "drift", "samples_ms"})
    run.notes[name] = "only a summary: import the file of --exportTimes with the log";
}

}  // namespace

BenchRun result_of(const TrtexecRun& log, const std::string& source, const std::map<std::string, std::string>& known) {
  const TrtexecSemantics meaning = semantics_of(log, known);
  const TrtexecChecks checks = check_numbers(log, meaning.implicit_batch.value_or(1));
  BenchRun run;
  ImportedRun& from = run.imported.emplace();
  from.source = source;
  from.tensorrt_version = meaning.version;
  run.command = log.command;
  if (!run.command) run.notes["command"] = kSilent;
  from.device_name = meaning.device_name;
  from.throughput_qps = log.throughput_qps;
  from.walltime_s = log.walltime_s;
  const std::pair<std::optional<Latency>*, const std::optional<TrtexecStats>*> parts[] = {
      {&from.gpu, &log.gpu},
      {&from.h2d, &log.h2d},
      {&from.d2h, &log.d2h},
      {&from.enqueue, &log.enqueue},
      {&from.end_to_end, &log.end_to_end}};
  for (const auto& [to, stats] : parts)
    if (*stats) *to = stated_latency(**stats);
  from.spin_wait = meaning.spin_wait;
  run.streams = meaning.streams;
  if (!run.streams) run.notes["streams"] = kSilent;

  set_build(run, log);
  run.model = meaning.model.value_or(source);
  run.model_sha256 = meaning.model_sha256;
  run.device = meaning.device;
  run.backend = log.temper ? meaning.device : "tensorrt";
  run.precision = meaning.precision;
  run.batch = meaning.batch;
  run.shapes = meaning.shapes;
  run.threads.reset();
  run.transfers = meaning.transfers;
  run.cuda_graph = meaning.cuda_graph;
  if (log.latency) run.latency = stated_latency(*log.latency);
  for (const auto& [field, why] : meaning.notes) run.notes[field] = why;
  if (run.model_sha256) run.notes.erase("model_sha256");
  note_latency(run, log, checks);
  set_counts(run, log, checks, meaning);

  std::vector<std::string> failures = checks.failures;
  failures.insert(failures.end(), meaning.contradictions.begin(), meaning.contradictions.end());
  if (log.status == TrtexecStatus::failed)
    failures.push_back(concat("trtexec ended with FAILED", log.errors.empty() ? "" : ": " + log.errors[0]));
  if (checks.done > 0 || !failures.empty()) from.consistent = failures.empty();
  from.warnings = failures;
  from.warnings.insert(from.warnings.end(), log.problems.begin(), log.problems.end());
  if (log.status == TrtexecStatus::running)
    from.warnings.push_back("the log ends before trtexec says PASSED or FAILED");
  if (meaning.streams.value_or(1) > 1)
    from.warnings.push_back("several streams ran at a time: latencies include waiting for each other");
  from.warnings.insert(from.warnings.end(), log.warnings.begin(), log.warnings.end());
  return run;
}

void join_times(BenchRun& run, const TrtexecRun& log, const TrtexecTimes& times) {
  const size_t all = times.latency.size();
  size_t skip = 0;
  const bool old = run.imported->tensorrt_version && version_below(*run.imported->tensorrt_version, 8, 5);
  const bool may_hold_warmup = old || !run.imported->tensorrt_version;
  if (run.samples && size_t(*run.samples) != all) {
    if (size_t(*run.samples) > all || !may_hold_warmup)
      fail(ErrorKind::bad_file, "the file of times holds ", all, " queries, but the log says ", *run.samples,
           ": they are of different runs");
    skip = all - size_t(*run.samples);
  } else if (!run.samples && old && run.warmup_runs && size_t(*run.warmup_runs) < all) {
    skip = size_t(*run.warmup_runs);
  } else if (!run.samples && may_hold_warmup && log.has_summary()) {
    run.notes["samples_ms"] =
        "may hold the warm-up: exports up to 8.4 do, and the log does not say how many queries that was";
  }
  auto timed = [&](const std::vector<double>& ms) {
    return std::vector<double>(ms.begin() + std::ptrdiff_t(skip), ms.end());
  };
  auto compare = [&](const char* name, const std::optional<double>& text, const std::vector<double>& ms) {
    const double found = median(timed(ms));
    // Both have six digits; near the middle the text and the file may round differently.
    if (text && std::abs(*text - found) > 1e-4 * std::max(*text, found))
      fail(ErrorKind::bad_file, "the median ", name, " is ", found, " ms in the file of times, but ", *text,
           " ms in the log: they are of different runs");
  };
  compare("latency", run.latency.median, times.latency);
  if (!times.temper)
    compare("GPU compute time", run.imported->gpu ? run.imported->gpu->median : std::nullopt, times.gpu);

  std::optional<Latency> latency = run.latency;
  const Latency text = run.latency;
  fill(latency, timed(times.latency));
  run.latency = *latency;
  for (const char* name : {"median", "mean", "min", "max", "stddev", "median_ci95"})
    run.notes.erase(concat("latency_ms.", name));
  if (!run.latency.median_ci95) run.notes["latency_ms.median_ci95"] = why_no_median_interval(timed(times.latency));
  run.samples_ms = timed(times.latency);
  run.samples = int64_t(run.samples_ms->size());
  set_series(run);
  TrtexecChecks counted;
  counted.queries = run.samples;
  for (const auto& [name, percent] : kPercentiles) {
    const std::string field = concat("latency_ms.", name);
    const bool of_text = (percent == 90 ? text.p90 : percent == 95 ? text.p95 : text.p99).has_value();
    const std::string why = of_text ? doubt(percent, counted)
                            : percentile_of(run.latency, percent)
                                ? ""
                                : reliable_percentile(*run.samples_ms, percent / 100).reason;
    run.notes.erase(field);
    if (!why.empty()) run.notes[field] = why;
  }
  run.notes.erase("samples");
  if (!run.notes["samples_ms"].starts_with("may hold")) run.notes.erase("samples_ms");
  if (skip) run.notes["samples_ms"] = concat("without the ", skip, " queries of the warm-up");
  ImportedRun& from = *run.imported;
  // Temper's own hold no times of copies, and on a CPU no device's.
  if (!times.temper || log.gpu) fill(from.gpu, timed(times.gpu));
  if (!times.temper) fill(from.h2d, timed(times.h2d));
  if (!times.temper) fill(from.d2h, timed(times.d2h));
  if (times.end_to_end) fill(from.end_to_end, timed(*times.end_to_end));
  if (times.enqueue && !log.has_summary()) fill(from.enqueue, timed(*times.enqueue));
  if (!run.transfers && !times.temper) {
    run.transfers = *from.h2d->max == 0 && *from.d2h->max == 0 ? "excluded" : "included";
    run.notes["transfers"] = "from the times of the transfers";
  }
}

namespace {

std::string base_name(std::string_view path) { return std::string(path.substr(path.find_last_of("/\\") + 1)); }

// Without a measurement: why.
std::string reason(const TrtexecRun& log) {
  if (log.status == TrtexecStatus::failed) {
    // Errors that follow from the cause, or only print a node, explain nothing, unless there is nothing else.
    std::vector<std::string> causes;
    for (const std::string& error : log.errors) {
      bool follows = false;
      for (const char* part : {"--- Begin node", "--- End node", "Failed to parse onnx file", "Parsing model failed",
                               "Failed to create engine", "Engine could not be created", "Building engine failed",
                               "Engine set up failed", "Inference set up failed"})
        follows |= error.find(part) != std::string::npos;
      if (!follows) causes.push_back(error);
    }
    if (causes.empty()) causes = log.errors;
    std::string errors;
    for (size_t i = 0; i < std::min<size_t>(3, causes.size()); ++i) errors += concat(i ? "; " : ": ", causes[i]);
    return "trtexec failed" + (errors.empty() ? ", and the log does not say why" : errors);
  }
  if (log.status == TrtexecStatus::running || log.status == TrtexecStatus::unknown)
    return concat("the log ends before the performance summary",
                  log.errors.empty() ? "" : concat("; its first error: ", log.errors[0]));
  return "the engine was built but not measured: no performance summary";
}

bool looks_like_times(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == text.npos || text[first] != '[') return false;
  const size_t second = text.find_first_not_of(" \t\r\n", first + 1);
  return second != text.npos && (text[second] == '{' || text[second] == ']');
}

}  // namespace

TrtexecImport import_trtexec(const std::vector<TrtexecFile>& files, const std::map<std::string, std::string>& known) {
  TrtexecImport result;
  struct Measured {
    TrtexecRun log;
    bool has_times = false;
  };
  std::vector<Measured> logs;  // beside result.runs
  std::vector<const TrtexecFile*> times;
  for (const TrtexecFile& file : files) {
    if (looks_like_times(file.text)) {
      times.push_back(&file);
      continue;
    }
    if (file.text.find_first_not_of(" \t\r\n") == std::string::npos)
      fail(ErrorKind::bad_file, file.path, ": the log is empty");
    std::vector<TrtexecRun> found =
        with_context([&] { return file.path; }, [&] { return read_trtexec_log(file.text); });
    if (found.empty())
      fail(ErrorKind::bad_file, file.path,
           ": no output of trtexec is in it: neither '&&&& RUNNING TensorRT.trtexec' (or Temper.trtexec) nor a "
           "performance summary");
    for (size_t i = 0; i < found.size(); ++i) {
      const std::string where = found.size() == 1 ? file.path : concat(file.path, ", run ", i + 1);
      if (!found[i].has_summary()) {
        result.left_out.push_back(concat(where, ": ", reason(found[i])));
        continue;
      }
      result.runs.push_back(with_context(
          [&] { return where; },
          [&] {
            return result_of(
                found[i],
                concat(found[i].temper ? concat("temper trtexec ", *found[i].temper, " log ") : "trtexec log ", where),
                known);
          }));
      logs.push_back({std::move(found[i])});
    }
  }
  for (const TrtexecFile* file : times)
    with_context(
        [&] { return file->path; },
        [&] {
          const TrtexecTimes read = read_trtexec_times(file->text);
          std::vector<size_t> of;
          for (size_t i = 0; i < logs.size(); ++i) {
            const auto exported = parse_trtexec_command(logs[i].log.command.value_or("")).value("--exportTimes");
            if (exported && base_name(*exported) == base_name(file->path)) of.push_back(i);
          }
          if (of.empty() && logs.size() == 1 && times.size() == 1) of.push_back(0);
          if (of.empty() && logs.empty()) {
            TrtexecRun of_times;
            if (read.temper) of_times.temper = "";
            BenchRun run = result_of(
                of_times, concat(read.temper ? "temper trtexec --exportTimes " : "trtexec --exportTimes ", file->path),
                known);
            join_times(run, {}, read);
            result.runs.push_back(std::move(run));
            return;
          }
          if (of.size() != 1)
            fail(ErrorKind::bad_file, of.empty() ? "no run" : "more than one run",
                 " of the logs says --exportTimes=", base_name(file->path),
                 ", so it is not known whose times these are; import it with the log of its run alone");
          if (logs[of[0]].has_times) fail(ErrorKind::bad_file, "its run has times already");
          join_times(result.runs[of[0]], logs[of[0]].log, read);
          logs[of[0]].has_times = true;
        });
  if (result.runs.empty()) {
    std::string why;
    for (size_t i = 0; i < std::min<size_t>(5, result.left_out.size()); ++i)
      why += concat(i ? "; " : "", result.left_out[i]);
    fail(ErrorKind::bad_file, why.empty() ? "no log was given" : why);
  }
  return result;
}

}  // namespace temper
