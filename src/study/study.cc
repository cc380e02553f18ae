// SPDX-License-Identifier: Apache-2.0
#include "study/study.h"

#include <algorithm>
#include <filesystem>

#include "base/count_of.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/strict_json.h"
#include "bench/bench_engine.h"
#include "bench/explain_text.h"
#include "bench/profile_plan.h"
#include "bench/side_by_side.h"
#include "calibrate/dataset.h"
#include "evaluate/text.h"
#include "optimize/precision.h"
#include "report/report.h"
#include "study/steps.h"
#include "study/summary.h"

namespace temper {
namespace {

using Json = nlohmann::ordered_json;

std::string json_text(const Json& json) { return strict::dump(json, 2) + "\n"; }

bool file_is(const Json& file) {  // still what a step wrote
  const std::string path = file.at("path");
  return std::filesystem::exists(path) && sha256_of_file(path) == file.at("sha256").get<std::string>();
}
Json file_json(const std::string& path) {
  return {{"path", path}, {"sha256", sha256_of_file(path)}, {"bytes", std::filesystem::file_size(path)}};
}

// FP32, for trials whose shapes follow from the data.
BuildOptions plain_build(const StudyOptions& options) {
  BuildOptions plain = options.build;
  plain.precision = "fp32";
  return plain;
}

Json calibrate_step(const StudySetup& setup) {
  const StudyOptions& o = setup.options;
  const Ranges ranges = calibrate_on(setup.model, setup.data, setup.parts.calibration,
                                     {o.method, o.data.seed, 0, o.build.progress}, plain_build(o));
  save_ranges(setup.ranges_path(), ranges, o.force);
  return {{"file", file_json(setup.ranges_path())}, {"notes", ranges.notes}};
}

std::shared_ptr<const Engine> build(const StudySetup& setup, const std::string& precision, const KeptNodes& keep,
                                    const std::set<std::string>& doubted = {}) {
  const StudyOptions& o = setup.options;
  BuildOptions build = o.build;
  build.precision = precision;
  build.replace_shapes(setup.shapes);
  build.preprocess = setup.data.preprocess();
  build.calibration = needs_ranges(precision) ? setup.ranges_path() : "";
  build.placement = taken_by(precision, o.build.placement);
  build.placement.keep_nodes.insert(keep.begin(), keep.end());
  build.command = o.build_command ? o.build_command(build) : "";
  build.batch_buckets = false;
  build.doubted = doubted;
  build.progress = within(o.build.progress, precision);
  return build_engine(o.model, build);
}

// Which layers go back to a wider type, and what each of them costs. `fp32` is that plan's path.
Json search_step(const StudySetup& setup, const std::string& precision, const std::string& fp32) {
  const StudyOptions& o = setup.options;
  Budget budget = setup.budget;
  budget.half = raised_to(o.raise_to, precision, o.build.device);
  const Ranges ranges = needs_ranges(precision) ? load_ranges(setup.ranges_path()) : Ranges();
  MixedSearch mixed = search_mixed(setup.model.graph, ranges, setup.data, setup.parts.calibration, o.classes, budget,
                                   plain_build(o), precision);
  // The time of each layer in that precision, in the model that has all of them in it.
  mixed.saved_ms = saved_times(
      [&](const std::set<std::string>& doubted) {
        return layer_times(doubted.empty() ? *Engine::load(fp32) : *build(setup, "fp32", {}, doubted));
      },
      [&](const std::set<std::string>& doubted) { return layer_times(*build(setup, precision, {}, doubted)); },
      precision);
  Json keep = Json::object();
  for (const auto& [layer, dtype] : mixed.search.keep) keep[layer] = kept_word(dtype);
  return {{"keep", keep}, {"mixed", json_of(mixed)}, {"text", text_of(mixed)}, {"table", json_of(table_of(mixed))}};
}

Json build_step(const StudySetup& setup, const std::string& precision, const KeptNodes& keep) {
  if (!setup.options.build.progress) log(LogLevel::info, "building ", precision);
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
  const EvaluationData what{setup.data,
                            setup.parts.evaluation,
                            {setup.batch, setup.fixed ? setup.fixed : 1},
                            setup.options.classes,
                            setup.options.devices,
                            setup.options.build.device_settings};
  const auto engines = load_all(builds);
  const std::vector<std::shared_ptr<const Engine>> tested(engines.begin() + (engines.size() > 1 ? 1 : 0),
                                                          engines.end());
  const auto results = evaluate_engines(what, engines[0], tested, setup.options.build.progress);
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
    const Judgement judged = judge(e, metric, setup.options.max_drop);
    rows.push_back({{"answers", json_of(e)},
                    {"drop", judged.drop},
                    {"drop_text", drop_text(judged, setup.options.max_drop)},
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
  const double seconds = setup.options.seconds;
  BenchResult result;
  Json rows = Json::array();
  if (engines.size() == 1) {
    TimerOptions timer;
    timer.max_seconds = seconds;
    result.runs.push_back(bench_engine(engines[0], shapes, timer));
    rows.push_back({{"speed", nullptr}});
  } else {
    for (const auto& engine : engines) result.runs.push_back(describe_run(*engine, shapes));
    const Turns turns = time_side_by_side(
        engines, shapes,
        {seconds * double(engines.size() - 1), "timing all in turns", 0, setup.options.build.progress});
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
    run.command = setup.options.command;
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
  const BuildOptions& build = setup.options.build;
  const ProfileSettings settings{
      setup.batch, std::min(3.0, setup.options.seconds), build.timing_cache, {}, build.progress};
  Json files = Json::array();
  std::vector<Explanation> explanations;
  for (size_t i = 0; i < builds.size(); ++i) {
    const std::string plan_path = builds[i].at("file").at("path");
    const ProfiledPlan plan = profile_plan(plan_path, settings);
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

}  // namespace

Study run_study(const StudyOptions& options) {
  const StudySetup setup = set_up(options);
  Steps steps(options.output + "/steps", key_of(setup), options.force);
  Json notes = Json::array(), builds = Json::array(), searches = Json::array();
  for (const std::string& text : setup.skipped) notes.push_back(text);
  if (!setup.parts.left_out.empty())
    notes.push_back(
        concat("the study left out ", count_of(setup.parts.left_out.size(), "picture"), " that cannot be read"));
  if (setup.parts.duplicates)
    notes.push_back(concat("the study did not evaluate ", count_of(setup.parts.duplicates, "sample"),
                           " with the content of a calibrated one"));
  const auto written = [](const Json& result) { return file_is(result.at("file")); };
  bool calibrated = false;
  for (const std::string& precision : setup.precisions) {
    KeptNodes keep;
    if (needs_ranges(precision) && !calibrated) {
      const Json made = steps.run("calibrate", [&] { return calibrate_step(setup); }, written);
      for (const std::string note : made.at("notes")) notes.push_back(note);
      log_notes(made.at("notes"));
      calibrated = true;
    }
    if (precision != "fp32" && options.max_drop) {
      const Json search = steps.run("search-" + precision,
                                    [&] { return search_step(setup, precision, builds[0].at("file").at("path")); });
      for (const auto& [layer, dtype] : search.at("keep").items())
        keep[layer] = dtype == "bf16" ? DType::bf16 : dtype == "fp16" ? DType::f16 : DType::f32;
      searches.push_back(search);
    }
    builds.push_back(steps.run("build-" + precision, [&] { return build_step(setup, precision, keep); }, written));
  }
  std::stable_partition(searches.begin(), searches.end(),
                        [](const Json& search) { return quantizes(search.at("mixed").at("precision")); });
  const Json evaluated = steps.run("evaluate-" + setup.all(), [&] { return evaluate_step(setup, builds); });
  const Json timed = steps.run("speed-" + setup.all(), [&] { return speed_step(setup, builds); }, written);

  std::vector<std::string> parts{options.output + "/study.json", options.output + "/result.json"};
  if (!timed.at("rows")[0].at("memory_bytes").is_null()) {  // otherwise of several partitions: no one plan to profile
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
             {"data", options.data.name()},
             {"command", options.command},
             {"seed", options.data.seed},
             {"calibration_samples", setup.parts.calibration.size()},
             {"evaluation_samples", setup.parts.evaluation.size()},
             {"duplicates_left_out", setup.parts.duplicates},
             {"left_out", json_of(setup.parts.left_out)},
             {"batch", setup.batch},
             {"metric", evaluated.at("metric")},
             {"max_drop", options.max_drop ? Json(*options.max_drop) : Json(nullptr)},
             {"notes", notes},
             {"precisions", Json::array()},
             {"mixed", searches.empty() ? Json(nullptr) : searches[0].at("mixed")},
             {"other_searches", Json::array()}};
  for (size_t i = 1; i < searches.size(); ++i) study["other_searches"].push_back(searches[i].at("mixed"));
  bool over = false;
  for (size_t i = 0; i < setup.precisions.size(); ++i) {
    const Json &build = builds[i], &answers = evaluated.at("rows")[i], &speed = timed.at("rows")[i];
    const double ms = speed.at("latency_ms");
    const Json over_budget =
        options.max_drop && answers.at("drop").is_number() ? Json(!answers.at("holds").get<bool>()) : Json(nullptr);
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
  for (const Json& search : searches)
    text +=
        concat("\n", search.at("text").get<std::string>(), "\n\n", markdown_table(table_of_json(search.at("table"))));
  write_file_atomically({options.output + "/study.json", FileKind::study, options.force}, json_text(study));
  write_file_atomically({options.output + "/study.md", FileKind::markdown, options.force}, text);
  const std::string page = options.output + "/report.html";
  write_file_atomically({page, FileKind::page, options.force}, report_html(read_report(parts)));
  return {study, searches, study_verdict(study), over, builds[0].at("threads").get<int>(), page};
}

}  // namespace temper
