// SPDX-License-Identifier: Apache-2.0
// temper study: the whole workflow for one model. Every precision is calibrated on one part of the data, built,
// evaluated on the other part and timed beside FP32.
#include "study/study.h"

#include <cstdio>
#include <filesystem>
#include <type_traits>

#include "backends/devices.h"
#include "base/log.h"
#include "base/quote.h"
#include "bench/table.h"
#include "cli/config.h"
#include "cli/data_flags.h"
#include "cli/json_text.h"
#include "cli/model.h"
#include "cli/outputs.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "optimize/precision.h"
#include "study/steps.h"
#include "study/summary.h"

namespace temper::cli {
namespace {

using Json = nlohmann::ordered_json;

struct StudyFlags {
  std::string model;
  ModelFlags flags;
  DataFlags data_flags;
  std::string data, output, max_drop, metric, method = "auto", raise_to, classes, duration = "6s";
  int64_t batch = 0, samples = 0, calibration_samples = 0;
  uint64_t seed = 0;
  bool force = false;
  ConfigFlags config;
};

std::vector<std::string> precisions_of(const std::string& text) {
  std::vector<std::string> list;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    list.push_back(text.substr(at, end - at));
    if (list.back().empty())
      fail(ErrorKind::usage, "--precision needs names with commas between them, like fp32,int8, not '", text, "'");
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
  flags.reserve(shapes.size());
  for (const auto& [name, range] : shapes)
    flags.push_back(concat(name, "=",
                           range.min == range.max
                               ? text(range.opt)
                               : concat(text(range.min), ":", text(range.opt), ":", text(range.max))));
  return flags;
}

std::string command_of(const StudyFlags& options, const BuildOptions& build) {
  ModelFlags flags = options.flags;
  flags.precision = build.precision;
  flags.calibration = build.calibration;
  flags.shapes = shape_flags(build.shapes);
  set_placement(flags, build.placement);
  return build_command(flags, options.model);
}

StudyOptions study_options(StudyFlags& options, const Context& context, ProgressLine& progress) {
  StudyOptions study;
  study.model = options.model;
  study.devices = take_devices(options.flags.device, {options.flags.cuda_path});
  study.build = build_options(options.flags, options.model, context);
  study.build.progress = progress.callback();
  study.precisions = precisions_of(options.flags.precision);
  study.data = options.data_flags.request(options.data, options.samples, options.seed, study.build.limits.memory);
  study.output = options.output;
  if (!options.max_drop.empty()) study.max_drop = share_of("--max-drop", options.max_drop);
  if (!options.metric.empty()) study.metric = parse_metric(options.metric);
  study.method = options.method;
  study.raise_to = options.raise_to;
  study.classes = options.classes;
  study.seconds = seconds_of(options.duration);
  study.batch = options.batch;
  study.calibration_samples = options.calibration_samples;
  study.force = options.force;
  study.reads = {options.data_flags.class_names};
  study.command = context.command;
  study.build_command = [&](const BuildOptions& build) { return command_of(options, build); };
  return study;
}

// The record.
Json run_one(StudyFlags options, Context& context) {
  ProgressLine progress(context);
  const Study study = run_study(study_options(options, context, progress));
  clear_progress();
  if (study.over) context.exit_code = int(ErrorKind::check_failed);
  if (context.json) return study.record;
  for (const Json& search : study.searches) {
    if (context.verbosity >= 0) print_table(table_of_json(search.at("table")), "\n");
    print_text(search.at("text").get<std::string>());
    std::printf("\n");
  }
  print_table(study_table(study.record));
  for (const Json& row : study.record.at("precisions"))
    if (!row.at("mcnemar").is_null())
      print_text(concat(row.at("precision").get<std::string>(), " beside fp32: ", row["mcnemar"].get<std::string>()));
  print_text(concat("batch ", study.record.at("batch").get<int64_t>(), ", ", study.threads,
                    study.threads == 1 ? " thread; " : " threads; ", study.verdict));
  print_text(
      concat("where the time goes, and why: ", options.output, "/explain.md; all of it to look at: ", study.page));
  return study.record;
}

// What the command line says of all models of the file goes before what the file says.
StudyFlags of_config(const StudyFlags& given, const ConfiguredModel& model) {
  StudyFlags options = given;
  options.model = model.model;
  options.data = model.data;
  options.output = model.output;
  const auto take = [&](const char* flag, auto& to, const auto& said) {
    if (said != std::remove_cvref_t<decltype(said)>() && !given.flags.given(flag))
      to = std::remove_cvref_t<decltype(to)>(said);
  };
  take("--precision", options.flags.precision, model.precision);
  take("--device", options.flags.device, model.device);
  take("--max-drop", options.max_drop, model.max_drop);
  take("--metric", options.metric, model.metric);
  take("--method", options.method, model.method);
  take("--raise-to", options.raise_to, model.raise_to);
  take("--duration", options.duration, model.duration);
  take("--output-name", options.classes, model.output_name);
  take("--preprocess", options.data_flags.preprocess, model.preprocess);
  take("--class-names", options.data_flags.class_names, model.class_names);
  take("--shapes", options.flags.shapes, model.shapes);
  take("--threads", options.flags.threads, model.threads);
  take("--batch", options.batch, model.batch);
  take("--samples", options.samples, model.samples);
  take("--calibration-samples", options.calibration_samples, model.calibration_samples);
  return options;
}

void run(const StudyFlags& options, Context& context) {
  if (!options.model.empty()) {
    if (options.data.empty() || options.output.empty()) fail(ErrorKind::usage, "a study needs --data and -o");
    for (const char* flag : {"--config", "--only"})
      if (options.flags.given(flag))
        fail(ErrorKind::usage, flag, " is of a file of models, and a model is named; leave one of them out");
    const Json record = run_one(options, context);
    if (context.json) print_json(record);
    return;
  }
  if (!options.data.empty() || !options.output.empty())
    fail(ErrorKind::usage, "--data and -o are of the model that is named; none is");
  Json records = Json::object();
  for (const ConfiguredModel& model : options.config.models("a study", "MODEL, --data and -o")) {
    if (model.data.empty()) {
      log(LogLevel::warning, options.config.path, ": '", model.name, "' has no data, and is not studied");
      continue;
    }
    std::error_code error;
    std::filesystem::create_directories(std::filesystem::path(model.output).parent_path(), error);
    if (!context.json) std::printf("%s%s\n", records.empty() ? "" : "\n", printable(model.name).c_str());
    records[model.name] =
        with_context([&] { return model.name; }, [&] { return run_one(of_config(options, model), context); });
  }
  if (records.empty()) fail(ErrorKind::usage, "no model of '", options.config.path, "' has data: data = \"FOLDER\"");
  if (context.json) print_json(records);
}

}  // namespace

void add_study(Command& verb, Context& context) {
  auto options = std::make_shared<StudyFlags>();
  options->flags.precision = "fp32,int8";
  verb.add_option("model", options->model, "the ONNX model to study; by default those of the file of --config");
  verb.add_option("--data", options->data, "samples: one part calibrates, the rest evaluates; top1 needs labels");
  verb.add_option("-o,--output", options->output,
                  "folder to write plans, ranges.json, study.json, study.md, report.html and result.json to; an "
                  "interrupted study goes on from the steps saved there");
  options->config.add_to(verb);
  verb.add_option("--precision", options->flags.precision,
                  "precisions to study, separated by commas: fp32, bf16, int8, int8+bf16, on a GPU also fp16, tf32, "
                  "int8+fp16, fp8, fp8+bf16, fp8+fp16; fp32 is always included for comparison")
      .capture_default_str();
  add_device_flags(verb, options->flags);
  add_shape_flag(verb, options->flags);
  add_activation_scales(verb, options->flags);
  add_keep_flags(verb, options->flags);
  add_tuning_flags(verb, options->flags);
  verb.add_option(
      "--max-drop", options->max_drop,
      "loss that is allowed for each precision, like 0.5%; layers go back to 16 bits or fp32 until the loss "
      "is within it; exit code 1 if a precision loses more on the evaluation part");
  verb.add_option(
      "--metric", options->metric,
      "metric that --max-drop limits: top1 (default with labels), agreement (default for a classifier "
      "without labels, and for texts), perplexity (of a language model, its rise), cosine (1 - cosine), snr "
      "(noise / signal) or difference (the largest, as a share of the largest value)");
  verb.add_option("--raise-to", options->raise_to,
                  "precision that layers go back to under --max-drop: bf16 (fp32 if bf16 loses too much) or fp32; by "
                  "default bf16 if the CPU has it");
  verb.add_option("--method", options->method,
                  "calibration method: auto (the one closest to FP32 on held-out samples), entropy, minmax, "
                  "percentile[:99.99] or mse")
      .capture_default_str();
  verb.add_option("--samples", options->samples, "number of samples to use, chosen by --seed; all of them by default")
      .check(whole_number(1));
  verb.add_option("--calibration-samples", options->calibration_samples,
                  "number of those samples that calibrate; by default half of them, at most 500")
      .check(whole_number(1));
  verb.add_option("--seed", options->seed, "seed for choosing and splitting the samples").capture_default_str();
  verb.add_option("--batch", options->batch,
                  "batch size to build for, evaluate and time; by default 1, or the model's own")
      .check(whole_number(1));
  verb.add_option("--duration", options->duration, "longest time to spend on timing each precision")
      .capture_default_str();
  verb.add_option("--output-name", options->classes,
                  "name of the output that holds the classes; needed if there are several such outputs, or if the "
                  "output is a sequence");
  add_force_flag(verb, options->force);
  options->data_flags.add_to(verb);
  verb.callback([options, &context] { run(*options, context); });
}

}  // namespace temper::cli
