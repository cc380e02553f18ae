// SPDX-License-Identifier: Apache-2.0
// temper study: the whole workflow for one model. Every precision is calibrated on one part of the data, built, evaluated
// on the other part and timed beside FP32.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/log.h"
#include "bench/bench_engine.h"
#include "build/precision.h"
#include "cli/calibrate_auto.h"
#include "cli/data_flags.h"
#include "cli/mixed.h"
#include "cli/side_by_side.h"
#include "cli/verb.h"
#include "data/sample.h"

namespace temper::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string model;
  ModelFlags flags;
  DataFlags data_flags;
  std::string data, output, max_drop, metric, method = "entropy", raise_to, classes, duration = "6s";
  int64_t batch = 0, samples = 0, calibration_samples = 0;
  uint64_t seed = 0;
};

// One precision and what is known of it.
struct Row {
  std::string precision, plan;
  std::shared_ptr<const Engine> engine;
  std::optional<Evaluation> evaluation;  // beside FP32; of FP32 itself only the truth
  std::optional<Paired> paired;          // FP32 first
  double latency_ms = 0;
  int64_t plan_bytes = 0, memory_bytes = 0;
  std::optional<double> drop;
};

struct Study {
  Metric metric = Metric::snr;
  std::optional<double> max_drop;
  int64_t calibration = 0, evaluation = 0, duplicates = 0, batch = 1;
  std::vector<Row> rows;  // fp32 first
  std::optional<MixedSearch> mixed;
  std::vector<std::string> notes;
};

std::vector<std::string> precisions_of(const std::string& text) {
  std::vector<std::string> list{"fp32"};  // what the others are compared with
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string name = text.substr(at, end - at);
    if (name.empty()) fail(ErrorKind::usage, "--precision needs names with commas between them, like fp32,int8, not '", text, "'");
    if (std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
    at = end + 1;
  }
  return list;
}

// Shapes as --shapes takes them, so that the command recorded in the plan builds it again.
std::vector<std::string> shape_flags(const std::map<std::string, ShapeRange>& shapes) {
  const auto text = [](const Dims& dims) {
    std::string out;
    for (int64_t d : dims) out += concat(out.empty() ? "" : "x", d);
    return out;
  };
  std::vector<std::string> flags;
  for (const auto& [name, range] : shapes) flags.push_back(concat(name, "=", range.min == range.max ? text(range.opt) : concat(text(range.min), ":", text(range.opt), ":", text(range.max))));
  return flags;
}

struct Parts {
  std::vector<int64_t> calibration, evaluation;
  int64_t duplicates = 0;
};
// Half of the samples, at most 500, are calibrated on; an evaluation sample with the content of one of them is left out.
Parts split(const Dataset& data, const Options& options) {
  const auto samples = samples_of(data, options.data, options.samples, options.seed);
  const int64_t count = int64_t(samples.size());
  const int64_t calibration = options.calibration_samples ? options.calibration_samples : std::min<int64_t>(count / 2, 500);
  if (calibration < 1 || calibration >= count)
    fail(ErrorKind::usage, count, " samples cannot be split into ", calibration, " to calibrate on and the rest to evaluate; give more data, or fewer --calibration-samples");
  const auto places = choose_samples(count, calibration, options.seed + 2);
  Parts parts;
  std::unordered_set<uint64_t> known;
  for (int64_t place : places) {
    parts.calibration.push_back(samples[size_t(place)]);
    known.insert(data.batch(samples[size_t(place)], 1).hashes.at(0));
  }
  for (int64_t i = 0; i < count; ++i) {
    if (std::binary_search(places.begin(), places.end(), i)) continue;
    if (known.contains(data.batch(samples[size_t(i)], 1).hashes.at(0))) ++parts.duplicates;
    else parts.evaluation.push_back(samples[size_t(i)]);
  }
  if (parts.evaluation.empty()) fail(ErrorKind::usage, "every sample to evaluate on has the content of one that is calibrated on; give samples that differ");
  return parts;
}

std::shared_ptr<const Engine> build(const Options& options, ModelFlags flags, const std::string& precision, const std::string& ranges, const KeptNodes& keep, const Context& context) {
  flags.precision = precision;
  flags.calibration = precision == "int8" ? ranges : "";
  if (precision != "int8") flags.keep_first = flags.keep_last = false, flags.keep_fp32.clear(), flags.keep_bf16.clear();
  for (const auto& [names, dtype] : {std::pair{&flags.keep_fp32, DType::f32}, std::pair{&flags.keep_bf16, DType::bf16}})
    if (const std::string more = kept_in(keep, dtype); !more.empty()) *names += concat(names->empty() ? "" : ",", more);
  BuildOptions build = build_options(flags, options.model, context);
  build.placement.keep_nodes.insert(keep.begin(), keep.end());  // names with commas in them, too
  build.batch_buckets = false;
  Progress progress(context);
  build.progress = [&](const std::string& text) { progress.show(concat(precision, ": ", text)); };
  return build_engine(options.model, build);
}

Table study_table(const Study& study) {
  Table table{{{"precision", false}, {"top-1"}, {"95 % interval"}, {"agreement"}, {"SNR"}, {"latency"}, {"items/s"}, {"beside fp32"}, {"verdict", false}, {"plan"}, {"memory"}, {"drop"}, {"budget", false}}, {}};
  for (const Row& row : study.rows) {
    const Evaluation* e = row.evaluation ? &*row.evaluation : nullptr;
    const auto interval = e && e->accuracy ? e->accuracy->top1_interval() : Interval{};
    table.rows.push_back({row.precision, e && e->accuracy ? percent_text(e->accuracy->top1_rate()) : "n/a", e && e->accuracy ? percent_text(interval.low) + " to " + percent_text(interval.high) : "n/a",
                          e && e->agreement ? percent_text(e->agreement->rate()) : "n/a", e && !e->differences.empty() ? decibel_text(-10 * std::log10(worst_noise_share(*e))) : "n/a",
                          format_number(row.latency_ms) + " ms", format_number(1e3 * double(study.batch) / row.latency_ms),
                          row.paired ? concat(format_number(row.paired->ratio), "x (", format_number(row.paired->interval.low), " to ", format_number(row.paired->interval.high), ")") : "1",
                          row.paired ? std::string(name_of(row.paired->verdict)) : "", format_bytes(double(row.plan_bytes)), row.memory_bytes ? format_bytes(double(row.memory_bytes)) : "n/a",
                          row.drop ? drop_text(study.metric, *row.drop) : "n/a", !row.drop || !study.max_drop ? "" : *row.drop <= *study.max_drop ? "within" : "OVER"});
  }
  return table;
}

Json study_json(const Study& study, const Options& options) {
  Json json{{"schema", "temper.study/1"}, {"model", options.model}, {"data", options.data}, {"seed", options.seed}, {"calibration_samples", study.calibration}, {"evaluation_samples", study.evaluation},
            {"duplicates_left_out", study.duplicates}, {"batch", study.batch}, {"metric", name_of(study.metric)}, {"max_drop", study.max_drop ? Json(*study.max_drop) : Json(nullptr)},
            {"notes", study.notes}, {"precisions", Json::array()}, {"mixed", study.mixed ? json_of(*study.mixed) : Json(nullptr)}};
  for (const Row& row : study.rows)
    json["precisions"].push_back({{"precision", row.precision}, {"plan", row.plan}, {"placeholder", row.engine->info().placeholder}, {"threads", row.engine->threads()}, {"latency_ms", row.latency_ms},
                                  {"throughput_per_s", 1e3 * double(study.batch) / row.latency_ms}, {"plan_bytes", row.plan_bytes}, {"memory_bytes", row.memory_bytes ? Json(row.memory_bytes) : Json(nullptr)},
                                  {"drop", row.drop ? Json(*row.drop) : Json(nullptr)}, {"answers", row.evaluation ? json_of(*row.evaluation) : Json(nullptr)},
                                  {"speed", row.paired ? json_of(*row.paired) : Json(nullptr)}});
  return json;
}

// The fastest that keeps the budget, in a line.
std::string study_verdict(const Study& study) {
  const Row* best = &study.rows.front();
  for (const Row& row : study.rows) {
    const bool allowed = !study.max_drop || (row.drop && *row.drop <= *study.max_drop);
    if (row.paired && row.paired->verdict == Verdict::faster && allowed && row.latency_ms < best->latency_ms) best = &row;
  }
  if (best == &study.rows.front()) return study.rows.size() > 1 ? "verdict: fp32; nothing else is faster within the budget" : "verdict: only fp32 was asked for";
  return concat("verdict: ", best->precision, ", ", format_number(best->paired->ratio), "x as fast as fp32", best->drop ? concat(", drop by ", name_of(study.metric), " ", drop_text(study.metric, *best->drop)) : "");
}

void measure_rows(Study& study, const Options& options, const std::vector<Dims>& shapes, const Context& context) {
  const double seconds = seconds_of(options.duration);
  Row& base = study.rows.front();
  std::vector<std::shared_ptr<const Engine>> engines;
  for (const Row& row : study.rows) engines.push_back(row.engine);
  if (engines.size() == 1) {
    TimerOptions timer;
    timer.max_seconds = seconds;
    base.latency_ms = bench_engine(base.engine, shapes, timer).latency.median.value();
    return;
  }
  const auto turns = time_side_by_side(engines, shapes, {seconds * double(engines.size() - 1), "timing all in turns"}, context);
  base.latency_ms = median(turns[0].a_ms);
  for (size_t i = 1; i < study.rows.size(); ++i) {
    study.rows[i].paired = turns[i - 1];
    study.rows[i].latency_ms = median(turns[i - 1].b_ms);
  }
}

void evaluate_rows(Study& study, const EvaluationData& what, const std::optional<Metric>& metric, const Context& context) {
  std::vector<std::shared_ptr<const Engine>> engines;
  for (size_t i = 1; i < study.rows.size(); ++i) engines.push_back(study.rows[i].engine);
  if (engines.empty()) engines.push_back(study.rows[0].engine);
  const auto results = evaluate_engines(what, study.rows[0].engine, engines, context);
  Evaluation own;
  own.accuracy = results[0].reference_accuracy;
  study.rows[0].evaluation = own;
  study.metric = metric.value_or(default_metric(results[0]));
  for (size_t i = 1; i < study.rows.size(); ++i) {
    study.rows[i].evaluation = results[i - 1];
    study.rows[i].drop = drop_of(results[i - 1], study.metric);
  }
}

void run_study(const Options& options, Context& context) {
  if (is_plan(options.model)) fail(ErrorKind::usage, "'", options.model, "' is a plan; a study builds its own from the ONNX model");
  Study study;
  Budget budget;
  if (!options.metric.empty()) budget.metric = parse_metric(options.metric);
  budget.bf16 = raises_to_bf16(options.raise_to, options.flags.device);
  if (!options.max_drop.empty()) study.max_drop = budget.max_drop = share_of("--max-drop", options.max_drop);
  if (options.method != "auto") Method::parse(options.method);
  const auto precisions = precisions_of(options.flags.precision);
  for (const std::string& precision : precisions) {
    BuildOptions asked;
    asked.device = options.flags.device;
    asked.precision = precision;
    if (precision == "int8") asked.calibration = "of this study";
    check_precision(asked);
  }
  const std::string stem = options.output + "/" + std::filesystem::path(options.model).stem().string();

  const ImportedModel model = import_onnx(options.model);
  const Dataset data = open_dataset(options.data, input_specs(model.graph), options.data_flags.options());
  const Parts parts = split(data, options);
  study.calibration = int64_t(parts.calibration.size());
  study.evaluation = int64_t(parts.evaluation.size());
  study.duplicates = parts.duplicates;
  check_metric(budget.metric, study.max_drop, model.graph, data, options.classes, study.evaluation);
  if (options.method == "auto") hold_apart(parts.calibration, options.seed);  // refused now, if it must be
  log(LogLevel::info, data.text(), ": ", study.calibration, " to calibrate on, ", study.evaluation, " to evaluate", parts.duplicates ? concat(", ", parts.duplicates, " left out as copies") : "");
  if (parts.duplicates) study.notes.push_back(concat(parts.duplicates, " samples with the content of a calibrated one were not evaluated"));

  std::error_code error;
  std::filesystem::create_directories(options.output, error);
  if (error) fail(ErrorKind::machine, "cannot create the folder '", options.output, "': ", error.message());
  const int64_t fixed = fixed_batch(model.graph, data);
  if (fixed && options.batch && options.batch != fixed) fail(ErrorKind::usage, "the model takes batches of ", fixed, ", not of ", options.batch, "; leave --batch out");
  study.batch = fixed ? fixed : options.batch ? options.batch : 1;
  const EvaluationData evaluated{data, parts.evaluation, {study.batch, fixed ? fixed : 1}, options.classes};
  ModelFlags flags = options.flags;
  flags.shapes = shape_flags(shapes_of_data(model.graph, data, study.batch));

  std::string ranges_path;
  for (const std::string& precision : precisions) {
    if (!is_terminal()) log(LogLevel::info, "building ", precision);
    Row row;
    row.precision = precision;
    KeptNodes keep;
    if (precision == "int8") {
      const BuildOptions plain = build_options(options.flags, options.model, context);
      const Ranges ranges = calibrate_on(model, data, parts.calibration, options.method, {0, options.seed}, plain, context);
      for (const std::string& note : ranges.notes) study.notes.push_back(note), log(note.starts_with("auto chose") ? LogLevel::info : LogLevel::warning, note);
      save_ranges(ranges_path = options.output + "/ranges.json", ranges);
      if (study.max_drop) {
        study.mixed = search_mixed(model.graph, ranges, data, parts.calibration, options.classes, budget, plain, context);
        keep = study.mixed->search.keep;
        // What each layer's time is in int8: of the model with all of them in it.
        row.engine = build(options, flags, precision, ranges_path, {}, context);
        study.mixed->saved_ms = saved_times(*study.rows.front().engine, *row.engine);
      }
    }
    if (!row.engine || !keep.empty()) row.engine = build(options, flags, precision, ranges_path, keep, context);
    row.plan = concat(stem, ".", precision, ".plan");
    save_engine(*row.engine, row.plan);
    row.plan_bytes = int64_t(std::filesystem::file_size(row.plan));
    study.rows.push_back(std::move(row));
  }
  const auto shapes = shapes_for_batch(*study.rows.front().engine, study.batch);
  evaluate_rows(study, evaluated, budget.metric, context);
  for (Row& row : study.rows) row.memory_bytes = running_bytes(*row.engine, shapes);
  measure_rows(study, options, shapes, context);

  const Table table = study_table(study);
  std::string text = concat("# ", std::filesystem::path(options.model).filename().string(), "\n\n", markdown_table(table), "\n", study_verdict(study), "\n");
  if (study.mixed) text += concat("\n", text_of(*study.mixed), "\n\n", markdown_table(table_of(*study.mixed)));
  write_file_atomically(options.output + "/study.json", study_json(study, options).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  write_file_atomically(options.output + "/study.md", text);
  for (const Row& row : study.rows)
    if (row.drop && study.max_drop && *row.drop > *study.max_drop) context.exit_code = int(ErrorKind::check_failed);
  if (context.json) {
    std::printf("%s\n", study_json(study, options).dump(2, ' ', false, Json::error_handler_t::replace).c_str());
    return;
  }
  if (study.mixed) std::printf("%s\n%s\n\n", terminal_table(table_of(*study.mixed)).c_str(), text_of(*study.mixed).c_str());
  std::fputs(terminal_table(table).c_str(), stdout);
  for (const Row& row : study.rows)
    if (row.evaluation && row.evaluation->mcnemar) std::printf("%s beside fp32: %s\n", row.precision.c_str(), mcnemar_text(*row.evaluation->mcnemar).c_str());
  std::printf("batch %lld, %d threads; %s\n", static_cast<long long>(study.batch), study.rows.front().engine->threads(), study_verdict(study).c_str());
}

}  // namespace

void add_study(CLI::App& verb, Context& context) {
  auto options = std::make_shared<Options>();
  options->flags.precision = "fp32,int8";
  verb.add_option("model", options->model, "an ONNX model")->required();
  verb.add_option("--data", options->data, "samples: a part calibrates, the rest evaluates; with labels for the truth")->required();
  verb.add_option("-o,--output", options->output, "the folder for plans, ranges.json, study.json and study.md")->required();
  verb.add_option("--precision", options->flags.precision, "of fp32, bf16 and int8, separated by commas; fp32 is always there to compare with")->capture_default_str();
  add_device_flags(verb, options->flags);
  add_keep_flags(verb, options->flags);
  add_tuning_flags(verb, options->flags);
  verb.add_option("--max-drop", options->max_drop, "what int8 may lose, like 0.5%: layers go back to bf16 or fp32 until it holds; exit code 1 where a precision loses more on the evaluation part");
  verb.add_option("--metric", options->metric, "of the drop: top1 (the default with labels), agreement (of a classifier without), cosine (1 - cosine), snr (noise / signal)");
  verb.add_option("--raise-to", options->raise_to, "what layers go back to under --max-drop: bf16 (fp32 where that loses too much) or fp32; bf16 where the CPU has it, unless given");
  verb.add_option("--method", options->method, "of calibration: entropy, minmax, percentile[:99.99], mse or auto")->capture_default_str();
  verb.add_option("--samples", options->samples, "how many of the data, chosen by the seed; all of them unless given")->check(whole_number(1));
  verb.add_option("--calibration-samples", options->calibration_samples, "how many of those calibrate; half of them, at most 500, unless given")->check(whole_number(1));
  verb.add_option("--seed", options->seed, "of the choice and the split of samples")->capture_default_str();
  verb.add_option("--batch", options->batch, "that is built for, evaluated and timed; 1, or the model's own, unless given")->check(whole_number(1));
  verb.add_option("--duration", options->duration, "longest time of timing, per precision")->capture_default_str();
  verb.add_option("--output-name", options->classes, "the output that holds the classes, where there are several; of a sequence, always");
  options->data_flags.add_to(verb);
  verb.callback([options, &context] { run_study(*options, context); });
}

}  // namespace temper::cli
