// SPDX-License-Identifier: Apache-2.0
#include "study/setup.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/hash.h"
#include "base/log.h"
#include "data/carried.h"
#include "data/given_inputs.h"
#include "data/sample.h"
#include "measure/environment.h"
#include "onnx/used_files.h"
#include "optimize/precision.h"
#include "runtime/pool.h"

namespace temper {

using Json = nlohmann::ordered_json;

namespace {

// fp32, which the others are compared with, and what was asked for, none twice.
std::vector<std::string> precisions_of(const std::vector<std::string>& asked) {
  std::vector<std::string> list{"fp32"};
  for (const std::string& name : asked)
    if (std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
  return list;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += concat(text.empty() ? "" : ",", name);
  return text;
}

// Half of the samples, at most 500, are calibrated on; an evaluation sample with the content of one of them is left
// out.
StudyParts split(const Dataset& data, const StudyOptions& options) {
  StudyParts parts;
  auto samples = samples_of(data, options.data);
  parts.left_out = leave_out(data, options.data, samples, options.build.progress);
  const int64_t count = int64_t(samples.size());
  const int64_t calibration =
      options.calibration_samples ? options.calibration_samples : std::min<int64_t>(count / 2, 500);
  if (calibration < 1 || calibration >= count)
    fail(ErrorKind::usage, count, " samples cannot be split into ", calibration,
         " to calibrate on and the rest to evaluate; give more data, or fewer --calibration-samples");
  const auto places = choose_samples(count, calibration, options.data.seed + 2);
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
UsedFiles files_of(const StudyOptions& o, const std::vector<std::string>& precisions) {
  UsedFiles files{{o.model}, o.reads, {{o.build.timing_cache, FileKind::timings, false, "--timing-cache"}}};
  files.reads.push_back(o.data.path);
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

StudySetup set_up(const StudyOptions& options) {
  if (is_plan(options.model))
    fail(ErrorKind::usage, "'", options.model, "' is a plan; a study builds its own from the ONNX model");
  const std::string& device = options.build.device;
  check_one_kind(options.devices, options.build.device_settings);
  if (!options.raise_to.empty() && !options.max_drop)
    fail(ErrorKind::usage, "--raise-to is of the layers that --max-drop takes out of 8 bits; give --max-drop, too");
  const Budget budget{options.max_drop.value_or(0), options.metric, std::nullopt, options.devices, true};
  if (options.method != "auto") Method::parse(options.method);
  std::vector<std::string> precisions = precisions_of(options.precisions), skipped;
  if (std::find(precisions.begin(), precisions.end(), kBestPrecision) != precisions.end())
    fail(ErrorKind::usage,
         "--precision best is for one plan; a study names precisions, builds each, and says which is the fastest");
  std::erase_if(precisions, [&](const std::string& precision) {
    const std::string why = lacks_precision(device, precision);
    if (!why.empty()) skipped.push_back(concat(precision, " is left out: ", why));
    return !why.empty();
  });
  // fp32 is there even where it was not asked for, which makes no study of bf16.
  const auto& asked = options.precisions;
  if (precisions.size() == 1 && !skipped.empty() && std::find(asked.begin(), asked.end(), "fp32") == asked.end())
    fail(ErrorKind::unsupported, "--precision ", joined(asked), ": ", skipped[0], ", and nothing else was asked for");
  check_raise_to(options.raise_to, precisions);
  for (const std::string& precision : precisions)
    raised_to(options.raise_to, precision, device);  // refuses what does not go together
  for (const std::string& text : skipped) log(LogLevel::warning, text);
  check_files(files_of(options, precisions));
  ImportedModel model = import_onnx(options.model, {{}, options.build.limits});
  std::vector<InputSpec> specs = input_specs(model, options.model);
  if (!options.build.buckets.empty())
    fail(ErrorKind::usage, "--buckets are batches of one plan, and a study is of one batch; leave --buckets out");
  fix_sizes(specs, options.build.shapes);
  Dataset data = options.data.open(specs);
  StudyParts parts = split(data, options);
  check_metric(budget.metric, options.max_drop, model.graph, data, options.classes, int64_t(parts.evaluation.size()));
  log(LogLevel::info, data.text(), ": ", parts.calibration.size(), " to calibrate on, ", parts.evaluation.size(),
      " to evaluate", parts.duplicates ? concat(", ", parts.duplicates, " left out as copies") : "");
  const int64_t fixed = fixed_batch(model.graph, data);
  if (fixed && options.batch && options.batch != fixed)
    fail(ErrorKind::usage, "the model takes batches of ", fixed, ", not of ", options.batch, "; leave --batch out");
  if (options.batch) check_batch(specs, options.build.shapes, options.batch);
  // Of a range the batch that it is tuned for.
  const int64_t said = batches_said(specs, options.build.shapes).value_or(BatchRange()).opt;
  const int64_t batch = fixed ? fixed : options.batch ? options.batch : said;
  auto shapes = shapes_of_data(model.graph, data, batch);
  return {options, std::move(model),      std::move(data),    std::move(parts),
          budget,  std::move(precisions), std::move(skipped), batch,
          fixed,   std::move(shapes),     stem_of(options)};
}

Json key_of(const StudySetup& setup) {
  const StudyOptions& o = setup.options;
  const BuildOptions& build = o.build;
  const Environment machine = read_environment(build.threads);
  Json kept = Json::object();
  for (const auto& [layer, dtype] : build.placement.keep_nodes) kept[layer] = concat(dtype);
  return {{"model", setup.model.sha256},
          {"data", hex(setup.parts.digest)},
          {"seed", o.data.seed},
          {"method", o.method},
          {"max_drop", o.max_drop ? Json(*o.max_drop) : Json(nullptr)},
          {"metric", o.metric ? Json(name_of(*o.metric)) : Json(nullptr)},
          {"raise_to", o.raise_to},
          {"classes", o.classes},
          {"batch", setup.batch},
          {"seconds", o.seconds},
          {"threads", build.threads},
          {"device", build.device},
          {"activation_scales", build.placement.activation_scales == ActivationScales::token ? "token" : "tensor"},
          {"keep", {build.placement.keep_first, build.placement.keep_last, kept}},
          {"tuning",
           {build.timing_cache, build.workspace, build.segments, build.passes.all_disabled, build.passes.disabled}},
          {"version", machine.version},
          {"revision", machine.revision},
          {"cpu", machine.cpu_model},
          {"cores", machine.allowed_cores}};
}

}  // namespace temper
