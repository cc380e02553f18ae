// SPDX-License-Identifier: Apache-2.0
#include "cli/evaluate_run.h"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "data/not_finite.h"
#include "data/sample.h"

namespace temper::cli {

using Json = nlohmann::ordered_json;

namespace {
std::vector<std::string> output_names(const Engine& engine, std::vector<TensorType>& types) {
  std::vector<std::string> names;
  for (const PortInfo& output : engine.outputs()) names.push_back(output.name), types.push_back(output.type);
  return names;
}
void check_classes(const EvaluationData& what, const std::vector<std::string>& names,
                   const std::vector<TensorType>& types, int classes) {
  if (classes < 0 || !what.data.has_labels() || types[size_t(classes)].shape.size() == 3) return;
  if (const Dim& dim = types[size_t(classes)].shape[1]; dim.is_constant())
    check_class_count(what.data, dim.value(), names[size_t(classes)]);
}
}  // namespace

std::vector<Evaluation> evaluate_engines(const EvaluationData& what, const std::shared_ptr<const Engine>& reference,
                                         const std::vector<std::shared_ptr<const Engine>>& tested,
                                         const Context& context) {
  std::vector<TensorType> types;
  const std::vector<std::string> names = output_names(*tested.at(0), types);
  std::vector<std::unique_ptr<Session>> sessions;
  std::unordered_set<uint64_t> calibrated;
  const auto check = [&](const Engine& engine) {
    bool same = engine.outputs().size() == names.size();
    for (size_t i = 0; same && i < names.size(); ++i) same = engine.outputs()[i].name == names[i];
    if (!same) fail(ErrorKind::usage, "the two have outputs of other names, so their answers cannot be compared");
  };
  for (const auto& engine : tested) {
    check(*engine);
    sessions.push_back(std::make_unique<Session>(engine));
    calibrated.insert(engine->info().calibration_hashes.begin(), engine->info().calibration_hashes.end());
    if (engine->info().placeholder)
      log(LogLevel::warning, "calibrated on noise: these figures are meaningless for accuracy");
  }
  if (reference) {
    check(*reference);
    calibrated.insert(reference->info().calibration_hashes.begin(), reference->info().calibration_hashes.end());
    sessions.push_back(std::make_unique<Session>(reference));
  }
  const int classes = classes_output(names, types, what.classes);
  const bool labelled = what.data.has_labels();
  check_classes(what, names, types, classes);
  NotFinite broken;
  std::vector<Evaluator> evaluators(tested.size(), Evaluator(names, classes, labelled, reference != nullptr));
  for_each_batch(what.data, what.samples, what.batch, "evaluating", context, [&](const Batch& batch) {
    check_no_overlap(calibrated, batch);
    const std::vector<Tensor> wanted =
        reference ? run_batch(*sessions.back(), what.data, batch, what.batch) : std::vector<Tensor>();
    for (size_t i = 0; i < batch.inputs.size(); ++i)
      broken.look(concat("the input '", tested[0]->inputs()[i].name, "'"), batch.inputs[i], batch.names);
    for (size_t i = 0; i < wanted.size(); ++i)
      broken.look(concat("the output '", names[i], "' of the reference"), wanted[i], batch.names);
    for (size_t e = 0; e < tested.size(); ++e) {
      const std::vector<Tensor> got = run_batch(*sessions[e], what.data, batch, what.batch);
      for (size_t i = 0; i < got.size(); ++i)
        broken.look(
            concat("the output '", names[i], "'", tested.size() > 1 ? concat(" in ", tested[e]->info().precision) : ""),
            got[i], batch.names);
      evaluators[e].add(batch, wanted, got);
    }
  });
  for (const std::string& warning : broken.warnings(int64_t(what.samples.size())))
    log(LogLevel::warning, warning, "; look at the data and at the preprocessing");
  std::vector<Evaluation> results;
  std::set<std::string> warned;  // the reference is the same one beside each
  for (const Evaluator& evaluator : evaluators) results.push_back(evaluator.result());
  for (const Evaluation& evaluation : results)
    for (const auto* accuracy : {&evaluation.reference_accuracy, &evaluation.accuracy})
      if (*accuracy)
        if (const std::string warning = chance_warning(**accuracy); !warning.empty() && warned.insert(warning).second)
          log(LogLevel::warning, warning);
  return results;
}

ReferenceAnswers keep_answers(const EvaluationData& what, const std::shared_ptr<const Engine>& reference,
                              const Context& context) {
  constexpr int64_t kMostBytes = int64_t(512) << 20;
  ReferenceAnswers kept;
  Session session(reference);
  std::vector<TensorType> types;
  const std::vector<std::string> names = output_names(*reference, types);
  const int classes = classes_output(names, types, what.classes);
  check_classes(what, names, types, classes);
  Evaluator own(names, classes, what.data.has_labels(), false);
  int64_t bytes = 0;
  Progress progress(context);
  for (size_t first = 0; first < what.samples.size() && bytes < kMostBytes; first += size_t(what.batch.size)) {
    progress.show(concat("answers of FP32: ", first, " of ", what.samples.size()));
    kept.batches.push_back(gather_batch(
        what.data,
        std::span(what.samples).subspan(first, std::min(size_t(what.batch.size), what.samples.size() - first))));
    kept.outputs.push_back(run_batch(session, what.data, kept.batches.back(), what.batch));
    own.add(kept.batches.back(), {}, kept.outputs.back());
    kept.samples += kept.batches.back().count;
    for (const Tensor& input : kept.batches.back().inputs) bytes += input.bytes();
    for (const Tensor& output : kept.outputs.back()) bytes += output.bytes();
  }
  kept.accuracy = own.result().accuracy;
  return kept;
}

Evaluation evaluate_beside(const EvaluationData& what, const ReferenceAnswers& reference,
                           const std::shared_ptr<const Engine>& tested) {
  std::vector<TensorType> types;
  const std::vector<std::string> names = output_names(*tested, types);
  Evaluator evaluator(names, classes_output(names, types, what.classes), what.data.has_labels(), true);
  Session session(tested);
  for (size_t i = 0; i < reference.batches.size(); ++i)
    evaluator.add(reference.batches[i], reference.outputs[i],
                  run_batch(session, what.data, reference.batches[i], what.batch));
  return evaluator.result();
}

std::shared_ptr<const Engine> fp32_reference(const std::string& path, const Engine& engine, const EvaluationData& data,
                                             const Context& context, std::string& why) {
  std::string model = path;
  if (is_plan(path)) {
    // The path as recorded, which may be relative to where it was built; or beside the plan, moved together with it.
    const std::filesystem::path recorded = engine.info().source_path;
    model = recorded.string();
    if (!model.empty() && !file_exists(model))
      model = (std::filesystem::path(path).parent_path() / recorded.filename()).string();
    if (model.empty() || !file_exists(model))
      why = concat("the model that the plan was built from ('", recorded.string(), "') is not there");
    else if (sha256_of_file(model) != engine.info().model_sha256)
      why = concat("'", model, "' is no longer the model that the plan was built from");
    if (!why.empty()) {
      why += "; name it with --reference MODEL";
      return nullptr;
    }
  }
  ModelFlags plain;
  plain.threads = engine.threads();
  plain.device = engine.info().device;
  DataModel built(model, plain, context);
  return built.engine(data.data, data.batch, int64_t(data.samples.size()), false);
}

std::string decibel_text(double db) {
  if (!std::isfinite(db)) return db > 0 ? "no difference" : "lost";
  char text[32];
  std::snprintf(text, sizeof text, "%.1f dB", db);
  return text;
}

std::string mcnemar_text(const McNemar& pairs) {
  char text[160];
  const Interval interval = pairs.drop_interval();
  std::snprintf(text, sizeof text,
                "%lld lost, %lld won of %lld (McNemar, exact p = %.3g); drop %.2f points, 95 %% interval %.2f to %.2f",
                static_cast<long long>(pairs.lost), static_cast<long long>(pairs.won), static_cast<long long>(pairs.n),
                pairs.p(), 100 * pairs.drop(), 100 * interval.low, 100 * interval.high);
  return text;
}

Json json_of(const Evaluation& evaluation) {
  const auto rate = [](int64_t right, double share, const Interval& interval) {
    return Json{{"rate", share}, {"right", right}, {"ci95", {interval.low, interval.high}}};
  };
  const auto finite = [](double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); };
  Json json = {{"samples", evaluation.samples}};
  if (const auto& a = evaluation.accuracy) {
    json["classes"] = a->classes;
    json["output"] = evaluation.output;
    json["top1"] = rate(a->top1, a->top1_rate(), a->top1_interval());
    if (const std::string guessing = chance_warning(*a); !guessing.empty()) json["top1"]["warning"] = guessing;
    json["top5"] = a->classes > 5 ? rate(a->top5, a->top5_rate(), a->top5_interval()) : Json(nullptr);
  }
  if (const auto& a = evaluation.reference_accuracy)
    json["reference_top1"] = rate(a->top1, a->top1_rate(), a->top1_interval());
  if (const auto& m = evaluation.mcnemar)
    json["mcnemar"] = {{"lost", m->lost},
                       {"won", m->won},
                       {"p", m->p()},
                       {"drop", m->drop()},
                       {"drop_ci95", {m->drop_interval().low, m->drop_interval().high}}};
  if (const auto& a = evaluation.agreement)
    json["agreement"] = {{"of", a->positions ? "positions" : "samples"},
                         {"n", a->n},
                         {"rate", a->rate()},
                         {"same", a->same},
                         {"ci95", {a->interval().low, a->interval().high}}};
  for (const OutputDifference& d : evaluation.differences)
    json["outputs"].push_back({{"output", d.output},
                               {"cosine", d.cosine()},
                               {"least_cosine", d.least_cosine},
                               {"least_cosine_sample", d.least_cosine_sample},
                               {"snr_db", finite(d.snr_db())},
                               {"max_difference", finite(d.max_difference)},
                               {"max_sample", d.max_sample}});
  return json;
}

void print_evaluation(const Evaluation& evaluation) {
  Table rates{{{"metric", false}, {"share"}, {"95 % interval (Wilson)"}, {"count"}, {"of"}}, {}};
  const auto row = [&](const char* name, int64_t right, int64_t n, double rate, const Interval& interval) {
    rates.rows.push_back({name, percent_text(rate), percent_text(interval.low) + " to " + percent_text(interval.high),
                          concat(right), concat(n)});
  };
  if (const auto& a = evaluation.accuracy) {
    row("top-1", a->top1, a->n, a->top1_rate(), a->top1_interval());
    // Of five classes or fewer, the right one is always among the best five.
    if (a->classes > 5) row("top-5", a->top5, a->n, a->top5_rate(), a->top5_interval());
  }
  if (const auto& a = evaluation.reference_accuracy)
    row("top-1 of the reference", a->top1, a->n, a->top1_rate(), a->top1_interval());
  if (const auto& a = evaluation.agreement)
    row(a->positions ? "agreement of positions" : "agreement", a->same, a->n, a->rate(), a->interval());
  if (!rates.rows.empty()) std::fputs(terminal_table(rates).c_str(), stdout);
  if (evaluation.mcnemar) std::printf("against the reference: %s\n", mcnemar_text(*evaluation.mcnemar).c_str());
  if (evaluation.differences.empty()) return;
  Table outputs{{{"output", false}, {"cosine"}, {"least cosine"}, {"SNR"}, {"largest difference"}, {"sample"}}, {}};
  for (const OutputDifference& d : evaluation.differences)
    outputs.rows.push_back({d.output, format_number(d.cosine(), 6), format_number(d.least_cosine, 6),
                            decibel_text(d.snr_db()), format_number(d.max_difference), concat(d.max_sample)});
  std::fputs(terminal_table(outputs).c_str(), stdout);
}

}  // namespace temper::cli
