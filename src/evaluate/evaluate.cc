// SPDX-License-Identifier: Apache-2.0
#include "evaluate/evaluate.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "evaluate/text.h"
#include "runtime/pool.h"

namespace temper {

namespace {

// Of the model that a plan was built from or that is built here: its FP32 engine. Where the plan's model is not to be
// found or is another one by now, null, and `why` says so.
std::shared_ptr<const Engine> fp32_reference(const DataModel& of, const Engine& engine, const EvaluationData& data,
                                             BuildOptions plain, std::string& why) {
  std::optional<ModelSource> model = of.model();
  if (!model) {
    // The path as recorded, which may be relative to where it was built; or beside the plan, moved together with it.
    const std::filesystem::path recorded = engine.info().source_path;
    std::string path = recorded.string();
    if (!path.empty() && !file_exists(path))
      path = (std::filesystem::path(of.plan_path()).parent_path() / recorded.filename()).string();
    if (path.empty() || !file_exists(path))
      why = concat("the model that the plan was built from ('", recorded.string(), "') is not there");
    else if (sha256_of_file(path) != engine.info().model_sha256)
      why = concat("'", path, "' is no longer the model that the plan was built from");
    if (!why.empty()) {
      why += "; name it with --reference MODEL";
      return nullptr;
    }
    model = ModelSource{path, "", {}};
  }
  plain.threads = engine.threads();
  plain.device = engine.info().device;
  return DataModel(std::move(*model), std::move(plain))
      .engine(data.data, data.batch, int64_t(data.samples.size()), false);
}

}  // namespace

EvaluatedPart evaluate_part(DataModel& model, DataModel* reference, const EvaluateOptions& options,
                            const BatchShare& share) {
  const DataRequest& request = options.data;
  const std::optional<Metric>& metric = options.metric;
  check_one_kind(options.devices, options.plain.device_settings);
  const Dataset data = request.open(model.inputs());
  const bool compares = metric && *metric != Metric::top1;
  if (!data.has_labels() && data.token_input() < 0 && (!metric || !compares) && !reference)
    fail(ErrorKind::usage, "'", request.name(),
         "' says nothing about the right answers: give a folder with one sub-folder a class, an .npz with 'labels', or "
         "a CSV with a 'label' column; or compare with FP32: --metric "
         "agreement, cosine, snr or difference, or --reference MODEL|PLAN");
  EvaluationData what{data,
                      samples_of(data, request),
                      model.choose_batch(data, options.batch),
                      options.classes,
                      options.devices,
                      options.plain.device_settings};
  EvaluatedPart done;
  done.share = share;
  done.left_out = leave_out(data, request, what.samples, options.progress);
  const int64_t count = int64_t(what.samples.size());
  log(LogLevel::info, data.text(), count < data.size() ? concat(", ", count, " of them") : "", ", in batches of ",
      what.batch.size);
  done.engine = model.engine(data, what.batch, count);
  done.batch = what.batch.size;
  std::shared_ptr<const Engine> beside;
  std::string why;
  if (reference) {
    reference->use_threads(done.engine->threads());
    reference->accept_batch(data, what.batch);
    beside = reference->engine(data, what.batch, count, false);
  } else if (compares || done.engine->info().precision != "fp32") {
    beside = fp32_reference(model, *done.engine, what, options.plain, why);
    if (!beside && compares) fail(ErrorKind::usage, "--metric ", name_of(*metric), " compares with FP32, and ", why);
    if (!beside) log(LogLevel::warning, "no comparison with FP32: ", why);
  }
  done.precision = done.engine->info().precision;
  done.placeholder = done.engine->info().placeholder;
  done.samples = count;
  done.compared = beside != nullptr;
  what.samples = share_of(what.samples, what.batch.size, share);
  done.batches = score_batches(what, beside, {done.engine}, options.progress);
  return done;
}

namespace {
// Throws Error{usage} where `metric` was asked for by name and is absent, or nothing came out at all.
void check_came_out(const Evaluation& evaluation, std::optional<Metric> metric, bool compared) {
  if (metric) {
    // Asked for by name: absent is an error, not a gap in the table.
    if (*metric == Metric::top1 && !evaluation.accuracy)
      fail(ErrorKind::usage,
           "no output, or more than one, is that of a classifier ([batch, classes] of floats); say which one holds the "
           "classes: --output-name NAME");
    if (*metric != Metric::top1) drop_of(evaluation, *metric);
  } else if (!evaluation.accuracy && !evaluation.perplexity && !compared) {
    fail(ErrorKind::usage,
         "no output, or more than one, is that of a classifier ([batch, classes] of floats); say which one holds the "
         "classes (--output-name NAME), or compare with FP32 (--metric snr)");
  }
}
}  // namespace

Evaluated join_parts(const std::vector<EvaluatedPart>& parts, std::optional<Metric> metric) {
  if (parts.empty()) fail(ErrorKind::usage, "there is no part of an evaluation to join");
  const EvaluatedPart& first = parts[0];
  std::vector<const EvaluatedPart*> by_number(parts.size());
  size_t batches = 0;
  for (const EvaluatedPart& part : parts) {
    const auto [number, of] = part.share;
    if (of != int64_t(parts.size()) || number >= of)
      fail(ErrorKind::usage, "part ", number + 1, " of ", of, " is not one of the ", parts.size(), " that are joined");
    if (std::exchange(by_number[size_t(number)], &part))
      fail(ErrorKind::usage, "part ", number + 1, " of ", of, " is there twice, and would count twice");
    if (part.compared != first.compared)
      fail(ErrorKind::usage,
           "one part was compared with FP32, and another had no such model; name it as the reference, where all "
           "workers find it");
    if (part.precision != first.precision || part.batch != first.batch || part.placeholder != first.placeholder ||
        part.samples != first.samples || part.left_out.size() != first.left_out.size())
      fail(ErrorKind::usage, "the parts are not of one evaluation: of other engines, batches or pictures");
    batches += part.batches.size();
  }
  std::vector<ScoredBatch> in_order;
  for (size_t i = 0; i < batches; ++i) {
    const EvaluatedPart& part = *by_number[i % parts.size()];
    if (i / parts.size() >= part.batches.size())
      fail(ErrorKind::usage, "part ", part.share.number + 1, " of ", parts.size(), " lacks a batch");
    in_order.push_back(part.batches[i / parts.size()]);
  }
  Evaluated whole;
  if (!in_order.empty()) whole.evaluation = join_batches(in_order).at(0);
  if (whole.evaluation.samples != first.samples)
    fail(ErrorKind::usage, "the parts hold ", whole.evaluation.samples, " of ", first.samples, " samples");
  whole.engine = first.engine;
  whole.precision = first.precision;
  whole.placeholder = first.placeholder;
  whole.batch = first.batch;
  whole.left_out = first.left_out;
  check_came_out(whole.evaluation, metric, first.compared);
  return whole;
}

Evaluated evaluate(DataModel& model, DataModel* reference, const EvaluateOptions& options) {
  return join_parts({evaluate_part(model, reference, options, {})}, options.metric);
}

nlohmann::ordered_json json_of(const Evaluated& evaluated, const std::string& model) {
  auto json = json_of(evaluated.evaluation);
  json["model"] = model;
  json["precision"] = evaluated.precision;
  json["placeholder"] = evaluated.placeholder;
  json["batch"] = evaluated.batch;
  json["left_out"] = json_of(evaluated.left_out);
  return json;
}

}  // namespace temper
