// SPDX-License-Identifier: Apache-2.0
// temper study: the whole workflow for one model. Every precision is calibrated on one part of the data, built,
// evaluated on the other part and timed beside FP32.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "bench/bench_engine.h"
#include "bench/explain_text.h"
#include "cli/calibrate_on.h"
#include "cli/json_text.h"
#include "cli/mixed.h"
#include "cli/outputs.h"
#include "cli/profiled.h"
#include "cli/side_by_side.h"
#include "cli/steps.h"
#include "cli/study_setup.h"
#include "cli/verb.h"
#include "optimize/precision.h"
#include "report/report.h"

namespace temper::cli {
namespace {

using Json = nlohmann::ordered_json;

bool file_is(const Json& file) {  // still what a step wrote
  const std::string path = file.at("path");
  return std::filesystem::exists(path) && sha256_of_file(path) == file.at("sha256").get<std::string>();
}
Json file_json(const std::string& path) {
  return {{"path", path}, {"sha256", sha256_of_file(path)}, {"bytes", std::filesystem::file_size(path)}};
}

Json calibrate_step(const StudySetup& setup) {
  const StudyOptions& o = setup.options;
  const BuildOptions plain = build_options(o.flags, o.model, setup.context);
  const Ranges ranges =
      calibrate_on(setup.model, setup.data, setup.parts.calibration, o.method, {0, o.seed}, plain, setup.context);
  save_ranges(setup.ranges_path(), ranges, o.force);
  return {{"file", file_json(setup.ranges_path())}, {"notes", ranges.notes}};
}

std::shared_ptr<const Engine> build(const StudySetup& setup, const std::string& precision, const KeptNodes& keep,
                                    const std::set<std::string>& doubted = {}) {
  ModelFlags flags = setup.flags;
  flags.precision = precision;
  flags.calibration = precision == "int8" ? setup.ranges_path() : "";
  if (precision != "int8") flags.keep_first = flags.keep_last = false, flags.keep_fp32.clear(), flags.keep_bf16.clear();
  keep_also(flags, keep);
  BuildOptions build = build_options(flags, setup.options.model, setup.context);
  build.placement.keep_nodes.insert(keep.begin(), keep.end());  // names with commas in them, too
  build.batch_buckets = false;
  build.doubted = doubted;
  Progress progress(setup.context);
  build.progress = [&](const std::string& text) { progress.show(concat(precision, ": ", text)); };
  return build_engine(setup.options.model, build);
}

// Which layers go back to a wider type, and what each of them costs. `fp32` is that plan's path.
Json search_step(const StudySetup& setup, const std::string& fp32) {
  const StudyOptions& o = setup.options;
  const Ranges ranges = load_ranges(setup.ranges_path());
  MixedSearch mixed = search_mixed(setup.model.graph, ranges, setup.data, setup.parts.calibration, o.classes,
                                   setup.budget, build_options(o.flags, o.model, setup.context), setup.context);
  // The time of each layer in int8, in the model that has all of them in int8.
  mixed.saved_ms = saved_times(
      [&](const std::set<std::string>& doubted) {
        return layer_times(doubted.empty() ? *Engine::load(fp32) : *build(setup, "fp32", {}, doubted));
      },
      [&](const std::set<std::string>& doubted) { return layer_times(*build(setup, "int8", {}, doubted)); });
  Json keep = Json::object();
  for (const auto& [layer, dtype] : mixed.search.keep) keep[layer] = dtype == DType::bf16 ? "bf16" : "fp32";
  return {{"keep", keep}, {"mixed", json_of(mixed)}, {"text", text_of(mixed)}, {"table", json_of(table_of(mixed))}};
}

Json build_step(const StudySetup& setup, const std::string& precision, const KeptNodes& keep) {
  if (!is_terminal()) log(LogLevel::info, "building ", precision);
  const auto engine = build(setup, precision, keep);
  const std::string path = concat(setup.stem, ".", precision, ".plan");
  save_engine(*engine, path, setup.options.force);
  return {{"file", file_json(path)},
          {"placeholder", engine->info().placeholder},
          {"threads", engine->threads()},
          {"build_s", engine->info().build_s},
          {"command", engine->info().command}};
}

std::vector<std::shared_ptr<const Engine>> load_all(const Json& builds) {
  std::vector<std::shared_ptr<const Engine>> engines;
  for (const Json& build : builds) engines.push_back(Engine::load(build.at("file").at("path")));
  return engines;
}

// The answers of every precision beside FP32; of FP32 itself only the truth.
Json evaluate_step(const StudySetup& setup, const Json& builds) {
  const EvaluationData what{
      setup.data, setup.parts.evaluation, {setup.batch, setup.fixed ? setup.fixed : 1}, setup.options.classes};
  const auto engines = load_all(builds);
  const std::vector<std::shared_ptr<const Engine>> tested(engines.begin() + (engines.size() > 1 ? 1 : 0),
                                                          engines.end());
  const auto results = evaluate_engines(what, engines[0], tested, setup.context);
  const Metric metric = setup.budget.metric.value_or(default_metric(results[0]));
  Evaluation own;
  own.samples = results[0].samples;
  own.accuracy = results[0].reference_accuracy;
  own.output = results[0].output;
  Json rows = Json::array({Json{{"answers", json_of(own)},
                                {"drop", nullptr},
                                {"holds", true},
                                {"snr", "n/a"},
                                {"cosine", nullptr},
                                {"far", ""},
                                {"mcnemar", nullptr}}});
  for (size_t i = 0; i + 1 < engines.size(); ++i) {
    const Evaluation& e = results[i];
    const Judgement judged = judge(e, metric, setup.max_drop);
    rows.push_back({{"answers", json_of(e)},
                    {"drop", judged.drop},
                    {"drop_text", drop_text(judged, setup.max_drop)},
                    {"holds", judged.holds},
                    {"snr", decibel_text(judged.snr_db())},
                    {"cosine", judged.cosine},
                    {"far", judged.holds ? "" : far_text(judged)},
                    {"mcnemar", e.mcnemar ? Json(mcnemar_text(*e.mcnemar)) : Json(nullptr)}});
  }
  return {{"metric", name_of(metric)}, {"rows", rows}};
}

// All precisions timed in turns in this process; the samples are a result file of their own.
Json speed_step(const StudySetup& setup, const Json& builds) {
  const auto engines = load_all(builds);
  const auto shapes = shapes_for_batch(*engines[0], setup.batch);
  const EnvironmentSampler sampler(engines[0]->threads());
  const double seconds = seconds_of(setup.options.duration);
  BenchResult result;
  Json rows = Json::array();
  if (engines.size() == 1) {
    TimerOptions timer;
    timer.max_seconds = seconds;
    result.runs.push_back(bench_engine(engines[0], shapes, timer));
    rows.push_back({{"speed", nullptr}});
  } else {
    for (const auto& engine : engines) result.runs.push_back(describe_run(*engine, shapes));
    const Turns turns = time_side_by_side(engines, shapes,
                                          {seconds * double(engines.size() - 1), "timing all in turns"}, setup.context);
    for (size_t i = 0; i < engines.size(); ++i) {
      BenchRun& run = result.runs[i];
      Samples samples;
      samples.ms = turns.ms[i];
      samples.first_run_ms = turns.first_run_ms[i];
      samples.relative_error = relative_error_of_median(samples.ms);
      set_samples(run, samples);
      run.notes["samples"] = concat("taken in turns with the other precisions, ", turns.beside_first[0].ratios.size(),
                                    " rounds; ", run.notes["samples"]);
      run.notes["warmup_runs"] = "each turn began with a run that was not timed";
      run.notes["load_by_others"] = "the environment has it, for all precisions together";
      run.notes["peak_host_bytes"] = "all precisions ran in one process";
      rows.push_back({{"speed", i ? json_of(turns.beside_first[i - 1]) : Json(nullptr)}});
    }
  }
  for (size_t i = 0; i < engines.size(); ++i) {
    BenchRun& run = result.runs[i];
    run.model = builds[i].at("file").at("path");
    run.command = setup.context.command;
    run.plan_bytes = builds[i].at("file").at("bytes").get<int64_t>();
    run.build_s = builds[i].at("build_s").get<double>();
    const int64_t memory = running_bytes(*engines[i], shapes);
    rows[i]["latency_ms"] = run.latency.median.value();
    rows[i]["memory_bytes"] = memory ? Json(memory) : Json(nullptr);
  }
  result.environment = sampler.finish();
  const std::string path = setup.options.output + "/result.json";
  save_result(path, result, setup.options.force);
  return {{"file", file_json(path)}, {"rows", rows}};
}

// Where each precision's time goes, and why it is not faster.
Json explain_step(const StudySetup& setup, const Json& builds) {
  ProfileFlags flags;
  flags.batch = setup.batch;
  if (seconds_of(setup.options.duration) < 3) flags.duration = setup.options.duration;
  flags.timing_cache = setup.options.flags.timing_cache;
  Json files = Json::array();
  std::vector<Explanation> explanations;
  for (size_t i = 0; i < builds.size(); ++i) {
    const std::string plan_path = builds[i].at("file").at("path");
    const ProfiledPlan plan = [&] {
      Progress progress(setup.context);
      return profile_plan(plan_path, flags, progress);
    }();
    const std::string path = concat(setup.options.output, "/profile.", setup.precisions[i], ".json");
    write_file_atomically({path, FileKind::profile, setup.options.force}, json_text(json_of(plan)));
    files.push_back(file_json(path));
    explanations.push_back(explain(layers_of(plan.profile, plan.engine->info(), plan.peaks, plan_path)));
  }
  const ExplainedSet set = compare_engines(std::move(explanations));
  std::string text = set.engines.size() > 1 ? text_of(set, TextStyle::markdown) + "\n" : "";
  for (const Explanation& one : set.engines) text += text_of(one, TextStyle::markdown) + "\n";
  const std::string words = setup.options.output + "/explain.md", path = setup.options.output + "/explain.json";
  write_file_atomically({words, FileKind::markdown, setup.options.force}, text);
  write_file_atomically({path, FileKind::explanation, setup.options.force}, json_text(json_of(set)));
  files.push_back(file_json(path));
  return {{"text", file_json(words)}, {"files", files}};
}

std::string rate_text(const Json& answers, const char* field) {
  return answers.contains(field) ? percent_text(answers[field].at("rate")) : "n/a";
}

Table study_table(const Json& study) {
  Table table{{{"precision", false},
               {"top-1"},
               {"95 % interval"},
               {"agreement"},
               {"SNR"},
               {"cosine"},
               {"latency"},
               {"items/s"},
               {"beside fp32"},
               {"verdict", false},
               {"plan"},
               {"memory"},
               {"drop"},
               {"answers", false}},
              {}};
  for (const Json& row : study.at("precisions")) {
    const Json &answers = row.at("answers"), &speed = row.at("speed");
    const Json interval = answers.contains("top1") ? answers["top1"].at("ci95") : Json(nullptr);
    const auto number = [](const Json& value) {
      return value.is_number() ? format_number(value.get<double>()) : std::string("n/a");
    };
    table.rows.push_back({row.at("precision"), rate_text(answers, "top1"),
                          interval.is_null() ? "n/a" : percent_text(interval[0]) + " to " + percent_text(interval[1]),
                          rate_text(answers, "agreement"), row.at("snr"),
                          row.at("cosine").is_null() ? "n/a" : format_number(row.at("cosine").get<double>(), 4),
                          number(row.at("latency_ms")) + " ms", number(row.at("throughput_per_s")),
                          speed.is_null() ? "1"
                                          : concat(number(speed.at("ratio")), "x (", number(speed.at("ci99")[0]),
                                                   " to ", number(speed.at("ci99")[1]), ")"),
                          speed.is_null() ? "" : speed.at("verdict").get<std::string>(),
                          format_bytes(row.at("plan_bytes").get<double>()),
                          row.at("memory_bytes").is_null() ? "n/a" : format_bytes(row.at("memory_bytes").get<double>()),
                          row.at("drop").is_null() ? "n/a" : row.at("drop_text").get<std::string>(),
                          !row.at("far").get<std::string>().empty() ? "FAR"
                          : row.at("over_budget").is_null()         ? ""
                          : row.at("over_budget").get<bool>()       ? "OVER"
                                                                    : "within"});
  }
  return table;
}

// The fastest whose answers are near FP32's and keep the budget, in a line; then what was left out for its answers.
std::string study_verdict(const Json& study) {
  const Json& rows = study.at("precisions");
  const Json* best = &rows[0];
  std::string far;
  for (const Json& row : rows) {
    if (!row.at("far").get<std::string>().empty())
      far += concat("; ", row.at("precision").get<std::string>(),
                    " is far from fp32's answers: ", row.at("far").get<std::string>());
    if (!row.at("speed").is_null() && row["speed"].at("verdict") == "FASTER" && row.at("holds").get<bool>() &&
        row.at("latency_ms").get<double>() < best->at("latency_ms").get<double>())
      best = &row;
  }
  if (best == &rows[0])
    return (rows.size() > 1 ? "verdict: fp32; nothing else is faster and keeps its answers"
                            : "verdict: only fp32 was asked for") +
           far;
  return concat("verdict: ", best->at("precision").get<std::string>(), ", ",
                format_number(best->at("speed").at("ratio").get<double>()), "x as fast as fp32",
                best->at("drop").is_null()
                    ? ""
                    : concat(", drop by ", study.at("metric").get<std::string>(), " ",
                             best->at("drop_text").get<std::string>(), ", SNR ", best->at("snr").get<std::string>(),
                             ", cosine ", format_number(best->at("cosine").get<double>(), 4)),
                far);
}

void run_study(const StudyOptions& options, Context& context) {
  const StudySetup setup = set_up(options, context);
  Steps steps(options.output + "/steps", key_of(setup), options.force);
  Json notes = Json::array(), builds = Json::array(), search;
  for (const std::string& text : setup.skipped) notes.push_back(text);
  if (!setup.parts.left_out.empty())
    notes.push_back(concat(setup.parts.left_out.size(), " pictures cannot be read and were left out"));
  if (setup.parts.duplicates)
    notes.push_back(concat(setup.parts.duplicates, " samples with the content of a calibrated one were not evaluated"));
  const auto written = [](const Json& result) { return file_is(result.at("file")); };
  for (const std::string& precision : setup.precisions) {
    KeptNodes keep;
    if (precision == "int8") {
      const Json calibrated = steps.run("calibrate", [&] { return calibrate_step(setup); }, written);
      for (const std::string note : calibrated.at("notes")) notes.push_back(note);
      log_notes(calibrated.at("notes"));
      if (setup.max_drop) {
        search = steps.run("search", [&] { return search_step(setup, builds[0].at("file").at("path")); });
        for (const auto& [layer, dtype] : search.at("keep").items())
          keep[layer] = dtype == "bf16" ? DType::bf16 : DType::f32;
      }
    }
    builds.push_back(steps.run("build-" + precision, [&] { return build_step(setup, precision, keep); }, written));
  }
  const Json evaluated = steps.run("evaluate-" + setup.all(), [&] { return evaluate_step(setup, builds); });
  const Json timed = steps.run("speed-" + setup.all(), [&] { return speed_step(setup, builds); }, written);

  std::vector<std::string> parts{options.output + "/study.json", options.output + "/result.json"};
  if (!timed.at("rows")[0].at("memory_bytes").is_null()) {  // otherwise of several stages: no one plan to profile
    const Json explained = steps.run(
        "explain-" + setup.all(), [&] { return explain_step(setup, builds); },
        [](const Json& result) {
          const Json& files = result.at("files");
          return file_is(result.at("text")) && std::all_of(files.begin(), files.end(), file_is);
        });
    for (const Json& file : explained.at("files")) parts.push_back(file.at("path"));
  }

  Json study{{"schema", "temper.study/1"},
             {"model", options.model},
             {"data", options.data},
             {"command", context.command},
             {"seed", options.seed},
             {"calibration_samples", setup.parts.calibration.size()},
             {"evaluation_samples", setup.parts.evaluation.size()},
             {"duplicates_left_out", setup.parts.duplicates},
             {"left_out", json_of(setup.parts.left_out)},
             {"batch", setup.batch},
             {"metric", evaluated.at("metric")},
             {"max_drop", setup.max_drop ? Json(*setup.max_drop) : Json(nullptr)},
             {"notes", notes},
             {"precisions", Json::array()},
             {"mixed", search.is_null() ? search : search.at("mixed")}};
  bool over = false;
  for (size_t i = 0; i < setup.precisions.size(); ++i) {
    const Json &build = builds[i], &answers = evaluated.at("rows")[i], &speed = timed.at("rows")[i];
    const double ms = speed.at("latency_ms");
    const Json over_budget =
        setup.max_drop && answers.at("drop").is_number() ? Json(!answers.at("holds").get<bool>()) : Json(nullptr);
    if (!answers.at("far").get<std::string>().empty())
      log(LogLevel::warning, setup.precisions[i],
          ": the answers are far from fp32's: ", answers["far"].get<std::string>(),
          ". Other ranges may help (--method), or layers kept in a wider type (--max-drop)");
    over |= over_budget == true;
    study["precisions"].push_back({{"precision", setup.precisions[i]},
                                   {"plan", build.at("file").at("path")},
                                   {"placeholder", build.at("placeholder")},
                                   {"threads", build.at("threads")},
                                   {"latency_ms", ms},
                                   {"throughput_per_s", 1e3 * double(setup.batch) / ms},
                                   {"plan_bytes", build.at("file").at("bytes")},
                                   {"memory_bytes", speed.at("memory_bytes")},
                                   {"drop", answers.at("drop")},
                                   {"drop_text", answers.value("drop_text", "n/a")},
                                   {"over_budget", over_budget},
                                   {"holds", answers.at("holds")},
                                   {"far", answers.at("far")},
                                   {"snr", answers.at("snr")},
                                   {"cosine", answers.at("cosine")},
                                   {"mcnemar", answers.at("mcnemar")},
                                   {"answers", answers.at("answers")},
                                   {"speed", speed.at("speed")},
                                   {"command", build.at("command")}});
  }
  const Table table = study_table(study);
  std::string text = concat("# ", std::filesystem::path(options.model).filename().string(), "\n\n",
                            markdown_table(table), "\n", study_verdict(study), "\n");
  if (!search.is_null())
    text +=
        concat("\n", search.at("text").get<std::string>(), "\n\n", markdown_table(table_of_json(search.at("table"))));
  write_file_atomically({options.output + "/study.json", FileKind::study, options.force}, json_text(study));
  write_file_atomically({options.output + "/study.md", FileKind::markdown, options.force}, text);
  const std::string page = options.output + "/report.html";
  write_file_atomically({page, FileKind::page, options.force}, report_html(read_report(parts)));
  if (over) context.exit_code = int(ErrorKind::check_failed);
  if (context.json) {
    std::fputs(json_text(study).c_str(), stdout);
    return;
  }
  if (!search.is_null()) {
    if (context.verbosity >= 0) std::printf("%s\n", terminal_table(table_of_json(search.at("table"))).c_str());
    std::printf("%s\n\n", search.at("text").get<std::string>().c_str());
  }
  std::fputs(terminal_table(table).c_str(), stdout);
  for (const Json& row : study.at("precisions"))
    if (!row.at("mcnemar").is_null())
      std::printf("%s beside fp32: %s\n", row.at("precision").get<std::string>().c_str(),
                  row["mcnemar"].get<std::string>().c_str());
  std::printf("batch %lld, %d threads; %s\n", static_cast<long long>(setup.batch), builds[0].at("threads").get<int>(),
              study_verdict(study).c_str());
  std::printf("where the time goes, and why: %s/explain.md; all of it to look at: %s\n", options.output.c_str(),
              page.c_str());
}

}  // namespace

void add_study(CLI::App& verb, Context& context) {
  auto options = std::make_shared<StudyOptions>();
  options->flags.precision = "fp32,int8";
  verb.add_option("model", options->model, "the ONNX model to study")->required();
  verb.add_option("--data", options->data, "samples: one part calibrates, the rest evaluates; top1 needs labels")
      ->required();
  verb.add_option("-o,--output", options->output,
                  "folder to write plans, ranges.json, study.json, study.md, report.html and result.json to; an "
                  "interrupted study goes on from the steps saved there")
      ->required();
  verb.add_option("--precision", options->flags.precision,
                  "precisions to study, separated by commas: fp32, bf16, int8; fp32 is always included for comparison")
      ->capture_default_str();
  add_device_flags(verb, options->flags);
  add_keep_flags(verb, options->flags);
  add_tuning_flags(verb, options->flags);
  verb.add_option("--max-drop", options->max_drop,
                  "loss that is allowed for int8, like 0.5%; layers go back to bf16 or fp32 until the loss is within "
                  "it; exit code 1 if a precision loses more on the evaluation part");
  verb.add_option("--metric", options->metric,
                  "metric that --max-drop limits: top1 (default with labels), agreement (default for a classifier "
                  "without labels), cosine (1 - cosine) or snr (noise / signal)");
  verb.add_option("--raise-to", options->raise_to,
                  "precision that layers go back to under --max-drop: bf16 (fp32 if bf16 loses too much) or fp32; by "
                  "default bf16 if the CPU has it");
  verb.add_option("--method", options->method,
                  "calibration method: auto (the one closest to FP32 on held-out samples), entropy, minmax, "
                  "percentile[:99.99] or mse")
      ->capture_default_str();
  verb.add_option("--samples", options->samples, "number of samples to use, chosen by --seed; all of them by default")
      ->check(whole_number(1));
  verb.add_option("--calibration-samples", options->calibration_samples,
                  "number of those samples that calibrate; by default half of them, at most 500")
      ->check(whole_number(1));
  verb.add_option("--seed", options->seed, "seed for choosing and splitting the samples")->capture_default_str();
  verb.add_option("--batch", options->batch,
                  "batch size to build for, evaluate and time; by default 1, or the model's own")
      ->check(whole_number(1));
  verb.add_option("--duration", options->duration, "longest time to spend on timing each precision")
      ->capture_default_str();
  verb.add_option("--output-name", options->classes,
                  "name of the output that holds the classes; needed if there are several such outputs, or if the "
                  "output is a sequence");
  add_force_flag(verb, options->force);
  options->data_flags.add_to(verb);
  verb.callback([options, &context] { run_study(*options, context); });
}

}  // namespace temper::cli
