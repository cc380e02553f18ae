// SPDX-License-Identifier: Apache-2.0
#include "evaluate/part.h"

#include <cmath>
#include <limits>

#include "base/json_struct.h"

namespace temper {

namespace {

// JSON has no infinity, and sums of what is not finite are: null.
struct MaybeInfinite {
  void write(strict::Json& out, double value) const {
    if (std::isfinite(value)) out = value;
    else out = nullptr;
  }
  void read(const JsonInput& in, double& value) const {
    value = in.is_null() ? std::numeric_limits<double>::infinity() : in.number();
  }
};

}  // namespace

template <class V, Is<Accuracy> T>
static void json_fields(V& v, T& accuracy) {
  v.field("n", accuracy.n);
  v.field("classes", accuracy.classes);
  v.field("top1", accuracy.top1);
  v.field("top5", accuracy.top5);
}

template <class V, Is<McNemar> T>
static void json_fields(V& v, T& pairs) {
  v.field("n", pairs.n);
  v.field("lost", pairs.lost);
  v.field("won", pairs.won);
}

template <class V, Is<Agreement> T>
static void json_fields(V& v, T& agreement) {
  v.field("n", agreement.n);
  v.field("same", agreement.same);
  v.field("positions", agreement.positions);
}

template <class V, Is<Perplexity> T>
static void json_fields(V& v, T& perplexity) {
  v.field("n", perplexity.n);
  v.field("nll", perplexity.nll, MaybeInfinite());
}

template <class V, Is<OutputDifference> T>
static void json_fields(V& v, T& difference) {
  v.field("output", difference.output);
  v.field("samples", difference.samples);
  v.field("signal", difference.signal, MaybeInfinite());
  v.field("noise", difference.noise, MaybeInfinite());
  v.field("max_difference", difference.max_difference, MaybeInfinite());
  v.field("max_sample", difference.max_sample);
  v.field("largest", difference.largest);
  v.field("cosine_sum", difference.cosine_sum);
  v.field("least_cosine", difference.least_cosine);
  v.field("least_cosine_sample", difference.least_cosine_sample);
}

template <class V, Is<Evaluation> T>
static void json_fields(V& v, T& evaluation) {
  v.field("samples", evaluation.samples);
  v.field("output", evaluation.output);
  v.field("accuracy", evaluation.accuracy);
  v.field("reference_accuracy", evaluation.reference_accuracy);
  v.field("mcnemar", evaluation.mcnemar);
  v.field("agreement", evaluation.agreement);
  v.field("perplexity", evaluation.perplexity);
  v.field("reference_perplexity", evaluation.reference_perplexity);
  v.field("differences", evaluation.differences);
}

template <class V, Is<NotFinite::Found> T>
static void json_fields(V& v, T& found) {
  v.field("values", found.values);
  v.field("samples", found.samples);
  v.field("sample", found.sample);
  v.field("value", found.value);
  v.field("index", found.index);
}

template <class V, Is<ScoredBatch> T>
static void json_fields(V& v, T& batch) {
  v.field("evaluations", batch.evaluations);
  std::map<std::string, NotFinite::Found> found = batch.broken.found();
  v.field("broken", found);
  if constexpr (V::kReads) batch.broken.join(found);
}

namespace {

// Pictures, each with the kind and the words of its error.
struct LeftOut {
  struct Stored {
    int64_t sample = 0, kind = int64_t(ErrorKind::bad_file);
    std::string name, why;
  };
  void write(strict::Json& out, const std::vector<Unreadable>& left_out) const;
  void read(const JsonInput& in, std::vector<Unreadable>& left_out) const;
};

}  // namespace

template <class V, Is<LeftOut::Stored> T>
static void json_fields(V& v, T& one) {
  v.field("sample", one.sample);
  v.field("name", one.name);
  v.field("kind", one.kind, Within{int64_t(ErrorKind::check_failed), int64_t(ErrorKind::machine)});
  v.field("why", one.why);
}

void LeftOut::write(strict::Json& out, const std::vector<Unreadable>& left_out) const {
  std::vector<Stored> stored;
  stored.reserve(left_out.size());
  for (const Unreadable& one : left_out)
    stored.push_back({one.sample, int64_t(one.error.kind()), one.name, one.error.what()});
  write_json(out, stored);
}

void LeftOut::read(const JsonInput& in, std::vector<Unreadable>& left_out) const {
  std::vector<Stored> stored;
  read_json(in, stored);
  left_out.reserve(stored.size());
  for (const Stored& one : stored) left_out.push_back({one.sample, one.name, Error(ErrorKind(one.kind), one.why)});
}

template <class V, Is<EvaluatedPart> T>
static void json_fields(V& v, T& part) {
  v.field("number", part.share.number, Within{0});
  v.field("of", part.share.of, Within{1});
  v.field("batches", part.batches);
  v.field("samples", part.samples, Within{0});
  v.field("compared", part.compared);
  v.field("precision", part.precision);
  v.field("placeholder", part.placeholder);
  v.field("batch", part.batch);
  v.field("left_out", part.left_out, LeftOut());
}

std::string to_json(const EvaluatedPart& part) {
  strict::Json json;
  write_json(json, part);
  return strict::dump(json);
}

EvaluatedPart evaluated_part_from_json(std::string_view text) {
  const strict::Json json = strict::parse(text, "the part of an evaluation");
  const JsonInput root(json, "", "a part of an evaluation");
  EvaluatedPart part;
  read_json(root, part);
  return part;
}

}  // namespace temper
