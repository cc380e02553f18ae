// SPDX-License-Identifier: Apache-2.0
#include "cli/study_setup.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/hash.h"
#include "base/log.h"
#include "cli/calibrate_on.h"
#include "cli/outputs.h"
#include "data/sample.h"
#include "measure/environment.h"
#include "optimize/precision.h"

namespace temper::cli {

using Json = nlohmann::ordered_json;

namespace {

std::vector<std::string> precisions_of(const std::string& text) {
  std::vector<std::string> list{"fp32"};  // what the others are compared with
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string name = text.substr(at, end - at);
    if (name.empty())
      fail(ErrorKind::usage, "--precision needs names with commas between them, like fp32,int8, not '", text, "'");
    if (std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
    at = end + 1;
  }
  return list;
}

bool asks_for_fp32(const std::string& text) { return ("," + text + ",").find(",fp32,") != std::string::npos; }

// Shapes as --shapes takes them, so that the command recorded in the plan builds it again.
std::vector<std::string> shape_flags(const std::map<std::string, ShapeRange>& shapes) {
  const auto text = [](const Dims& dims) {
    std::string out;
    for (int64_t d : dims) out += concat(out.empty() ? "" : "x", d);
    return out;
  };
  std::vector<std::string> flags;
  for (const auto& [name, range] : shapes)
    flags.push_back(concat(name, "=",
                           range.min == range.max
                               ? text(range.opt)
                               : concat(text(range.min), ":", text(range.opt), ":", text(range.max))));
  return flags;
}

// Half of the samples, at most 500, are calibrated on; an evaluation sample with the content of one of them is left
// out.
StudyParts split(const Dataset& data, const StudyOptions& options, const Context& context) {
  StudyParts parts;
  auto samples = samples_of(data, options.data, options.samples, options.seed);
  parts.left_out = leave_out(data, options.data, samples, options.data_flags.strict, context);
  const int64_t count = int64_t(samples.size());
  const int64_t calibration =
      options.calibration_samples ? options.calibration_samples : std::min<int64_t>(count / 2, 500);
  if (calibration < 1 || calibration >= count)
    fail(ErrorKind::usage, count, " samples cannot be split into ", calibration,
         " to calibrate on and the rest to evaluate; give more data, or fewer --calibration-samples");
  const auto places = choose_samples(count, calibration, options.seed + 2);
  std::unordered_set<uint64_t> known;
  const auto hash_of = [&](int64_t sample) {
    const Batch batch = data.batch(sample, 1);
    const uint64_t chain[] = {parts.digest, batch.hashes.at(0), batch.labels.empty() ? 0 : uint64_t(batch.labels[0])};
    parts.digest = xxh3(chain, sizeof chain);
    return batch.hashes[0];
  };
  for (int64_t place : places) {
    parts.calibration.push_back(samples[size_t(place)]);
    known.insert(hash_of(parts.calibration.back()));
  }
  for (int64_t i = 0; i < count; ++i) {
    if (std::binary_search(places.begin(), places.end(), i)) continue;
    if (known.contains(hash_of(samples[size_t(i)]))) ++parts.duplicates;
    else parts.evaluation.push_back(samples[size_t(i)]);
  }
  if (parts.evaluation.empty())
    fail(ErrorKind::usage,
         "every sample to evaluate on has the content of one that is calibrated on; give samples that differ");
  return parts;
}

std::string stem_of(const StudyOptions& options) {
  return options.output + "/" + std::filesystem::path(options.model).stem().string();
}

// The files that a study reads and writes; those in its folder only as far as they are there already.
VerbFiles files_of(const StudyOptions& o, const std::vector<std::string>& precisions) {
  VerbFiles files = with_build_files({{o.model}, {o.data, o.data_flags.class_names}, {}}, o.flags, o.force);
  const auto writes = [&](const std::string& path, FileKind kind) {
    if (file_exists(path)) files.writes.push_back({path, kind, o.force, "-o:"});
  };
  writes(o.output + "/ranges.json", FileKind::ranges);
  for (const std::string& precision : precisions) {
    writes(concat(stem_of(o), ".", precision, ".plan"), FileKind::plan);
    writes(concat(o.output, "/profile.", precision, ".json"), FileKind::profile);
  }
  const std::pair<const char*, FileKind> rest[] = {
      {"result.json", FileKind::result}, {"explain.json", FileKind::explanation}, {"explain.md", FileKind::markdown},
      {"study.json", FileKind::study},   {"study.md", FileKind::markdown},        {"report.html", FileKind::page}};
  for (const auto& [name, kind] : rest) writes(concat(o.output, "/", name), kind);
  return files;
}

}  // namespace

StudySetup set_up(const StudyOptions& options, const Context& context) {
  if (is_plan(options.model))
    fail(ErrorKind::usage, "'", options.model, "' is a plan; a study builds its own from the ONNX model");
  Budget budget;
  budget.measured_later = true;
  std::optional<double> max_drop;
  if (!options.metric.empty()) budget.metric = parse_metric(options.metric);
  budget.bf16 = raises_to_bf16(options.raise_to, options.flags.device);
  if (!options.max_drop.empty()) max_drop = budget.max_drop = share_of("--max-drop", options.max_drop);
  if (options.method != "auto") Method::parse(options.method);
  std::vector<std::string> precisions = precisions_of(options.flags.precision), skipped;
  std::erase_if(precisions, [&](const std::string& precision) {
    const std::string why = lacks_precision(options.flags.device, precision);
    if (!why.empty()) skipped.push_back(concat(precision, " is left out: ", why));
    return !why.empty();
  });
  // fp32 is there even where it was not asked for, which makes no study of bf16.
  if (precisions.size() == 1 && !skipped.empty() && !asks_for_fp32(options.flags.precision))
    fail(ErrorKind::unsupported, "--precision ", options.flags.precision, ": ", skipped[0],
         ", and nothing else was asked for");
  for (const std::string& text : skipped) log(LogLevel::warning, text);
  check_files(files_of(options, precisions));
  ImportedModel model = import_onnx(options.model, {{}, memory_limit_of(options.flags.memory_limit)});
  Dataset data = open_dataset(options.data, input_specs(model.graph),
                              options.data_flags.options(memory_limit_of(options.flags.memory_limit)));
  StudyParts parts = split(data, options, context);
  check_metric(budget.metric, max_drop, model.graph, data, options.classes, int64_t(parts.evaluation.size()));
  log(LogLevel::info, data.text(), ": ", parts.calibration.size(), " to calibrate on, ", parts.evaluation.size(),
      " to evaluate", parts.duplicates ? concat(", ", parts.duplicates, " left out as copies") : "");
  const int64_t fixed = fixed_batch(model.graph, data);
  if (fixed && options.batch && options.batch != fixed)
    fail(ErrorKind::usage, "the model takes batches of ", fixed, ", not of ", options.batch, "; leave --batch out");
  const int64_t batch = fixed ? fixed : options.batch ? options.batch : 1;
  ModelFlags flags = options.flags;
  flags.shapes = shape_flags(shapes_of_data(model.graph, data, batch));
  return {options, context,          std::move(model),      std::move(data),    std::move(parts),
          budget,  max_drop,         std::move(precisions), std::move(skipped), batch,
          fixed,   std::move(flags), stem_of(options)};
}

Json key_of(const StudySetup& setup) {
  const StudyOptions& o = setup.options;
  const Environment machine = read_environment(o.flags.threads);
  return {{"model", setup.model.sha256},
          {"data", hex(setup.parts.digest)},
          {"seed", o.seed},
          {"method", o.method},
          {"max_drop", o.max_drop},
          {"metric", o.metric},
          {"raise_to", o.raise_to},
          {"classes", o.classes},
          {"batch", setup.batch},
          {"duration", o.duration},
          {"threads", o.flags.threads},
          {"device", o.flags.device},
          {"keep", {o.flags.keep_first, o.flags.keep_last, o.flags.keep_fp32, o.flags.keep_bf16}},
          {"tuning",
           {o.flags.timing_cache, o.flags.no_timing_cache, o.flags.workspace, o.flags.quick, o.flags.disabled_passes}},
          {"version", machine.version},
          {"revision", machine.revision},
          {"cpu", machine.cpu_model},
          {"cores", machine.allowed_cores}};
}

}  // namespace temper::cli
