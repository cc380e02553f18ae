// SPDX-License-Identifier: Apache-2.0
#include "evaluate/engines.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/log.h"
#include "data/pooled.h"
#include "data/sample.h"

namespace temper {

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
bool is_text(const Dataset& data) { return data.token_input() >= 0 && !data.has_labels(); }

// The input whose tokens the output `classes` foretells, or -1. That nothing in it depends on later tokens is tried on
// the first batch: other models of text, which see both ways, know the token that they would have to foretell.
int foretold_input(const EvaluationData& what, Session& session, int classes) {
  if (classes < 0 || !is_text(what.data) || what.samples.empty()) return -1;
  const size_t count = std::min(size_t(what.batch.size), what.samples.size());
  Batch batch = gather_batch(what.data, std::span(what.samples).subspan(0, count));
  const int input = what.data.token_input();
  Tensor& tokens = batch.inputs[size_t(input)];
  const size_t positions = batch.is_token.size() / count;
  size_t at = batch.is_token.size();  // the last token that has another one before it
  do
    if (at-- == 0) return -1;
  while (at % positions == 0 || !batch.is_token[at] || !batch.is_token[at - 1]);
  const auto answer = [&] { return run_batch(session, what.data, batch, what.batch)[size_t(classes)]; };
  const Tensor before = answer();
  if (before.rank() != 3 || before.dims()[0] * before.dims()[1] != tokens.count() || before.dims()[2] < 2) return -1;
  std::vector<int64_t> ids = tokens.to_ints();
  const int64_t kinds = before.dims()[2];
  if (*std::ranges::max_element(ids) >= kinds) return -1;
  ids[at] += ids[at] > 0 ? -1 : 1;
  tokens = Tensor::of<int64_t>(tokens.dims(), ids).converted(tokens.dtype());
  const std::vector<double> x = before.to_doubles(), y = answer().to_doubles();
  double largest = 0, apart = 0;
  for (size_t i = 0; i < at * size_t(kinds); ++i) {
    largest = std::max(largest, std::abs(x[i]));
    apart = std::max(apart, std::abs(x[i] - y[i]));
  }
  return apart <= 1e-5 * largest ? input : -1;
}
}  // namespace

std::vector<ScoredBatch> score_batches(const EvaluationData& what, const std::shared_ptr<const Engine>& reference,
                                       const std::vector<std::shared_ptr<const Engine>>& tested,
                                       const Progress& progress) {
  std::vector<TensorType> types;
  const std::vector<std::string> names = output_names(*tested.at(0), types);
  Engines pooled;                      // the first to be tested, on each device
  std::vector<PoolSessions> sessions;  // of those to be tested, and of the reference
  std::unordered_set<uint64_t> calibrated;
  const auto check = [&](const Engine& engine) {
    bool same = engine.outputs().size() == names.size();
    for (size_t i = 0; same && i < names.size(); ++i) same = engine.outputs()[i].name == names[i];
    if (!same) fail(ErrorKind::usage, "the two have outputs of other names, so their answers cannot be compared");
  };
  for (const auto& engine : tested) {
    check(*engine);
    Engines engines = engines_on(engine, what.devices, what.settings);
    if (pooled.empty()) pooled = engines;
    sessions.emplace_back(std::move(engines));
    calibrated.insert(engine->info().calibration_hashes.begin(), engine->info().calibration_hashes.end());
    if (engine->info().placeholder)
      log(LogLevel::warning, "calibrated on noise: these figures are meaningless for accuracy");
  }
  if (reference) {
    check(*reference);
    calibrated.insert(reference->info().calibration_hashes.begin(), reference->info().calibration_hashes.end());
    sessions.emplace_back(engines_on(reference, what.devices, what.settings));
  }
  const int classes = classes_output(names, types, what.classes, is_text(what.data));
  const bool labelled = what.data.has_labels();
  check_classes(what, names, types, classes);
  const int tokens = foretold_input(what, sessions[0].at(0), classes);
  std::vector<ScoredBatch> scored;
  const auto score = [&](size_t device, const Batch& batch) {
    check_no_overlap(calibrated, batch);
    ScoredBatch one;
    NotFinite& broken = one.broken;
    const std::vector<Tensor> wanted =
        reference ? run_batch(sessions.back().at(device), what.data, batch, what.batch) : std::vector<Tensor>();
    for (size_t i = 0; i < batch.inputs.size(); ++i)
      broken.look(concat("the input '", tested[0]->inputs()[i].name, "'"), batch.inputs[i], batch.names);
    for (size_t i = 0; i < wanted.size(); ++i)
      broken.look(concat("the output '", names[i], "' of the reference"), wanted[i], batch.names);
    for (size_t e = 0; e < tested.size(); ++e) {
      const std::vector<Tensor> got = run_batch(sessions[e].at(device), what.data, batch, what.batch);
      for (size_t i = 0; i < got.size(); ++i)
        broken.look(
            concat("the output '", names[i], "'", tested.size() > 1 ? concat(" in ", tested[e]->info().precision) : ""),
            got[i], batch.names);
      Evaluator evaluator(names, classes, labelled, reference != nullptr, tokens);
      evaluator.add(batch, wanted, got);
      one.evaluations.push_back(evaluator.result());
    }
    return one;
  };
  Pool pool = pool_of(pooled);
  for_each_batch(pool, what.data, what.samples, what.batch, "evaluating", progress,
                 [&](size_t device, const Batch& batch) -> Pool::Finish {
                   return [&scored, one = score(device, batch)] { scored.push_back(one); };
                 });
  return scored;
}

std::vector<Evaluation> join_batches(const std::vector<ScoredBatch>& batches) {
  std::vector<Evaluation> results(batches.empty() ? 0 : batches[0].evaluations.size());
  NotFinite broken;
  for (const ScoredBatch& batch : batches) {
    broken.join(batch.broken.found());
    for (size_t e = 0; e < results.size(); ++e) join(results[e], batch.evaluations.at(e));
  }
  if (!results.empty())
    for (const std::string& warning : broken.warnings(results[0].samples))
      log(LogLevel::warning, warning, "; look at the data and at the preprocessing");
  std::set<std::string> warned;  // the reference is the same one beside each
  for (const Evaluation& evaluation : results)
    for (const auto* accuracy : {&evaluation.reference_accuracy, &evaluation.accuracy})
      if (*accuracy)
        if (const std::string warning = chance_warning(**accuracy); !warning.empty() && warned.insert(warning).second)
          log(LogLevel::warning, warning);
  return results;
}

std::vector<Evaluation> evaluate_engines(const EvaluationData& what, const std::shared_ptr<const Engine>& reference,
                                         const std::vector<std::shared_ptr<const Engine>>& tested,
                                         const Progress& progress) {
  return join_batches(score_batches(what, reference, tested, progress));
}

ReferenceAnswers keep_answers(const EvaluationData& what, const std::shared_ptr<const Engine>& reference,
                              const Progress& progress) {
  constexpr int64_t kMostBytes = int64_t(512) << 20;
  ReferenceAnswers kept;
  Session session(reference);
  std::vector<TensorType> types;
  const std::vector<std::string> names = output_names(*reference, types);
  const int classes = classes_output(names, types, what.classes, is_text(what.data));
  check_classes(what, names, types, classes);
  kept.tokens = foretold_input(what, session, classes);
  Evaluator own(names, classes, what.data.has_labels(), false);
  int64_t bytes = 0;
  for (size_t first = 0; first < what.samples.size() && bytes < kMostBytes; first += size_t(what.batch.size)) {
    tell(progress, {"answers of FP32", double(first), double(what.samples.size()), "samples"});
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

Evaluation evaluate_beside(EvaluationData& what, const ReferenceAnswers& reference,
                           const std::shared_ptr<const Engine>& tested) {
  std::vector<TensorType> types;
  const std::vector<std::string> names = output_names(*tested, types);
  Evaluator evaluator(names, classes_output(names, types, what.classes, is_text(what.data)), what.data.has_labels(),
                      true, reference.tokens);
  EnginePool on(engines_on(tested, what.devices, what.settings));
  on.pool.run(int64_t(reference.batches.size()), [&](size_t device, int64_t piece) -> Pool::Finish {
    const Batch& batch = reference.batches[size_t(piece)];
    return [&, piece, outputs = run_batch(on.sessions.at(device), what.data, batch, what.batch)] {
      evaluator.add(batch, reference.outputs[size_t(piece)], outputs);
    };
  });
  for (size_t d = on.pool.size(); d-- > 0;)
    if (!on.pool.loss(d).empty()) what.devices.erase(what.devices.begin() + std::ptrdiff_t(d));
  return evaluator.result();
}

}  // namespace temper
